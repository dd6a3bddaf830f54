// Data of a loop's iterations that only events carry: the verdicts of judges and the usage of each iteration.

import { useEffect, useRef, useState } from "react";
import { api, type Event, type Json, type Usage } from "../../api";
import { isEvent } from "../../api/types";

export interface IterationExtras {
  verdict?: Json;
  usage?: Usage;
}

const PAGE_SIZE = 2000;
/** Loops that call models have few iterations; of a longer history only the beginning is read. */
const MAX_PAGES = 10;

/** Reads the extras of a loop's iterations. Only loops that count their usage (`counts`) have any. */
export function useIterationExtras(run: string, loop: string, counts: boolean, iterations: number | null): Map<number, IterationExtras> {
  const [extras, setExtras] = useState<Map<number, IterationExtras>>(new Map());
  const cursor = useRef({ loop: "", after: 0, pages: 0 });
  useEffect(() => {
    if (!counts) return undefined;
    const abort = new AbortController();
    if (cursor.current.loop !== `${run} ${loop}`) {
      cursor.current = { loop: `${run} ${loop}`, after: 0, pages: 0 };
      setExtras(new Map());
    }
    const read = async () => {
      const at = cursor.current;
      while (at.pages < MAX_PAGES && !abort.signal.aborted) {
        const page = await api.events(run, { after: at.after, limit: PAGE_SIZE }, abort.signal);
        if (page.items.length === 0) return;
        setExtras((old) => collectExtras(old, page.items, loop));
        at.after = page.items.at(-1)?.seq ?? at.after;
        if (page.next === null || page.next === undefined) return;
        at.pages += 1;
      }
    };
    // The list of iterations is complete without the extras.
    read().catch(() => undefined);
    return () => abort.abort();
  }, [run, loop, counts, iterations]);
  return extras;
}

export function collectExtras(old: Map<number, IterationExtras>, events: Event[], loop: string): Map<number, IterationExtras> {
  const all = new Map(old);
  for (const event of events) {
    if (isEvent(event, "loop.judged") && event.path === loop) {
      const verdict = event.verdict ?? { done: event.done };
      all.set(event.iteration, { ...all.get(event.iteration), verdict: verdict as Json });
    }
    if (isEvent(event, "loop.iteration.done") && event.iteration_usage) {
      const { iteration } = event;
      if (event.path === `${loop}[${iteration}]`) {
        all.set(iteration, { ...all.get(iteration), usage: event.iteration_usage as Usage });
      }
    }
  }
  return all;
}
