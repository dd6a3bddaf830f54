import { describe, expect, it } from "vitest";
import { whole } from "../../src/lib/whole";

const node = (id: string, name: string, status?: string) => ({ id, name, kind: "x", ...(status ? { run: { status, runs: 1 } } : {}) });
const edge = (from: string, to: string) => ({ from, to, statuses: [] });
const plan = { nodes: [node("n1", "a"), node("n2", "b"), node("n3", "c")], edges: [edge("n1", "n2"), edge("n2", "n3")] };

describe("the whole plan with what a run has made of it", () => {
  it("has what has not begun, in the order of the plan", () => {
    const run = { nodes: [node("n2", "b", "running"), node("n1", "a", "succeeded")], edges: [{ ...edge("n1", "n2"), times: 1 }] };
    const all = whole(plan, run);
    expect(all.nodes.map((one) => `${one.name} ${one.run?.status ?? "–"}`)).toEqual(["a succeeded", "b running", "c –"]);
    expect(all.edges).toHaveLength(2);
    expect(all.edges[0]).toHaveProperty("times", 1);
  });
  it("is the run's own graph where the two do not fit, or there is no plan", () => {
    const other = { nodes: [node("n1", "charge #1", "succeeded")], edges: [] };
    expect(whole(plan, other)).toBe(other);
    expect(whole(null, other)).toBe(other);
  });
});
