import { describe, expect, it } from "vitest";
import { mergeGraphs } from "../../src/lib/merge-graphs";

const node = (id: string, name: string, status?: string) => ({ id, name, kind: "x", ...(status ? { run: { status, runs: 1 } } : {}) });
const edge = (from: string, to: string) => ({ from, to, statuses: [] });
const plan = { nodes: [node("n1", "a"), node("n2", "b"), node("n3", "c")], edges: [edge("n1", "n2"), edge("n2", "n3")] };

describe("the merged graph of a plan and a run", () => {
  it("contains nodes that have not started, in plan order", () => {
    const run = { nodes: [node("n2", "b", "running"), node("n1", "a", "succeeded")], edges: [{ ...edge("n1", "n2"), times: 1 }] };
    const all = mergeGraphs(plan, run);
    expect(all.nodes.map((one) => `${one.name} ${one.run?.status ?? "–"}`)).toEqual(["a succeeded", "b running", "c –"]);
    expect(all.edges).toHaveLength(2);
    expect(all.edges[0]).toHaveProperty("times", 1);
  });
  it("is the run's graph if the two do not match or there is no plan", () => {
    const other = { nodes: [node("n1", "charge #1", "succeeded")], edges: [] };
    expect(mergeGraphs(plan, other)).toBe(other);
    expect(mergeGraphs(null, other)).toBe(other);
  });
});
