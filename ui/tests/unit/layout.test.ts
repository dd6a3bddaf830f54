import { describe, expect, it } from "vitest";
import { backEdgeTest, edgeLabel, isAfterFailure, layoutGraph } from "../../src/lib/layout";
import type { Graph } from "../../src/api/types";

const node = (id: string, parent: string | null = null, kind = "compose") => ({ id, name: id, kind, parent });
const edge = (from: string, to: string) => ({ from, to, statuses: ["succeeded"] });

const graph: Graph = {
  nodes: [node("a"), node("loop", null, "until"), node("b", "loop"), node("inner", "loop", "foreach"), node("c", "inner"), node("d", "inner"), node("z"), node("lost", "gone")],
  edges: [edge("a", "loop"), edge("b", "inner"), edge("c", "d"), edge("loop", "z"), edge("d", "z"), edge("z", "nowhere")],
};

describe("edges", () => {
  it("are back edges if they lead upwards or to their source", () => {
    const cycle: Graph = { nodes: [node("a"), node("b"), node("c")], edges: [edge("a", "b"), edge("b", "c"), edge("c", "a"), edge("b", "b")] };
    const isBackEdge = backEdgeTest(layoutGraph(cycle).boxes);
    expect(cycle.edges.map(({ from, to }) => isBackEdge(from, to))).toEqual([false, false, true, true]);
  });
});

describe("the graph layout", () => {
  const { boxes, edges } = layoutGraph(graph);
  const box = (id: string) => {
    const found = boxes.find((one) => one.id === id);
    if (!found) throw new Error(id);
    return found;
  };

  it("contains every box once, groups before their children", () => {
    expect(boxes.map((one) => one.id).sort()).toEqual(graph.nodes.map((one) => one.id).sort());
    for (const one of boxes) {
      if (one.parent) expect(boxes.findIndex((other) => other.id === one.parent)).toBeLessThan(boxes.indexOf(one));
    }
    expect(edges).toHaveLength(5);
  });

  it("keeps children inside their group, below its header", () => {
    for (const one of boxes.filter((other) => other.parent)) {
      const group = box(one.parent ?? "");
      expect(one.x).toBeGreaterThanOrEqual(0);
      expect(one.y).toBeGreaterThan(30);
      expect(one.x + one.width).toBeLessThanOrEqual(group.width);
      expect(one.y + one.height).toBeLessThanOrEqual(group.height);
    }
  });

  it("does not overlap siblings and places targets below sources", () => {
    for (const one of boxes) {
      for (const two of boxes) {
        if (one.id >= two.id || one.parent !== two.parent) continue;
        const apart = one.x + one.width <= two.x || two.x + two.width <= one.x || one.y + one.height <= two.y || two.y + two.height <= one.y;
        expect(apart, `${one.id} and ${two.id}`).toBe(true);
      }
    }
    expect(box("a").y).toBeLessThan(box("loop").y);
    expect(box("loop").y).toBeLessThan(box("z").y);
    expect(box("c").y).toBeLessThan(box("d").y);
  });

  it("lays out two thousand boxes in less than two seconds", () => {
    const nodes = Array.from({ length: 2000 }, (_, at) => node(`n${at}`));
    const start = performance.now();
    layoutGraph({ nodes, edges: nodes.slice(1).map((one, at) => edge(`n${at}`, one.id)) });
    expect(performance.now() - start).toBeLessThan(2000);
  });
});

describe("edge labels", () => {
  it("name everything but the default, after success", () => {
    expect(edgeLabel(edge("a", "b"))).toBe("");
    expect(edgeLabel({ ...edge("a", "b"), statuses: ["failed", "timed_out"] })).toBe("failed, timed out");
    expect(edgeLabel({ ...edge("a", "b"), statuses: ["succeeded", "failed", "skipped", "timed_out"] })).toBe("always");
    expect(edgeLabel({ ...edge("a", "b"), statuses: [], when: "@x" })).toBe("@x");
    expect(edgeLabel({ ...edge("a", "b"), event: "paid", times: 3 })).toBe("paid × 3");
    expect(isAfterFailure({ ...edge("a", "b"), statuses: ["failed"] })).toBe(true);
    expect(isAfterFailure(edge("a", "b"))).toBe(false);
  });
});
