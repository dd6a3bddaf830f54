// The turns that a list shows: page by page as they are wanted, and again while the loop goes on.

import { useCallback, useEffect, useRef, useState } from "react";
import { api, asProblem, type Problem } from "../../api";
import { isAborted } from "../../api/client";
import { askedAgain, merged, othersFrom, PAGE, type Listed, type Window } from "../../lib/turns";

/** Failed ones before the others, all as they come, or failed ones alone. */
export type Which = "first" | "order" | "failed";

interface Wanted {
  id: string;
  path: string;
  which: Which;
  /** Turns before it are left out. */
  start: number | null;
  known: number | null;
  failed: number;
  live: boolean;
  /** Another list is there. */
  onOther(): void;
  /** The same list is about to change. */
  onChange(): void;
}

/** Where each part is asked for again; null: it was gone through. */
type Reached = { [part in keyof Listed]: number | null };

export function useListed({ id, path, which, start, known, failed, live, onOther, onChange }: Wanted) {
  const [list, setList] = useState<Listed | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const shown = `${id} ${path} ${which} ${start ?? ""}`;
  const current = useRef({ shown, onOther, onChange });
  current.current = { shown, onOther, onChange };
  const first = start ?? 0;
  const ask = useCallback(
    (part: keyof Listed, from: number, limit: number, signal?: AbortSignal) => api.turns(id, { loop: path, failed: part === "failed" || which === "failed" || null, from, limit }, signal),
    [id, path, which],
  );
  const reached = useRef<Reached>({ failed: null, rest: null });
  useEffect(() => {
    const abort = new AbortController();
    busy.current = true;
    reached.current = { failed: null, rest: null };
    const page = async (part: keyof Listed): Promise<Window> => {
      const { turns, next } = await ask(part, first, PAGE, abort.signal);
      return { turns, next: next ?? null };
    };
    // More than a page of failed ones: the others are asked for when somebody comes to them.
    const begin = async (): Promise<Listed> => {
      const bad = which === "first" ? await page("failed") : null;
      return { failed: bad, rest: bad === null || bad.next === null ? await page("rest") : { turns: [], next: first } };
    };
    begin().then(
      (now) => {
        if (abort.signal.aborted) return;
        setList(now);
        setProblem(null);
        current.current.onOther();
        busy.current = false;
      },
      (error: unknown) => {
        if (abort.signal.aborted || isAborted(error)) return;
        busy.current = false;
        setProblem(asProblem(error));
      },
    );
    return () => abort.abort();
  }, [ask, which, first, start, round]);

  /** Nothing else is asked for meanwhile; an answer for a list that is no longer shown is dropped. */
  const change = useCallback(
    (make: () => Promise<Listed>, failing: (error: unknown) => void) => {
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
          failing(error);
        },
      );
    },
    [shown],
  );

  const more = useCallback(() => {
    if (busy.current || list === null) return;
    const part = list.failed !== null && list.failed.next !== null ? "failed" : "rest";
    const next = list[part]?.next ?? null;
    if (next === null) return;
    const { from, limit } = part === "rest" ? othersFrom(next, list) : { from: next, limit: PAGE };
    change(
      async () => ({ ...list, [part]: merged(list[part] ?? list.rest, from, await ask(part, from, limit)) }),
      (error) => setProblem(asProblem(error)),
    );
  }, [ask, change, list]);

  // A loop that goes on: turns side by side end in any order, so what is shown is asked for again, and a page more. A long
  // list piece by piece, one with each news, and to its end when the loop has ended.
  const wasLive = useRef(false);
  wasLive.current ||= live;
  const news = `${known ?? ""} ${failed} ${live}`;
  const heard = useRef("");
  useEffect(() => {
    const at = reached.current;
    const fresh = heard.current !== news;
    const left = at.failed !== null || at.rest !== null;
    if (!wasLive.current || list === null || busy.current || !(fresh || (left && !live))) return;
    heard.current = news;
    const again = async (part: keyof Listed): Promise<Window | null> => {
      if (list[part] === null || (!fresh && at[part] === null)) return list[part];
      const from = fresh && !live ? first : (at[part] ?? first);
      const { now, next } = await askedAgain(list, part, from, (start, limit) => ask(part, start, limit));
      at[part] = next;
      return now;
    };
    change(
      async () => {
        const [bad, rest] = await Promise.all([again("failed"), again("rest")]);
        return { failed: bad, rest: rest ?? list.rest };
      },
      // The next news ask again.
      () => (heard.current = ""),
    );
  }, [ask, change, first, news, live, list]);
  return { list, problem, more, retry: () => setRound(round + 1) };
}
