// Formatting of audit log entries.

import type { AuditEntry } from "../api/types";

export interface AuditRow extends AuditEntry {
  /** The status of the call, also if a later entry recorded it. Null if the call succeeded. */
  outcome: number | null;
}

/** Orders entries newest first and merges an outcome into the entry it refers to, if that entry is present. */
export function auditRows(entries: AuditEntry[]): AuditRow[] {
  const numbers = new Set(entries.map((entry) => entry.n));
  const outcomes = new Map(entries.filter((entry) => entry.line !== undefined).map((entry) => [entry.line, entry.status ?? null]));
  return entries
    .filter((entry) => entry.line === undefined || !numbers.has(entry.line))
    .map((entry) => ({ ...entry, outcome: outcomes.get(entry.n) ?? entry.status ?? null }))
    .sort((one, other) => other.n - one.n);
}

/** Describes the action of an entry: `DELETE /runs/{run}` with `{run: "a/b"}` becomes `DELETE /runs/a/b`. */
export function describeAction(entry: AuditEntry): string {
  if (entry.event) return `server: ${entry.event}`;
  if (entry.line !== undefined) return `outcome of ${entry.line}`;
  const route = (entry.route ?? "").replace(/^\/api\/v1/, "");
  const filled = route.replace(/\{([^}]*)\}/g, (whole, name: string) => {
    const value = entry.path?.[name];
    return value === undefined ? whole : String(value);
  });
  return `${entry.method ?? ""} ${filled}`.trim();
}

/** Returns the cursor of the page that ends just before `number`. */
export function pageBefore(number: number, size: number): number {
  return Math.max(0, number - 1 - size);
}
