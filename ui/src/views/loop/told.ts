// What a run tells of a loop's turns in its events alone: verdicts of judges, and what each turn has used.

import { useEffect, useRef, useState } from "react";
import { api, type Event, type Json, type Usage } from "../../api";
import { isEvent } from "../../api/types";

export interface Told {
  verdict?: Json;
  usage?: Usage;
}

const PAGE = 2000;
/** Loops that ask models have few turns; of a longer history only the beginning is read. */
const PAGES = 10;

/** Only for loops that count what they use: others have nothing to tell. */
export function useTold(run: string, loop: string, counts: boolean, turns: number | null): Map<number, Told> {
  const [told, setTold] = useState<Map<number, Told>>(new Map());
  const reached = useRef({ loop: "", after: 0, pages: 0 });
  useEffect(() => {
    if (!counts) return undefined;
    const abort = new AbortController();
    const at = reached.current;
    if (at.loop !== `${run} ${loop}`) {
      reached.current = { loop: `${run} ${loop}`, after: 0, pages: 0 };
      setTold(new Map());
    }
    const read = async () => {
      const here = reached.current;
      while (here.pages < PAGES && !abort.signal.aborted) {
        const page = await api.events(run, { after: here.after, limit: PAGE }, abort.signal);
        if (page.items.length === 0) return;
        setTold((old) => gathered(old, page.items, loop));
        here.after = page.items.at(-1)?.seq ?? here.after;
        if (page.next === null || page.next === undefined) return;
        here.pages += 1;
      }
    };
    // The list of turns is whole without it.
    read().catch(() => undefined);
    return () => abort.abort();
  }, [run, loop, counts, turns]);
  return told;
}

export function gathered(old: Map<number, Told>, events: Event[], loop: string): Map<number, Told> {
  const all = new Map(old);
  for (const event of events) {
    if (isEvent(event, "loop.judged") && event.path === loop) {
      const verdict = event.verdict ?? { done: event.done };
      all.set(event.iteration, { ...all.get(event.iteration), verdict: verdict as Json });
    }
    if (isEvent(event, "loop.iteration.done") && event.turnUsage) {
      const turn = event.iteration;
      if ([`${loop}[${turn}]`, `${loop}.${turn}`].includes(event.path)) {
        all.set(turn, { ...all.get(turn), usage: event.turnUsage as Usage });
      }
    }
  }
  return all;
}
