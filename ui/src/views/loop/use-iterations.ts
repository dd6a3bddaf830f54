// Loads the iterations that a list shows: page by page on demand, and again while the loop is running.

import { useCallback, useEffect, useRef, useState } from "react";
import { api, asProblem, type Problem } from "../../api";
import { isAborted } from "../../api/client";
import { mergePage, nextRestRange, PAGE_SIZE, refreshSection, type Section, type Sections } from "../../lib/iterations";

/** Failed iterations first, all in order, or only failed ones. */
export type ListMode = "failed-first" | "in-order" | "failed-only";

interface ListOptions {
  id: string;
  path: string;
  mode: ListMode;
  /** Earlier iterations are omitted. */
  start: number | null;
  known: number | null;
  failed: number;
  live: boolean;
  /** A different list was loaded. */
  onReplace(): void;
  /** The same list is about to change. */
  onChange(): void;
}

/** The start of the next chunk to refresh, by section; null if the section is up to date. */
type RefreshCursor = { [section in keyof Sections]: number | null };

export function useIterations({ id, path, mode, start, known, failed, live, onReplace, onChange }: ListOptions) {
  const [list, setList] = useState<Sections | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const shown = `${id} ${path} ${mode} ${start ?? ""}`;
  const current = useRef({ shown, onReplace, onChange });
  current.current = { shown, onReplace, onChange };
  const first = start ?? 0;
  const fetchPage = useCallback(
    (section: keyof Sections, from: number, limit: number, signal?: AbortSignal) => api.iterations(id, { loop: path, failed: section === "failed" || mode === "failed-only" || null, from, limit }, signal),
    [id, path, mode],
  );
  const cursor = useRef<RefreshCursor>({ failed: null, rest: null });
  useEffect(() => {
    const abort = new AbortController();
    busy.current = true;
    cursor.current = { failed: null, rest: null };
    const firstPage = async (section: keyof Sections): Promise<Section> => {
      const { iterations, next } = await fetchPage(section, first, PAGE_SIZE, abort.signal);
      return { iterations, next: next ?? null };
    };
    // If the failed iterations exceed one page, the rest is fetched when the user scrolls to it.
    const loadFirst = async (): Promise<Sections> => {
      const bad = mode === "failed-first" ? await firstPage("failed") : null;
      return { failed: bad, rest: bad === null || bad.next === null ? await firstPage("rest") : { iterations: [], next: first } };
    };
    loadFirst().then(
      (now) => {
        if (abort.signal.aborted) return;
        setList(now);
        setProblem(null);
        current.current.onReplace();
        busy.current = false;
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAborted(error)) return;
        busy.current = false;
        setProblem(asProblem(error));
      },
    );
    return () => abort.abort();
  }, [fetchPage, mode, first, start, round]);

  /** Runs one change at a time. The result is discarded if another list is shown by then. */
  const change = useCallback(
    (make: () => Promise<Sections>, onError: (error: unknown) => void) => {
      busy.current = true;
      make().then(
        (now) => {
          if (current.current.shown !== shown) return;
          busy.current = false;
          current.current.onChange();
          setList(now);
        },
        (error: unknown) => {
          if (current.current.shown !== shown) return;
          busy.current = false;
          onError(error);
        },
      );
    },
    [shown],
  );

  const loadMore = useCallback(() => {
    if (busy.current || list === null) return;
    const section = list.failed !== null && list.failed.next !== null ? "failed" : "rest";
    const next = list[section]?.next ?? null;
    if (next === null) return;
    const { from, limit } = section === "rest" ? nextRestRange(next, list) : { from: next, limit: PAGE_SIZE };
    change(
      async () => ({ ...list, [section]: mergePage(list[section] ?? list.rest, from, await fetchPage(section, from, limit)) }),
      (error) => setProblem(asProblem(error)),
    );
  }, [fetchPage, change, list]);

  // While the loop runs, concurrent iterations end in any order, so the shown part is fetched again, plus one page. A long list is
  // refreshed in chunks, one per update, and completely when the loop has ended.
  const wasLive = useRef(false);
  wasLive.current ||= live;
  const update = `${known ?? ""} ${failed} ${live}`;
  const handled = useRef("");
  useEffect(() => {
    const at = cursor.current;
    const fresh = handled.current !== update;
    const unfinished = at.failed !== null || at.rest !== null;
    if (!wasLive.current || list === null || busy.current || !(fresh || (unfinished && !live))) return;
    handled.current = update;
    const refresh = async (section: keyof Sections): Promise<Section | null> => {
      if (list[section] === null || (!fresh && at[section] === null)) return list[section];
      const from = fresh && !live ? first : (at[section] ?? first);
      const { now, next } = await refreshSection(list, section, from, (start, limit) => fetchPage(section, start, limit));
      at[section] = next;
      return now;
    };
    change(
      async () => {
        const [bad, rest] = await Promise.all([refresh("failed"), refresh("rest")]);
        return { failed: bad, rest: rest ?? list.rest };
      },
      // The next update tries again.
      () => (handled.current = ""),
    );
  }, [fetchPage, change, first, update, live, list]);
  return { list, problem, loadMore, retry: () => setRound(round + 1) };
}
