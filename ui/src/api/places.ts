// What a run has told of one place: the server looks for it, from the time on at which it began.

import { api } from "./index";
import { isEvent } from "./types";
import type { Event, Json, Step } from "./types";
import type { EventOf } from "./events";

type End = EventOf<"step.done" | "step.failed" | "step.skipped" | "loop.iteration.done">;

/** Pages that are asked for at most: each of them looks at thousands of events. */
const PAGES = 20;

export interface Values {
  input?: Json;
  output?: Json;
}

/** The events of a place and of what is inside of it, until it has ended. */
export async function eventsAt(run: string, path: string, since: string | null | undefined, signal: AbortSignal): Promise<Event[]> {
  const found: Event[] = [];
  let after: number | string = 0;
  for (let page = 0; page < PAGES; page += 1) {
    const { items, next } = await api.events(run, { path, since: since ?? null, after, limit: 500 }, signal);
    found.push(...items.filter((event) => event.path !== ""));
    if (next === null || next === undefined || found.some((event) => event.path === path && isEnd(event))) break;
    after = next;
  }
  return found;
}

function isEnd(event: Event): event is Event & End {
  return isEvent(event, "step.done", "step.failed", "step.skipped", "loop.iteration.done");
}

/** What went in and came out. A step that is one task has what the task was given. */
export function valuesOf(events: Event[], path: string): Values {
  const last = (mine: Event[], keys: string[]): Json | undefined => {
    const said = mine.flatMap((event) => keys.map((key) => event[key] as Json | undefined)).filter((value) => value !== undefined && value !== null);
    return said.at(-1);
  };
  const own = events.filter((event) => event.path === path);
  const tasks = events.filter((event) => event.type.startsWith("task."));
  const input = last(own, ["input"]) ?? last(tasks, ["input"]);
  const output = last(own.filter(isEnd), ["output", "result"]) ?? last(own, ["output", "result"]);
  return { ...(input === undefined ? {} : { input }), ...(output === undefined ? {} : { output }) };
}

/** The steps right inside of a place, in order, as the timeline has them. */
export function stepsOf(events: Event[], parent: string): Step[] {
  const steps = new Map<string, Step>();
  for (const event of events) {
    const rest = event.path.startsWith(`${parent}.`) ? event.path.slice(parent.length + 1) : "";
    if (rest === "" || /[.[]/.test(rest) || !event.type.startsWith("step.")) continue;
    const known = steps.get(event.path);
    if (isEvent(event, "step.started")) {
      steps.set(event.path, { path: event.path, name: rest, kind: event.kind, status: "running", started_at: event.at, duration_ms: null });
    } else if (isEnd(event)) {
      const began = known?.started_at ?? event.at;
      const error = event.error as Step["error"];
      steps.set(event.path, {
        path: event.path,
        name: rest,
        kind: known?.kind ?? "",
        status: event.status,
        started_at: began,
        duration_ms: Math.max(0, Date.parse(event.at) - Date.parse(began)),
        ...(error ? { error } : {}),
      });
    }
  }
  return [...steps.values()];
}
