// Iterations of loops: failure kinds, the list, comparisons and the current activity.

import { describe, expect, it } from "vitest";
import { differences, rankDifferences } from "../../src/lib/differences";
import { groupFailures, messageTemplate } from "../../src/lib/failures";
import { parseJsonField, stamp, zone } from "../../src/lib/format";
import { buildRows, findGaps, mergePage, nextRestRange, refreshSection, type Section } from "../../src/lib/iterations";
import { activeSteps } from "../../src/views/run/activity";

describe("kinds of failure", () => {
  const failed = (iteration: number, message: string, code = "E1") => ({ iteration, status: "failed", error: { code, message, path: `a[${iteration}].b` } });
  it("do not depend on numbers and quoted values", () => {
    expect(messageTemplate("`x17` is no number at 3")).toBe(messageTemplate("`y` is no number at 400"));
    expect(messageTemplate("no answer from 'a'")).not.toBe(messageTemplate("an answer from 'a'"));
  });
  it("are listed most frequent first, with their first and last iteration", () => {
    const kinds = groupFailures([failed(1, "once"), failed(3, "`a` is bad"), failed(9, "`b` is bad"), failed(4, "`c` is bad"), { iteration: 5, status: "timed_out" }]);
    expect(kinds.map(({ iterations, first, last, message }) => [iterations, first, last, message])).toEqual([
      [3, 3, 9, "`a` is bad"],
      [1, 1, 1, "once"],
      [1, 5, 5, "timed out"],
    ]);
  });
  it("differ if the same message comes from another step", () => {
    const [one, other] = [failed(1, "no"), failed(2, "no")];
    expect(groupFailures([one, { ...other, error: { ...other.error, path: "a[2].c" } }])).toHaveLength(2);
  });
});

describe("failed iterations first", () => {
  /** `3!` is failed, `3-` is cancelled. */
  const records = (text: string) => text.split(" ").filter(Boolean).map((one) => ({ iteration: parseInt(one), status: one.endsWith("!") ? "failed" : one.endsWith("-") ? "cancelled" : "succeeded" }));
  const section = (text: string, next: number | null = null): Section => ({ iterations: records(text), next });
  const rowText = (failed: Section | null, rest: Section) => buildRows({ failed, rest }).map((row) => row?.iteration ?? "|").join(" ");
  const failures = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => `${from + at}!`).join(" ");
  it.each([
    ["failed ones come before the others", section("1! 3!"), section("0 1! 2 3! 4"), "1 3 | 0 2 4"],
    ["the others follow when all failed ones are loaded", section("1!", 2), section("0 1! 2 3! 4"), "1"],
    ["iteration order if requested", null, section("0 1! 2"), "0 1 2"],
    ["no heading if none has failed", section(""), section("0 1 2-"), "0 1 2"],
    ["no heading if all have failed", section("0! 1!"), section("0! 1!"), "0 1"],
    ["the heading is shown before the others are loaded", section("0! 1!"), section("0! 1!", 2), "0 1 |"],
    ["an iteration that fails between two responses is listed as failed", section("1! 5!"), section("0 1! 2 3! 4 5! 6!"), "1 3 5 6 | 0 2 4"],
    ["the same while more failed ones follow", section("1!", 2), section("0! 1! 2!"), "0 1"],
    ["an iteration that only one response reports as failed is listed once", section("1! 2!"), section("0 1! 2 3"), "1 2 | 0 3"],
    ["a cancelled iteration has not failed", section("0!"), section("0! 1-"), "0 | 1"],
  ])("%s", (_, failed, rest, rows) => expect(rowText(failed, rest)).toBe(rows));
  it("known failed iterations are skipped", () => {
    const list = { failed: section(failures(10, 5000)), rest: section("") };
    expect(nextRestRange(10, list)).toEqual({ from: 5000, limit: 100 });
    expect(nextRestRange(5, list)).toEqual({ from: 5, limit: 1000 });
    expect(nextRestRange(7, { failed: null, rest: section("") })).toEqual({ from: 7, limit: 100 });
    expect(nextRestRange(0, { failed: section("1! 3!"), rest: section("") }).limit).toBe(102);
  });
  it.each([
    ["one more page", section("0 1", 2), 2, section("2 3", 4), "0 1 2 3", 4],
    ["the last page", section("0 1", 2), 2, section("2"), "0 1 2", null],
    ["an iteration that ended late", section("0 2"), 0, section("0 1 2 3"), "0 1 2 3", null],
    ["a page from the middle keeps what follows, which may continue", section("0 1 3 4"), 0, section("0 1 2", 3), "0 1 2 3 4", 5],
    ["a page from the middle of an incomplete list", section("0 1 3 4", 9), 1, section("1 2", 3), "0 1 2 3 4", 9],
    ["an iteration that is no longer retained", section("0 1 2"), 0, section("0 2"), "0 2", null],
    ["the first page", section(""), 0, section("0", 1), "0", 1],
  ])("pages are merged: %s", (_, old, from, page, all, next) => {
    const now = mergePage(old, from, page);
    expect([now.iterations.map((record) => record.iteration).join(" "), now.next]).toEqual([all, next]);
  });
  it("a long list is refreshed in chunks and complete in the end", async () => {
    const before = failures(0, 1200).replace("3! ", "");
    const after = records(failures(0, 2500));
    const limits: number[] = [];
    const fetchPage = async (from: number, limit: number) => {
      limits.push(limit);
      const found = after.filter((record) => record.iteration >= from).slice(0, limit);
      const last = found.at(-1)?.iteration ?? after.length;
      return { iterations: found, next: last + 1 < after.length ? last + 1 : null };
    };
    const list = { failed: section(before), rest: section("") };
    const first = await refreshSection(list, "failed", 0, fetchPage);
    expect([first.next, first.now.next, first.now.iterations.length]).toEqual([600, null, 2500]);
    expect(Math.max(...limits)).toBe(600);
    const late = { failed: section(failures(0, 1200).replace("901! ", "")), rest: section("") };
    const chunks = [0];
    for (let at: number | null = 0; at !== null; ) {
      const { now, next } = await refreshSection(late, "failed", at, fetchPage);
      late.failed = now;
      at = next;
      if (at !== null) chunks.push(at);
    }
    expect(late.failed.iterations.map((record) => record.iteration)).toEqual(after.map((record) => record.iteration));
    expect(chunks.length).toBeGreaterThan(1);
  });
  it("gaps do not include failed iterations listed above", () => {
    expect(findGaps({ failed: section("2! 3! 6!"), rest: section("1 4 8") }, 0)).toEqual([{ from: 0, to: 0 }, { from: 5, to: 7 }]);
    expect(findGaps({ failed: null, rest: section("5 6") }, 5)).toEqual([]);
  });
});

