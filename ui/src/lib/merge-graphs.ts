// Merges the graph of a plan with the graph of a run, which contains only started nodes.

import type { Graph, GraphNode } from "../api/types";

/** Adds the nodes of the plan that the run has not reached. If the graphs do not match, returns the run's graph unchanged. */
export function mergeGraphs(plan: Graph | null, run: Graph): Graph {
  if (plan === null) return run;
  const started = new Map(run.nodes.map((node) => [node.id, node]));
  const planned = new Map(plan.nodes.map((node) => [node.id, node]));
  const matches = (node: GraphNode) => planned.get(node.id)?.name === node.name;
  if (!run.nodes.every((node) => matches(node) || !planned.has(node.id)) || !run.nodes.some(matches)) return run;
  const nodes = [...plan.nodes.map((node) => started.get(node.id) ?? node), ...run.nodes.filter((node) => !planned.has(node.id))];
  const followed = new Set(run.edges.map((edge) => `${edge.from} ${edge.to}`));
  const edges = [...run.edges, ...plan.edges.filter((edge) => !followed.has(`${edge.from} ${edge.to}`))];
  return { ...run, nodes, edges };
}
