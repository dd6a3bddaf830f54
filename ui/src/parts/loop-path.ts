import type { GraphNode } from "../api/types";

/** The loop's own address, where it has been entered once; the server says it as `loop` or `path`. */
export function loopPath(node: GraphNode): string | null {
  if (typeof node.loop === "string") return node.loop;
  return node.path ?? null;
}
