import { describe, expect, it } from "vitest";
import { ago, brief, bytes, count, duration } from "../../src/lib/format";
import { language, pieces, spotted } from "../../src/lib/highlight";
import { joinPath, loopOf, pathParts, placeOf, within } from "../../src/lib/paths";
import { place as placeOfAddress, to } from "../../src/lib/router";
import { panned, ticks, zoomed } from "../../src/lib/timeline";
import { amount, money, tokens } from "../../src/lib/usage";
import { reference } from "../../src/parts/json";
import { isMany, outermostLoop, stands } from "../../src/lib/loops";
import { justBefore, loopStatus } from "../../src/views/loop";
import { around } from "../../src/views/run/timeline";
import { gathered } from "../../src/views/loop/told";
import { verdictWords } from "../../src/views/loop/turns";
import { placed } from "../../src/views/runs";
import { formInput } from "../../src/views/start";

describe("times and sizes", () => {
  const cases: [number, string][] = [
    [0, "0 ms"],
    [999.4, "999 ms"],
    [1500, "1.5 s"],
    [59_940, "60 s"],
    [60_000, "1m 00s"],
    [245_000, "4m 05s"],
    [7_620_000, "2h 07m"],
    [273_600_000, "3d 04h"],
  ];
  for (const [ms, said] of cases) it(`${ms} ms is ${said}`, () => expect(duration(ms)).toBe(said));
  it("what is not known is a dash", () => {
    expect(duration(null)).toBe("–");
    expect(ago("no time", 0)).toBe("–");
  });
  it("times are told from now", () => {
    const now = Date.parse("2026-11-16T10:00:00Z");
    expect(ago("2026-11-16T09:59:59Z", now)).toBe("just now");
    expect(ago("2026-11-16T09:58:00Z", now)).toBe("2m ago");
    expect(ago("2026-11-16T10:30:00Z", now)).toBe("in 30m");
  });
  it("numbers are grouped, sizes have units, values one line", () => {
    expect(count(1234567)).toBe("1\u2009234\u2009567");
    expect(bytes(8_123_456)).toBe("7.7 MiB");
    expect(brief({ a: [1, "x\ny"] })).toBe('{"a":[1,"x\\ny"]}');
    expect(brief("x".repeat(300), 10)).toHaveLength(10);
  });
});

describe("paths of a run", () => {
  it("are read and written", () => {
    expect(pathParts("outer[3].inner[17].step")).toEqual([
      { name: "outer", turn: 3 },
      { name: "inner", turn: 17 },
      { name: "step", turn: null },
    ]);
    for (const path of ["", "a", "a[0]", "a[1].b[2].c", "cycle.0.review", "a.1.b[2].c"]) expect(joinPath(pathParts(path))).toBe(path);
    expect(placeOf("a[1].b[2].c")).toBe("a.b.c");
  });
  it("know the loop they are a turn of", () => {
    expect(loopOf("a[1].b[2].c")).toEqual({ loop: "a[1].b", turn: 2 });
    expect(loopOf("a[1]")).toEqual({ loop: "a", turn: 1 });
    expect(loopOf("a.b")).toBeNull();
    expect(loopOf("a.1.b.2.c")).toEqual({ loop: "a.1.b", turn: 2 });
  });
  it("know what is in them", () => {
    expect(within("sync[3].fetch", "sync")).toBe(true);
    expect(within("syncing", "sync")).toBe(false);
  });
  it("of the plan stand for many", () => {
    expect(isMany("rows[].keep")).toBe(true);
    expect(outermostLoop("a.rows[].columns[].keep")).toBe("a.rows");
    expect(stands("rows[].keep")("rows[12].keep")).toBe(true);
    expect(stands("rows[].keep")("rows[12].keeper")).toBe(false);
    expect(stands("rows[]")("rows[1].keep")).toBe(true);
    expect(stands("cycle[].write")("cycle.0.write")).toBe(true);
    expect(stands("cycle[].write")("cycle.write")).toBe(false);
  });
  it("have one right before them", () => {
    for (const path of ["sync", "a[1].b", "x"]) {
      expect(justBefore(path) < path).toBe(true);
      expect(justBefore(path) > path.slice(0, -1)).toBe(true);
    }
  });
});

