// Hooks for what the server says.

import { useCallback, useEffect, useRef, useState } from "react";
import { asProblem, isAborted, type Problem, type Query } from "./client";
import { follow, type Link } from "./follow";
import { onReach } from "./reach";
import type { Message } from "./sse";

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  loading: boolean;
  reload(): void;
}

/** Loads when `key` changes; keeps the old value while the same thing is loaded again. null loads nothing. */
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
  // What could not be loaded because nobody answered is asked for again when somebody does.
  const unanswered = state.problem?.status === 0;
  useEffect(() => (unanswered ? onReach((reached) => { if (reached) reload(); }) : undefined), [unanswered, reload]);
  const mine = state.key === key;
  return {
    value: mine ? state.value : null,
    // What is shown stays, and the page says once for all of it that nobody answers.
    problem: mine && !(unanswered && state.value !== null) ? state.problem : null,
    loading: key !== null && (!mine || state.loading),
    reload,
  };
}

interface FollowOptions {
  query?: Query;
  lastId?: () => string | null;
  onMessages(messages: Message[]): void;
  onAgain?(): void;
}

/** Follows a stream while the component is there. null follows nothing. */
export function useFollow(path: string | null, options: FollowOptions): Link {
  const [link, setLink] = useState<Link>("connecting");
  const current = useRef(options);
  current.current = options;
  const query = JSON.stringify(options.query ?? {});
  useEffect(() => {
    if (path === null) return undefined;
    return follow(path, {
      query: JSON.parse(query) as Query,
      lastId: current.current.lastId?.() ?? null,
      onMessages: (messages) => current.current.onMessages(messages),
      onAgain: () => current.current.onAgain?.(),
      onLink: setLink,
    });
  }, [path, query]);
  return link;
}

/** At most one call in `ms`, the last one never lost. */
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

/** Calls again and again while somebody looks. */
export function useEvery(ms: number | null, call: () => void): void {
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
