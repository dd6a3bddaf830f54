// What is told of turns that failed.

import { describe, expect, it } from "vitest";
import { differences, telling } from "../../src/lib/differences";
import { kindsOf, shapeOf } from "../../src/lib/failures";
import { stamp, typedJson, zone } from "../../src/lib/format";
import { doing } from "../../src/views/run/now";

describe("kinds of failure", () => {
  const failed = (iteration: number, message: string, code = "E1") => ({ iteration, status: "failed", error: { code, message, path: `a[${iteration}].b` } });
  it("numbers and quoted values make no other kind", () => {
    expect(shapeOf("`x17` is no number at 3")).toBe(shapeOf("`y` is no number at 400"));
    expect(shapeOf("no answer from 'a'")).not.toBe(shapeOf("an answer from 'a'"));
  });
  it("the most frequent comes first, with its first and last turn", () => {
    const kinds = kindsOf([failed(1, "once"), failed(3, "`a` is bad"), failed(9, "`b` is bad"), failed(4, "`c` is bad"), { iteration: 5, status: "timed_out" }]);
    expect(kinds.map(({ turns, first, last, message }) => [turns, first, last, message])).toEqual([
      [3, 3, 9, "`a` is bad"],
      [1, 1, 1, "once"],
      [1, 5, 5, "timed out"],
    ]);
  });
  it("the same words at another step are another kind", () => {
    const [one, other] = [failed(1, "no"), failed(2, "no")];
    expect(kindsOf([one, { ...other, error: { ...other.error, path: "a[2].c" } }])).toHaveLength(2);
  });
});

describe("how two turns differ", () => {
  it("leaf by leaf, and what only one has", () => {
    const found = differences({ a: { b: 1, c: [1, 2] }, d: "same" }, { a: { b: 2, c: [1] }, d: "same", e: null });
    expect(found).toEqual([
      { at: "a.b", here: 1, there: 2 },
      { at: "a.c[1]", here: 2, there: undefined },
      { at: "e", here: undefined, there: null },
    ]);
  });
  it("no more than is asked for, and nothing of the same", () => {
    expect(differences([1, 2, 3], [4, 5, 6], 2)).toHaveLength(2);
    expect(differences({ a: [{}] }, { a: [{}] })).toEqual([]);
    expect(differences({ a: 1 }, [1])).toEqual([{ at: "", here: { a: 1 }, there: [1] }]);
  });
});

describe("what stands out", () => {
  const good = (id: number) => ({ item: id, out: { region: "eu", url: `/${id}` } });
  it("is what the others agree in, before what always differs", () => {
    const rows = telling({ item: 13, out: { region: "none", url: "/13" } }, [good(12), good(14)]);
    expect(rows.map(({ at, telling: out }) => [at, out])).toEqual([["out.region", true], ["item", false], ["out.url", false]]);
  });
  it("is nothing where there is only one to compare with, or none", () => {
    expect(telling(good(1), [good(2)]).some((row) => row.telling)).toBe(false);
    expect(telling(good(1), [])).toEqual([]);
  });
});

describe("what a run does now", () => {
  const tree = [{ name: "sync", status: "running", children: [{ name: "fetch", turn: 3, status: "retrying", started_at: "t", attempt: 2 }, { name: "fetch", turn: 4, status: "running" }] }, { name: "beside", status: "waiting" }];
  it("is the ends of the tree, with their paths", () => {
    expect(doing(tree).map(({ path, status }) => `${path} ${status}`)).toEqual(["sync[3].fetch retrying", "sync[4].fetch running", "beside waiting"]);
    expect(doing(tree, true)[0]?.path).toBe("sync.3.fetch");
  });
});

describe("what is typed and what is told", () => {
  it("JSON that is none says of which field", () => {
    expect(typedJson("Data", " ")).toBeUndefined();
    expect(typedJson("Data", '{"a": 1}')).toEqual({ a: 1 });
    expect(() => typedJson("Data", "hello")).toThrow(/^Data: this is no JSON/);
  });
  it("a moment has its zone", () => {
    expect(stamp("2026-11-16T10:00:00.5Z")).toMatch(/^2026-11-1\d \d\d:\d\d:\d\d\.500 UTC/);
    expect(stamp("no")).toBe("–");
    const at = (minutes: number) => zone({ getTimezoneOffset: () => minutes } as Date);
    expect([at(0), at(-60), at(210)]).toEqual(["UTC", "UTC+1", "UTC\u22123:30"]);
  });
});