describe("addresses of the page", () => {
  it("hold names with slashes", () => {
    const address = to(["definitions", "teams/billing", "graph"], { version: 3, empty: "" });
    expect(address).toBe("/definitions/teams%2Fbilling/graph?version=3");
    const [path = "", search = ""] = address.split("?");
    expect(placeOfAddress(path, search).parts).toEqual(["definitions", "teams/billing", "graph"]);
  });
  it("survive what is not encoded right", () => {
    expect(placeOfAddress("/runs/%zz", "").parts).toEqual(["runs", "%zz"]);
  });
});

describe("sources", () => {
  it("are told apart by their first letter", () => {
    expect(language(' {"a": 1}')).toBe("json");
    expect(language("name: x")).toBe("yaml");
  });
  it("lose no letter by being coloured", () => {
    const lines = ['  "a": [1, -2.5e3, true, "x\\"y"], // no', "- id: step # why", 'key: "v: w" # c', "  run: echo a:b", "", "'quoted key': 1"];
    for (const line of lines) {
      for (const kind of ["json", "yaml"] as const) {
        expect(pieces(line, kind).map((piece) => piece.text).join("")).toBe(line);
        const shown = spotted(pieces(line, kind), 2, 5);
        expect(shown.map((piece) => piece.text).join("")).toBe(line);
        expect(shown.filter((piece) => piece.spot).map((piece) => piece.text).join("")).toBe(Array.from(line).slice(2, 5).join(""));
      }
    }
  });
});

describe("the timeline", () => {
  const whole = { from: 1000, to: 11_000 };
  it("zooms around a moment and stays inside", () => {
    const near = zoomed(whole, whole, 0.5, 3500);
    expect(near.to - near.from).toBeCloseTo(5000);
    expect((3500 - near.from) / 5000).toBeCloseTo(0.25);
    expect(panned(near, whole, -99_999).from).toBe(1000);
    expect(panned(near, whole, 99_999).to).toBe(11_000);
  });
  it("has round marks, never too many", () => {
    for (const length of [7, 800, 10_000, 3_600_000, 9e9]) {
      const found = ticks({ from: 0, to: length }, 0, 8);
      expect(found.length).toBeGreaterThan(1);
      expect(found.length).toBeLessThan(12);
    }
  });
});

describe("usage", () => {
  it("is found by its counters' names", () => {
    // As docs/models.md has the counters.
    const usage = { inputTokens: 1000, outputTokens: 200, totalTokens: 1200, tokens: 1200, money: 6000 };
    expect(money(usage)).toBeCloseTo(0.006);
    expect(tokens(usage)).toBe(1200);
    expect([0, 0.006, 0.0000081, 0.25, 12.5, 1234.5].map(amount)).toEqual(["0", "0.006", "0.000008", "0.25", "12.50", "1\u2009234.50"]);
    expect(money({ calls: 3 })).toBeNull();
    expect(tokens({ input_tokens: 3, output_tokens: 4, cached_tokens: 2 })).toBe(7);
    expect(tokens({ tokens: 9, input_tokens: 3 })).toBe(9);
    expect(tokens(null)).toBeNull();
  });
  it("verdicts of judges are words", () => {
    expect(verdictWords({ done: true })).toBe("done");
    expect(verdictWords({ done: false, verdict: "Line 3 has no sum." })).toBe("Line 3 has no sum.");
    expect(verdictWords("good")).toBe("good");
    expect(verdictWords(null)).toBe("");
  });
});

