// The whole plan with what a run has made of it: the run's own graph has only what has happened.

import type { Graph, GraphNode } from "../api/types";

/** Boxes of the plan that the run has not come to are added as they are. Graphs that do not fit together stay apart. */
export function whole(plan: Graph | null, run: Graph): Graph {
  if (plan === null) return run;
  const happened = new Map(run.nodes.map((node) => [node.id, node]));
  const planned = new Map(plan.nodes.map((node) => [node.id, node]));
  const fits = (node: GraphNode) => planned.get(node.id)?.name === node.name;
  if (!run.nodes.every((node) => fits(node) || !planned.has(node.id)) || !run.nodes.some(fits)) return run;
  const nodes = [...plan.nodes.map((node) => happened.get(node.id) ?? node), ...run.nodes.filter((node) => !planned.has(node.id))];
  const led = new Set(run.edges.map((edge) => `${edge.from} ${edge.to}`));
  const edges = [...run.edges, ...plan.edges.filter((edge) => !led.has(`${edge.from} ${edge.to}`))];
  return { ...run, nodes, edges };
}
