// Loops of a plan, and the paths of their iterations.

import type { GraphNode } from "../api/types";

export function isLoop(node: GraphNode): boolean {
  return node.run?.iterations !== undefined || Boolean(node.loop) || /^(until|do_?until|while|do_?while|foreach|for_?each|repeat|loop)\b/i.test(node.kind);
}

/** Whether a path is a pattern: a path of the plan has `[]` for any iteration and so matches many paths of a run. */
export function isPattern(path: string): boolean {
  return path.includes("[]");
}

/** The path of a loop that is entered at most once, else null. */
export function loopPath(node: GraphNode): string | null {
  return node.loop && node.path && !isPattern(node.path) ? node.path : null;
}

/** Returns the outermost loop of a pattern: `rows[].columns[].keep` → `rows`. */
export function outermostLoop(path: string): string | null {
  const at = path.indexOf("[]");
  return at > 0 ? path.slice(0, at) : null;
}

/** Returns a predicate for the paths of a run that match a pattern of the plan or lie inside it. */
export function patternMatcher(planPath: string): (path: string) => boolean {
  const pattern = planPath.split("[]").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("\\[\\d+\\]");
  const regex = new RegExp(`^${pattern}($|[.[])`);
  return (path) => regex.test(path);
}

/** The path of an iteration, `a[3]`, unless the server sends another one. */
export function iterationPath(loop: string, record: { iteration: number; path?: string }): string {
  return record.path ?? `${loop}[${record.iteration}]`;
}

const REASONS: Record<string, string> = {
  condition: "condition",
  items: "last item",
  judge: "judge",
  count: "iteration limit",
  timeout: "time limit",
  budget: "budget",
  stalled: "no progress",
  failed: "failure",
  cancelled: "cancellation",
};

/** The reason why a loop ended, for display after "ended by". */
export function endReasonText(reason: string): string {
  return REASONS[reason] ?? reason.replaceAll("_", " ");
}
