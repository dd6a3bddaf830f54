// The events of one step or iteration. The server filters them by path and start time.

import { api } from "./index";
import { isEvent } from "./types";
import type { Event, Json, Step } from "./types";
import type { EventOf } from "./events";

type EndEvent = EventOf<"step.done" | "step.failed" | "step.skipped" | "loop.iteration.done">;

/** The maximum number of page requests: the server scans thousands of events for each. */
const MAX_PAGES = 20;

export interface StepValues {
  input?: Json;
  output?: Json;
}

/** Fetches the events of a path and of everything inside it, until the path has ended. */
export async function eventsAt(run: string, path: string, since: string | null | undefined, signal: AbortSignal): Promise<Event[]> {
  const found: Event[] = [];
  let after: number | string = 0;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const { items, next } = await api.events(run, { path, since: since ?? null, after, limit: 500 }, signal);
    found.push(...items.filter((event) => event.path !== ""));
    if (next === null || next === undefined || found.some((event) => event.path === path && isEnd(event))) break;
    after = next;
  }
  return found;
}

function isEnd(event: Event): event is Event & EndEvent {
  return isEvent(event, "step.done", "step.failed", "step.skipped", "loop.iteration.done");
}

/** Extracts the input and output of a step. A step that consists of one task takes the input of the task. */
export function stepValues(events: Event[], path: string): StepValues {
  const last = (mine: Event[], keys: string[]): Json | undefined => {
    const values = mine.flatMap((event) => keys.map((key) => event[key] as Json | undefined)).filter((value) => value !== undefined && value !== null);
    return values.at(-1);
  };
  const own = events.filter((event) => event.path === path);
  const tasks = events.filter((event) => event.type.startsWith("task."));
  const input = last(own, ["input"]) ?? last(tasks, ["input"]);
  const output = last(own.filter(isEnd), ["output", "result"]) ?? last(own, ["output", "result"]);
  return { ...(input === undefined ? {} : { input }), ...(output === undefined ? {} : { output }) };
}

/** Builds the direct child steps of a path from its events, in order and in the shape of the timeline. */
export function childSteps(events: Event[], parent: string): Step[] {
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
