// Which boxes of a plan are loops, and where their turns are kept.

import type { GraphNode } from "../api/types";

export function isLoop(node: GraphNode): boolean {
  return node.run?.turns !== undefined || Boolean(node.loop) || /^(until|do_?until|while|do_?while|foreach|for_?each|repeat|loop)\b/i.test(node.kind);
}

/** A path of the plan has `[]` for any turn: such a place is many places in a run. */
export function isMany(path: string): boolean {
  return path.includes("[]");
}

/** The loop's own address, where it can be entered only once. */
export function loopPath(node: GraphNode): string | null {
  return node.loop && node.path && !isMany(node.path) ? node.path : null;
}

/** `rows[].columns[].keep` → `rows`, the loop that everything else is in. */
export function outermostLoop(path: string): string | null {
  const at = path.indexOf("[]");
  return at > 0 ? path.slice(0, at) : null;
}

/** Whether an address inside a run is one of those that a place of the plan stands for. */
export function stands(place: string): (path: string) => boolean {
  const pattern = place.split("[]").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("(?:\\[\\d+\\]|\\.\\d+)");
  const whole = new RegExp(`^${pattern}($|[.[])`);
  return (path) => whole.test(path);
}

/** Where a turn is. Servers say it; `a[3]` is how most dialects write it. */
export function turnPath(loop: string, turn: { iteration: number; path?: string }): string {
  return turn.path ?? `${loop}[${turn.iteration}]`;
}

const REASONS: Record<string, string> = {
  condition: "its condition",
  items: "the last item",
  judge: "its judge",
  count: "its limit of turns",
  timeout: "its limit of time",
  budget: "its budget",
  stalled: "no progress",
  failed: "a failure",
  cancelled: "being cancelled",
};

/** Why a loop has ended, as people say it. */
export function reasonWords(reason: string): string {
  return REASONS[reason] ?? reason.replaceAll("_", " ");
}