describe("what a run tells of its turns", () => {
  const event = (type: string, path: string, more: object) => ({ seq: 1, at: "", type, path, ...more });
  it("is put together by turn, and only for this loop", () => {
    const told = gathered(new Map(), [
      event("loop.iteration.done", "refine[0]", { iteration: 0, turnUsage: { tokens: 5 } }),
      event("loop.judged", "refine", { iteration: 0, done: false, verdict: { done: false, reason: "no" } }),
      event("loop.judged", "other", { iteration: 0, done: true }),
      event("loop.judged", "refine", { iteration: 1, done: true }),
    ], "refine");
    expect([...told]).toEqual([
      [0, { usage: { tokens: 5 }, verdict: { done: false, reason: "no" } }],
      [1, { verdict: { done: true } }],
    ]);
  });
});

describe("large values", () => {
  it("are known by their form", () => {
    expect(reference({ ref: { store: "blobs", key: "9f", size: 70_000 } })?.key).toBe("9f");
    expect(reference({ ref: "main" })).toBeNull();
    expect(reference({ ref: { key: "9f" }, more: 1 })).toBeNull();
  });
});

describe("the list of runs", () => {
  const run = (number: number, status = "running") => ({ run: `r${number}`, number, definition: "d", dialect: "loom", status, created_at: "", changed_at: "", duration_ms: 0 });
  const all = { status: "", definition: "", search: "", children: false, parent: "", since: "" };
  it("puts a new run where its number belongs", () => {
    expect(placed([run(3), run(1)], run(2), all).map((one) => one.number)).toEqual([3, 2, 1]);
    expect(placed([run(3), run(1)], run(4), all).map((one) => one.number)).toEqual([4, 3, 1]);
  });
  it("begins with the first, and leaves to later pages what is older than this one", () => {
    expect(placed([], run(1), all)).toHaveLength(1);
    expect(placed([run(3)], run(2), all, true).map((one) => one.number)).toEqual([3, 2]);
    expect(placed([run(3)], run(2), all, false)).toHaveLength(1);
  });
  it("changes one that it has, whatever the filter", () => {
    const list = placed([run(3), run(1)], run(3, "failed"), { ...all, status: "running" });
    expect(list.map((one) => one.status)).toEqual(["failed", "running"]);
  });
  it("takes none that is filtered out", () => {
    expect(placed([run(3)], run(4), { ...all, status: "failed" })).toHaveLength(1);
    expect(placed([run(3)], { ...run(4), parent: "r3" }, all)).toHaveLength(1);
    expect(placed([run(3)], { ...run(4), parent: "r3" }, { ...all, children: true })).toHaveLength(2);
  });
});

describe("what a start is given", () => {
  const parameters = [{ name: "n", kind: "integer" }, { name: "s", kind: "string" }, { name: "l", kind: "array", default: [] }];
  it("is typed by the parameters", () => {
    expect(formInput(parameters, { n: "3", s: "3", l: "" })).toEqual({ n: 3, s: "3" });
    expect(() => formInput(parameters, { n: "three" })).toThrow("n: this is no integer");
  });
});

describe("a loop", () => {
  const loop = { loop: "numbers", turns: 6, failed: 2, reason: "items" };
  it("is not said to have gone well when its turns have failed", () => {
    expect(loopStatus(loop, null, false, null)).toBe("failed");
    expect(loopStatus(loop, null, false, "succeeded")).toBe("succeeded");
    expect(loopStatus({ ...loop, failed: 0 }, null, false, null)).toBe("succeeded");
    expect(loopStatus({ ...loop, reason: "timeout" }, null, false, null)).toBe("timed_out");
  });
  it("and whatever is around a chosen step are opened", () => {
    expect(around("a[3].b.c")).toEqual(["a", "a[3]", "a[3].b"]);
    expect(around("a")).toEqual([]);
  });
  it("whose judge has failed says why", () => {
    expect(verdictWords({ error: { code: "NoResult", message: "it never called" } })).toBe("no verdict: it never called");
  });
});
