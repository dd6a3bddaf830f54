// Groups failures into kinds. Messages of one kind differ only in numbers and quoted values.

import type { IterationRecord } from "../api/types";

export interface FailureKind {
  key: string;
  code: string;
  /** The full message of the first failure of this kind. */
  message: string;
  iterations: number;
  first: number;
  last: number;
}

/** Replaces numbers and quoted values with placeholders: `` `x17` is no number `` and `` `y3` is no number `` give the same template. */
export function messageTemplate(message: string): string {
  return message
    .replace(/`[^`]*`|"[^"]*"|'[^']*'|“[^”]*”/g, "…")
    .replace(/\b[0-9a-f]{8,}(-[0-9a-f]{4,})*\b/gi, "…")
    .replace(/\d+(\.\d+)?/g, "#")
    .slice(0, 300);
}

/** The path in the plan: the path in the run without iteration numbers. */
function planPath(path: string | undefined): string {
  return (path ?? "").replace(/\[\d+\]/g, "[]").replace(/\.\d+(?=\.|$)/g, "");
}

/** Groups failed iterations by kind, the most frequent kind first; ties are ordered by first occurrence. */
export function groupFailures(failures: IterationRecord[]): FailureKind[] {
  const kinds = new Map<string, FailureKind>();
  for (const failure of failures) {
    const code = failure.error?.code ?? failure.status;
    const message = failure.error?.message ?? failure.status.replaceAll("_", " ");
    const key = `${code}\n${planPath(failure.error?.path)}\n${messageTemplate(message)}`;
    const known = kinds.get(key);
    if (known) {
      known.iterations += 1;
      known.first = Math.min(known.first, failure.iteration);
      known.last = Math.max(known.last, failure.iteration);
    } else kinds.set(key, { key, code, message, iterations: 1, first: failure.iteration, last: failure.iteration });
  }
  return [...kinds.values()].sort((one, other) => other.iterations - one.iterations || one.first - other.first);
}
