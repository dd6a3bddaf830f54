// How the last reply of a step's agent ended, if it was no complete answer.

import type { Json } from "../api/types";

const TEXTS: Record<string, string> = {
  length: "cut off at its maximum length",
  refusal: "refused by the model",
  filtered: "withheld by the model service",
  empty: "empty",
  stalled: "missing: the agent repeats the same calls",
};

/** The stop of a step's output, or null if its answer is complete or it has no agent. */
export function stopOf(output: Json | undefined | null): string | null {
  if (output === null || output === undefined || typeof output !== "object" || Array.isArray(output)) return null;
  const { stop } = output;
  return typeof stop === "string" && stop in TEXTS ? stop : null;
}

export function stopText(stop: string): string {
  return TEXTS[stop] ?? stop;
}
