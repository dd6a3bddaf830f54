// Many failures are few kinds: what differs between two of a kind are numbers and quoted values.

import type { Turn } from "../api/types";

export interface FailureKind {
  key: string;
  code: string;
  /** Of the first of its kind, whole. */
  message: string;
  turns: number;
  first: number;
  last: number;
}

/** `` `x17` is no number `` and `` `y3` is no number `` are told alike. */
export function shapeOf(message: string): string {
  return message
    .replace(/`[^`]*`|"[^"]*"|'[^']*'|“[^”]*”/g, "…")
    .replace(/\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b/gi, "…")
    .replace(/\d+(\.\d+)?/g, "#")
    .slice(0, 300);
}

/** Where in the plan: turns aside, a step is one place. */
function placeOf(path: string | undefined): string {
  return (path ?? "").replace(/\[\d+\]/g, "[]").replace(/\.\d+(?=\.|$)/g, "");
}

/** The most frequent first; of equally many the earliest. */
export function kindsOf(turns: Turn[]): FailureKind[] {
  const kinds = new Map<string, FailureKind>();
  for (const turn of turns) {
    const code = turn.error?.code ?? turn.status;
    const message = turn.error?.message ?? turn.status.replaceAll("_", " ");
    const key = `${code}\n${placeOf(turn.error?.path)}\n${shapeOf(message)}`;
    const known = kinds.get(key);
    if (known) {
      known.turns += 1;
      known.first = Math.min(known.first, turn.iteration);
      known.last = Math.max(known.last, turn.iteration);
    } else kinds.set(key, { key, code, message, turns: 1, first: turn.iteration, last: turn.iteration });
  }
  return [...kinds.values()].sort((one, other) => other.turns - one.turns || one.first - other.first);
}
