// React hooks for loading and following server data.

import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, isAborted, type Problem, type Query } from "./client";
import { follow, type StreamState } from "./follow";
import { onReachabilityChange } from "./reachability";
import type { SseMessage } from "./sse";

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  loading: boolean;
  reload(): void;
}

/** Loads a value whenever `key` changes and keeps the old value while the same key is reloaded. A null key loads nothing. */
export function useLoad<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ key: string | null; value: T | null; problem: Problem | null; loading: boolean }>({
    key: null,
    value: null,
    problem: null,
    loading: key !== null,
  });
  const [round, setRound] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (key === null) return undefined;
    const abort = new AbortController();
    setState((old) => (old.key === key ? { ...old, loading: true } : { key, value: null, problem: null, loading: true }));
    loader.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setState({ key, value, problem: null, loading: false });
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAborted(error)) return;
        setState((old) => ({ ...old, key, problem: asProblem(error), loading: false }));
      },
    );
    return () => abort.abort();
  }, [key, round]);
  const reload = useCallback(() => setRound((old) => old + 1), []);
  // A load that failed because the server was unreachable is repeated when the server is reachable again.
  const unreachable = state.problem?.status === 0;
  useEffect(() => (unreachable ? onReachabilityChange((reachable) => { if (reachable) reload(); }) : undefined), [unreachable, reload]);
  const mine = state.key === key;
  return {
    value: mine ? state.value : null,
    // A value already loaded stays visible; the shell reports once that the server is unreachable.
    problem: mine && !(unreachable && state.value !== null) ? state.problem : null,
    loading: key !== null && (!mine || state.loading),
    reload,
  };
}

interface StreamOptions {
  query?: Query;
  lastId?: () => string | null;
  onMessages(messages: SseMessage[]): void;
  onReconnect?(): void;
}

/** Follows a stream while the component is mounted. A null path follows nothing. */
export function useStream(path: string | null, options: StreamOptions): StreamState {
  const [state, setState] = useState<StreamState>("connecting");
  const current = useRef(options);
  current.current = options;
  const query = JSON.stringify(options.query ?? {});
  useEffect(() => {
    if (path === null) return undefined;
    return follow(path, {
      query: JSON.parse(query) as Query,
      lastId: current.current.lastId?.() ?? null,
      onMessages: (messages) => current.current.onMessages(messages),
      onReconnect: () => current.current.onReconnect?.(),
      onState: setState,
    });
  }, [path, query]);
  return state;
}

/** Calls `call` at most once per `ms`; the last request is never dropped. */
export function useThrottled(call: () => void, ms: number): () => void {
  const current = useRef(call);
  current.current = call;
  const state = useRef<{ last: number; timer: ReturnType<typeof setTimeout> | null }>({ last: 0, timer: null });
  useEffect(() => {
    const mine = state.current;
    return () => {
      if (mine.timer !== null) clearTimeout(mine.timer);
      mine.timer = null;
    };
  }, []);
  return useCallback(() => {
    const mine = state.current;
    if (mine.timer !== null) return;
    const wait = Math.max(0, mine.last + ms - Date.now());
    mine.timer = setTimeout(() => {
      mine.timer = null;
      mine.last = Date.now();
      current.current();
    }, wait);
  }, [ms]);
}

/** Calls `call` every `ms` while the tab is visible. */
export function useInterval(ms: number | null, call: () => void): void {
  const current = useRef(call);
  current.current = call;
  useEffect(() => {
    if (ms === null) return undefined;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") current.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
