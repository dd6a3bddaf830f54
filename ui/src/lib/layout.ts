// Graph layout. Groups are laid out from the inside out; each is one box of its enclosing group.

import { graphlib, layout } from "@dagrejs/dagre";
import type { Graph, GraphEdge, GraphNode } from "../api/types";
import { isLoop } from "./loops";

export interface Box {
  id: string;
  node: GraphNode;
  group: boolean;
  parent: string | null;
  /** Relative to the enclosing group. */
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface GraphLayout {
  boxes: Box[];
  edges: GraphEdge[];
}

const STEP = { width: 224, height: 54 };
const CHOICE = { width: 34, height: 34 };
const EVENT = { width: 168, height: 40 };
/** Groups with more boxes are laid out in plain rows instead of with dagre. */
const MAX_DAGRE_BOXES = 400;
const GROUP_HEAD = 46;
const LOOP_HEAD = 64;
const PAD = 16;

export function nodeSize(node: GraphNode): { width: number; height: number } {
  if (node.kind === "choice") return CHOICE;
  if (node.kind === "event" || node.kind === "outside") return EVENT;
  return STEP;
}

/** Returns a predicate for back edges: edges that lead upwards or to their own source. Drawn straight, they would cross the boxes between. */
export function backEdgeTest(boxes: Box[]): (from: string, to: string) => boolean {
  const byId = new Map(boxes.map((box) => [box.id, box]));
  const top = (id: string): number => {
    let y = 0;
    for (let box = byId.get(id); box; box = box.parent ? byId.get(box.parent) : undefined) y += box.y;
    return y;
  };
  return (from, to) => from === to || top(to) <= top(from);
}

export function layoutGraph(graph: Graph): GraphLayout {
  const children = new Map<string | null, GraphNode[]>();
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  for (const node of graph.nodes) {
    const parent = node.parent && byId.has(node.parent) ? node.parent : null;
    children.set(parent, [...(children.get(parent) ?? []), node]);
  }
  const chain = (id: string): (string | null)[] => {
    const found: (string | null)[] = [];
    for (let node = byId.get(id); node; node = node.parent ? byId.get(node.parent) : undefined) found.push(node.id);
    return [...found, null].reverse();
  };
  // An edge between boxes of different groups acts on their ancestors that share a parent.
  const lifted = new Map<string | null, { from: string; to: string }[]>();
  const edges = graph.edges.filter((edge) => byId.has(edge.from) && byId.has(edge.to));
  for (const edge of edges) {
    const [from, to] = [chain(edge.from), chain(edge.to)];
    let depth = 0;
    while (depth < from.length && depth < to.length && from[depth] === to[depth]) depth += 1;
    const [a, b] = [from[depth], to[depth]];
    if (a == null || b == null) continue;
    const level = from[depth - 1] ?? null;
    lifted.set(level, [...(lifted.get(level) ?? []), { from: a, to: b }]);
  }
  const boxes: Box[] = [];
  layoutGroup(null, children, lifted, boxes);
  // React Flow requires a group to come before its children.
  const order = new Map(graph.nodes.map((node, at) => [node.id, at]));
  const depthOf = (id: string) => chain(id).length;
  boxes.sort((a, b) => depthOf(a.id) - depthOf(b.id) || (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  return { boxes, edges };
}

function layoutGroup(
  parent: string | null,
  children: Map<string | null, GraphNode[]>,
  lifted: Map<string | null, { from: string; to: string }[]>,
  boxes: Box[],
): { width: number; height: number } {
  const nodes = children.get(parent) ?? [];
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 26, ranksep: 40, marginx: 0, marginy: 0 });
  graph.setDefaultEdgeLabel(() => ({}));
  const sizes = new Map<string, { width: number; height: number; group: boolean; head: number }>();
  for (const node of nodes) {
    const group = (children.get(node.id) ?? []).length > 0;
    const head = isLoop(node) ? LOOP_HEAD : GROUP_HEAD;
    const inner = group ? layoutGroup(node.id, children, lifted, boxes) : null;
    const size = inner
      ? { width: Math.max(STEP.width, inner.width + PAD * 2), height: inner.height + head + PAD, group, head }
      : { ...nodeSize(node), height: isLoop(node) ? LOOP_HEAD + 8 : nodeSize(node).height, group, head };
    if (inner && inner.width + PAD * 2 < STEP.width) {
      const shift = (STEP.width - inner.width) / 2 - PAD;
      for (const box of boxes) if (box.parent === node.id) box.x += shift;
    }
    for (const box of inner ? boxes : []) {
      if (box.parent === node.id) {
        box.x += PAD;
        box.y += head;
      }
    }
    sizes.set(node.id, size);
    graph.setNode(node.id, { width: size.width, height: size.height });
  }
  for (const { from, to } of lifted.get(parent) ?? []) {
    if (from !== to) graph.setEdge(from, to);
  }
  if (nodes.length > MAX_DAGRE_BOXES) layoutRows(graph);
  else if (nodes.length > 0) layout(graph);
  let [width, height] = [0, 0];
  for (const node of nodes) {
    const size = sizes.get(node.id) ?? { ...STEP, group: false, head: 0 };
    const at = graph.node(node.id) as { x: number; y: number };
    const [x, y] = [at.x - size.width / 2, at.y - size.height / 2];
    boxes.push({ id: node.id, node, group: size.group, parent, x, y, width: size.width, height: size.height });
    width = Math.max(width, x + size.width);
    height = Math.max(height, y + size.height);
  }
  return { width, height };
}

/** A fast layout for many boxes: each box is below all its predecessors; boxes of one row are in plan order. */
function layoutRows(graph: graphlib.Graph): void {
  const ids = graph.nodes();
  const row = new Map(ids.map((id) => [id, 0]));
  const waits = new Map(ids.map((id) => [id, (graph.predecessors(id) ?? []).length]));
  const ready = ids.filter((id) => waits.get(id) === 0);
  for (let at = 0; at < ready.length; at += 1) {
    const id = ready[at] ?? "";
    for (const next of graph.successors(id) ?? []) {
      row.set(next, Math.max(row.get(next) ?? 0, (row.get(id) ?? 0) + 1));
      const left = (waits.get(next) ?? 0) - 1;
      waits.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
  const rows: string[][] = [];
  for (const id of ids) (rows[row.get(id) ?? 0] ??= []).push(id);
  let top = 0;
  for (const line of rows) {
    let [left, tallest] = [0, 0];
    for (const id of line ?? []) {
      const box = graph.node(id) as { width: number; height: number; x: number; y: number };
      [box.x, box.y] = [left + box.width / 2, top + box.height / 2];
      left += box.width + 26;
      tallest = Math.max(tallest, box.height);
    }
    top += tallest + 40;
  }
}

/** The label of an edge; empty for the default, which is after success. */
export function edgeLabel(edge: GraphEdge): string {
  if (edge.when) return edge.when;
  if (edge.tokens) return edge.tokens;
  if (edge.on) return `on ${edge.on}`;
  if (edge.event) return edge.times && edge.times > 1 ? `${edge.event} × ${edge.times}` : edge.event;
  const usual = edge.statuses.length === 0 || (edge.statuses.length === 1 && edge.statuses[0] === "succeeded");
  if (usual) return "";
  return edge.statuses.length >= 4 ? "always" : edge.statuses.map((status) => status.replaceAll("_", " ")).join(", ");
}

export function isAfterFailure(edge: GraphEdge): boolean {
  return edge.on === "failure" || (edge.statuses.length > 0 && !edge.statuses.includes("succeeded") && edge.statuses.includes("failed"));
}
