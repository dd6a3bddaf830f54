// Lines of the audit log as people read them.

import type { AuditLine } from "../api/types";

export interface Told extends AuditLine {
  /** How the call ended: what a later line has said, too. Null: it succeeded. */
  outcome: number | null;
}

/** Newest first; a line that only says how another ended is told with that one, if it is there. */
export function told(lines: AuditLine[]): Told[] {
  const numbers = new Set(lines.map((line) => line.n));
  const outcomes = new Map(lines.filter((line) => line.of !== undefined).map((line) => [line.of, line.status ?? null]));
  return lines
    .filter((line) => line.of === undefined || !numbers.has(line.of))
    .map((line) => ({ ...line, outcome: outcomes.get(line.n) ?? line.status ?? null }))
    .sort((one, other) => other.n - one.n);
}

/** `DELETE /runs/{run}` with `{run: "a/b"}` is `DELETE /runs/a/b`. */
export function deed(line: AuditLine): string {
  if (line.event) return `the server: ${line.event}`;
  if (line.of !== undefined) return `the outcome of ${line.of}`;
  const route = (line.route ?? "").replace(/^\/api\/v1/, "");
  const filled = route.replace(/\{([^}]*)\}/g, (whole, name: string) => {
    const value = line.path?.[name];
    return value === undefined ? whole : String(value);
  });
  return `${line.method ?? ""} ${filled}`.trim();
}

/** Where the page that ends just before a number begins. */
export function pageBefore(number: number, size: number): number {
  return Math.max(0, number - 1 - size);
}