describe("differences of two iterations", () => {
  it("are listed by leaf, including values that only one has", () => {
    const found = differences({ a: { b: 1, c: [1, 2] }, d: "same" }, { a: { b: 2, c: [1] }, d: "same", e: null });
    expect(found).toEqual([
      { at: "a.b", here: 1, there: 2 },
      { at: "a.c[1]", here: 2, there: undefined },
      { at: "e", here: undefined, there: null },
    ]);
  });
  it("are limited, and empty for equal values", () => {
    expect(differences([1, 2, 3], [4, 5, 6], 2)).toHaveLength(2);
    expect(differences({ a: [{}] }, { a: [{}] })).toEqual([]);
    expect(differences({ a: 1 }, [1])).toEqual([{ at: "", here: { a: 1 }, there: [1] }]);
  });
});

describe("distinctive differences", () => {
  const good = (id: number) => ({ item: id, out: { region: "eu", url: `/${id}` } });
  it("are those where the others agree, and come first", () => {
    const rows = rankDifferences({ item: 13, out: { region: "none", url: "/13" } }, [good(12), good(14)]);
    expect(rows.map(({ at, distinctive }) => [at, distinctive])).toEqual([["out.region", true], ["item", false], ["out.url", false]]);
  });
  it("need at least two others to compare with", () => {
    expect(rankDifferences(good(1), [good(2)]).some((row) => row.distinctive)).toBe(false);
    expect(rankDifferences(good(1), [])).toEqual([]);
  });
});

describe("the current activity of a run", () => {
  const tree = [{ name: "sync", status: "running", children: [{ name: "fetch", iteration: 3, status: "retrying", started_at: "t", attempt: 2 }, { name: "fetch", iteration: 4, status: "running" }] }, { name: "parallel", status: "waiting" }];
  it("is the leaves of the tree, with their paths", () => {
    expect(activeSteps(tree).map(({ path, status }) => `${path} ${status}`)).toEqual(["sync[3].fetch retrying", "sync[4].fetch running", "parallel waiting"]);
  });
});

describe("form input and times", () => {
  it("invalid JSON is reported with the name of the field", () => {
    expect(parseJsonField("Data", " ")).toBeUndefined();
    expect(parseJsonField("Data", '{"a": 1}')).toEqual({ a: 1 });
    expect(() => parseJsonField("Data", "hello")).toThrow(/^Data: invalid JSON/);
  });
  it("a timestamp includes its time zone", () => {
    expect(stamp("2026-11-16T10:00:00.5Z")).toMatch(/^2026-11-1\d \d\d:\d\d:\d\d\.500 UTC/);
    expect(stamp("no")).toBe("–");
    const at = (minutes: number) => zone({ getTimezoneOffset: () => minutes } as Date);
    expect([at(0), at(-60), at(210)]).toEqual(["UTC", "UTC+1", "UTC\u22123:30"]);
  });
});
