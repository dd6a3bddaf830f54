// What is told of turns that failed.

import { describe, expect, it } from "vitest";
import { differences, telling } from "../../src/lib/differences";
import { kindsOf, shapeOf } from "../../src/lib/failures";
import { stamp, typedJson, zone } from "../../src/lib/format";
import { askedAgain, gapsOf, merged, othersFrom, rowsOf, type Window } from "../../src/lib/turns";
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

describe("failed turns first", () => {
  /** `3!` has failed, `3-` was cut off. */
  const turns = (text: string) => text.split(" ").filter(Boolean).map((one) => ({ iteration: parseInt(one), status: one.endsWith("!") ? "failed" : one.endsWith("-") ? "cancelled" : "succeeded" }));
  const part = (text: string, next: number | null = null): Window => ({ turns: turns(text), next });
  const told = (failed: Window | null, rest: Window) => rowsOf({ failed, rest }).map((row) => row?.iteration ?? "|").join(" ");
  const many = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `${from + at}!`).join(" ");
  it.each([
    ["failed ones, then the others", part("1! 3!"), part("0 1! 2 3! 4"), "1 3 | 0 2 4"],
    ["the others when all failed ones are there", part("1!", 2), part("0 1! 2 3! 4"), "1"],
    ["as they come where they are asked for so", null, part("0 1! 2"), "0 1 2"],
    ["without a heading if none has failed", part(""), part("0 1 2-"), "0 1 2"],
    ["without a heading if all have", part("0! 1!"), part("0! 1!"), "0 1"],
    ["the heading is there before the others are", part("0! 1!"), part("0! 1!", 2), "0 1 |"],
    ["what has failed between two answers", part("1! 5!"), part("0 1! 2 3! 4 5! 6!"), "1 3 5 6 | 0 2 4"],
    ["the same while there are more of them", part("1!", 2), part("0! 1! 2!"), "0 1"],
    ["what one answer takes for failed stands once", part("1! 2!"), part("0 1! 2 3"), "1 2 | 0 3"],
    ["what was cut off has not failed", part("0!"), part("0! 1-"), "0 | 1"],
  ])("%s", (_, failed, rest, rows) => expect(told(failed, rest)).toBe(rows));
  it("failed ones that are known are passed over", () => {
    const list = { failed: part(many(10, 5000)), rest: part("") };
    expect(othersFrom(10, list)).toEqual({ from: 5000, limit: 100 });
    expect(othersFrom(5, list)).toEqual({ from: 5, limit: 1000 });
    expect(othersFrom(7, { failed: null, rest: part("") })).toEqual({ from: 7, limit: 100 });
    expect(othersFrom(0, { failed: part("1! 3!"), rest: part("") }).limit).toBe(102);
  });
  it.each([
    ["a page more", part("0 1", 2), 2, part("2 3", 4), "0 1 2 3", 4],
    ["the last page", part("0 1", 2), 2, part("2"), "0 1 2", null],
    ["one that has ended late", part("0 2"), 0, part("0 1 2 3"), "0 1 2 3", null],
    ["from the middle: what comes after it stays, and may go on", part("0 1 3 4"), 0, part("0 1 2", 3), "0 1 2 3 4", 5],
    ["from the middle of what goes on anyway", part("0 1 3 4", 9), 1, part("1 2", 3), "0 1 2 3 4", 9],
    ["one that is no longer there", part("0 1 2"), 0, part("0 2"), "0 2", null],
    ["the first", part(""), 0, part("0", 1), "0", 1],
  ])("answers are put together: %s", (_, old, from, page, all, next) => {
    const now = merged(old, from, page);
    expect([now.turns.map((turn) => turn.iteration).join(" "), now.next]).toEqual([all, next]);
  });
  it("a long list is asked for again piece by piece, and whole in the end", async () => {
    const before = many(0, 1200).replace("3! ", "");
    const after = turns(many(0, 2500));
    const asked: number[] = [];
    const ask = async (from: number, limit: number) => {
      asked.push(limit);
      const found = after.filter((turn) => turn.iteration >= from).slice(0, limit);
      const last = found.at(-1)?.iteration ?? after.length;
      return { turns: found, next: last + 1 < after.length ? last + 1 : null };
    };
    const list = { failed: part(before), rest: part("") };
    const first = await askedAgain(list, "failed", 0, ask);
    expect([first.next, first.now.next, first.now.turns.length]).toEqual([600, null, 2500]);
    expect(Math.max(...asked)).toBe(600);
    const late = { failed: part(many(0, 1200).replace("901! ", "")), rest: part("") };
    const pieces = [0];
    for (let at: number | null = 0; at !== null; ) {
      const { now, next } = await askedAgain(late, "failed", at, ask);
      late.failed = now;
      at = next;
      if (at !== null) pieces.push(at);
    }
    expect(late.failed.turns.map((turn) => turn.iteration)).toEqual(after.map((turn) => turn.iteration));
    expect(pieces.length).toBeGreaterThan(1);
  });
  it("what is missing is told, not what stands above", () => {
    expect(gapsOf({ failed: part("2! 3! 6!"), rest: part("1 4 8") }, 0)).toEqual([{ from: 0, to: 0 }, { from: 5, to: 7 }]);
    expect(gapsOf({ failed: null, rest: part("5 6") }, 5)).toEqual([]);
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
