import { describe, expect, it } from "vitest";
import type { Json } from "../../src/api";
import { ago, brief, bytes, count, duration } from "../../src/lib/format";
import { language, markRange, tokenize } from "../../src/lib/highlight";
import { enclosingLoop, isWithin, joinPath, pathParts, planPath } from "../../src/lib/paths";
import { parseRoute, to } from "../../src/lib/router";
import { panned, ticks, zoomed } from "../../src/lib/timeline";
import { stopOf, stopText } from "../../src/lib/stop";
import { amount, money, tokens } from "../../src/lib/usage";
import { cellShare } from "../../src/components/strip";
import { reference } from "../../src/components/json";
import { isPattern, outermostLoop, patternMatcher } from "../../src/lib/loops";
import { justBefore, loopStatus } from "../../src/views/loop";
import { ancestors } from "../../src/views/run/timeline";
import { collectExtras } from "../../src/views/loop/iteration-extras";
import { verdictText } from "../../src/views/loop/iterations";
import { hasEnded, RUN_STATUSES, tone } from "../../src/lib/status";
import { applyChange } from "../../src/views/runs";
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
  for (const [ms, text] of cases) it(`${ms} ms is ${text}`, () => expect(duration(ms)).toBe(text));
  it("unknown values are a dash", () => {
    expect(duration(null)).toBe("–");
    expect(ago("no time", 0)).toBe("–");
  });
  it("times are relative to now", () => {
    const now = Date.parse("2026-11-16T10:00:00Z");
    expect(ago("2026-11-16T09:59:59Z", now)).toBe("just now");
    expect(ago("2026-11-16T09:58:00Z", now)).toBe("2m ago");
    expect(ago("2026-11-16T10:30:00Z", now)).toBe("in 30m");
  });
  it("numbers are grouped, sizes have units, values are on one line", () => {
    expect(count(1234567)).toBe("1\u2009234\u2009567");
    expect(bytes(8_123_456)).toBe("7.7 MiB");
    expect(brief({ a: [1, "x\ny"] })).toBe('{"a":[1,"x\\ny"]}');
    expect(brief("x".repeat(300), 10)).toHaveLength(10);
  });
  it("HTTP replies are shown by their body", () => {
    const reply = (statusCode: number, body: Json) => ({ statusCode, headers: { etag: "x".repeat(200) }, body });
    expect(brief(reply(200, { n: 1 }))).toBe('{"n":1}');
    expect(brief(reply(200, "ready"))).toBe("ready");
    expect(brief(reply(204, null))).toBe("HTTP 204");
    expect(brief(reply(503, { error: "busy" }))).toBe('HTTP 503 {"error":"busy"}');
    expect(brief({ status_code: 200, headers: {}, data: [1] })).toBe("[1]");
    expect(brief({ fetch: reply(200, { n: 1 }) })).toBe('{"fetch":{"n":1}}');
    expect(brief({ statusCode: 200, headers: "none", body: 1 })).toBe('{"statusCode":200,"headers":"none","body":1}');
  });
});

describe("the status of a run", () => {
  it("an interrupted run has not ended and is no running one", () => {
    expect(RUN_STATUSES).toContain("interrupted");
    expect(hasEnded("interrupted")).toBe(false);
    expect(tone("interrupted")).not.toBe(tone("running"));
  });
});

describe("paths of a run", () => {
  it("are parsed and joined", () => {
    expect(pathParts("outer[3].inner[17].step")).toEqual([
      { name: "outer", iteration: 3 },
      { name: "inner", iteration: 17 },
      { name: "step", iteration: null },
    ]);
    for (const path of ["", "a", "a[0]", "a[1].b[2].c", "scope.1.step"]) expect(joinPath(pathParts(path))).toBe(path);
    expect(planPath("a[1].b[2].c")).toBe("a.b.c");
  });
  it("have an innermost enclosing loop", () => {
    expect(enclosingLoop("a[1].b[2].c")).toEqual({ loop: "a[1].b", iteration: 2 });
    expect(enclosingLoop("a[1]")).toEqual({ loop: "a", iteration: 1 });
    expect(enclosingLoop("a.b")).toBeNull();
    expect(enclosingLoop("a.1.b")).toBeNull();
  });
  it("contain the paths inside them", () => {
    expect(isWithin("sync[3].fetch", "sync")).toBe(true);
    expect(isWithin("syncing", "sync")).toBe(false);
  });
  it("of the plan match many paths of a run", () => {
    expect(isPattern("rows[].keep")).toBe(true);
    expect(outermostLoop("a.rows[].columns[].keep")).toBe("a.rows");
    expect(patternMatcher("rows[].keep")("rows[12].keep")).toBe(true);
    expect(patternMatcher("rows[].keep")("rows[12].keeper")).toBe(false);
    expect(patternMatcher("rows[]")("rows[1].keep")).toBe(true);
    expect(patternMatcher("cycle[].write")("cycle.write")).toBe(false);
  });
  it("have a path that sorts right before them", () => {
    for (const path of ["sync", "a[1].b", "x"]) {
      expect(justBefore(path) < path).toBe(true);
      expect(justBefore(path) > path.slice(0, -1)).toBe(true);
    }
  });
});

describe("routes", () => {
  it("can contain names with slashes", () => {
    const address = to(["definitions", "teams/billing", "graph"], { version: 3, empty: "" });
    expect(address).toBe("/definitions/teams%2Fbilling/graph?version=3");
    const [path = "", search = ""] = address.split("?");
    expect(parseRoute(path, search).parts).toEqual(["definitions", "teams/billing", "graph"]);
  });
  it("tolerate invalid percent-encoding", () => {
    expect(parseRoute("/runs/%zz", "").parts).toEqual(["runs", "%zz"]);
  });
});

describe("source highlighting", () => {
  it("detects the language by the first character", () => {
    expect(language(' {"a": 1}')).toBe("json");
    expect(language("name: x")).toBe("yaml");
  });
  it("loses no characters", () => {
    const lines = ['  "a": [1, -2.5e3, true, "x\\"y"], // no', "- id: step # why", 'key: "v: w" # c', "  run: echo a:b", "", "'quoted key': 1"];
    for (const line of lines) {
      for (const kind of ["json", "yaml"] as const) {
        expect(tokenize(line, kind).map((token) => token.text).join("")).toBe(line);
        const shown = markRange(tokenize(line, kind), 2, 5);
        expect(shown.map((token) => token.text).join("")).toBe(line);
        expect(shown.filter((token) => token.marked).map((token) => token.text).join("")).toBe(Array.from(line).slice(2, 5).join(""));
      }
    }
  });
});

describe("the timeline", () => {
  const whole = { from: 1000, to: 11_000 };
  it("zooms around a time and stays inside the run", () => {
    const near = zoomed(whole, whole, 0.5, 3500);
    expect(near.to - near.from).toBeCloseTo(5000);
    expect((3500 - near.from) / 5000).toBeCloseTo(0.25);
    expect(panned(near, whole, -99_999).from).toBe(1000);
    expect(panned(near, whole, 99_999).to).toBe(11_000);
  });
  it("has a limited number of round ticks", () => {
    for (const length of [7, 800, 10_000, 3_600_000, 9e9]) {
      const found = ticks({ from: 0, to: length }, 0, 8);
      expect(found.length).toBeGreaterThan(1);
      expect(found.length).toBeLessThan(12);
    }
  });
});

describe("usage", () => {
  it("is found by the names of its counters", () => {
    // The counters as documented in docs/models.md.
    const usage = { inputTokens: 1000, outputTokens: 200, totalTokens: 1200, tokens: 1200, money: 6000 };
    expect(money(usage)).toBeCloseTo(0.006);
    expect(tokens(usage)).toBe(1200);
    expect([0, 0.006, 0.0000081, 0.25, 12.5, 1234.5].map(amount)).toEqual(["0", "0.006", "0.000008", "0.25", "12.50", "1\u2009234.50"]);
    expect(money({ calls: 3 })).toBeNull();
    expect(tokens({ input_tokens: 3, output_tokens: 4, cached_tokens: 2 })).toBe(7);
    expect(tokens({ tokens: 9, input_tokens: 3 })).toBe(9);
    expect(tokens(null)).toBeNull();
  });
  it("verdicts of judges are shown as text", () => {
    expect(verdictText({ done: true })).toBe("done");
    expect(verdictText({ done: false, verdict: "Line 3 has no sum." })).toBe("Line 3 has no sum.");
    expect(verdictText("good")).toBe("good");
    expect(verdictText(null)).toBe("");
  });
});

describe("iteration data from events", () => {
  const event = (type: string, path: string, more: object) => ({ seq: 1, at: "", type, path, ...more });
  it("is collected by iteration, for this loop only", () => {
    const extras = collectExtras(new Map(), [
      event("loop.iteration.done", "refine[0]", { iteration: 0, iteration_usage: { tokens: 5 } }),
      event("loop.judged", "refine", { iteration: 0, done: false, verdict: { done: false, reason: "no" } }),
      event("loop.judged", "other", { iteration: 0, done: true }),
      event("loop.judged", "refine", { iteration: 1, done: true }),
    ], "refine");
    expect([...extras]).toEqual([
      [0, { usage: { tokens: 5 }, verdict: { done: false, reason: "no" } }],
      [1, { verdict: { done: true } }],
    ]);
  });
});

describe("references to large values", () => {
  it("are recognized by their shape", () => {
    expect(reference({ ref: { store: "blobs", key: "9f", size: 70_000 } })?.key).toBe("9f");
    expect(reference({ ref: "main" })).toBeNull();
    expect(reference({ ref: { key: "9f" }, more: 1 })).toBeNull();
  });
});

describe("the list of runs", () => {
  const run = (number: number, status = "running") => ({ run: `r${number}`, number, definition: "d", dialect: "loom", status, created_at: "", changed_at: "", duration_ms: 0 });
  const all = { status: "", definition: "", search: "", children: false, parent: "", since: "" };
  it("inserts a new run by its number", () => {
    expect(applyChange([run(3), run(1)], run(2), all).map((one) => one.number)).toEqual([3, 2, 1]);
    expect(applyChange([run(3), run(1)], run(4), all).map((one) => one.number)).toEqual([4, 3, 1]);
  });
  it("accepts a first run, and leaves older runs to later pages", () => {
    expect(applyChange([], run(1), all)).toHaveLength(1);
    expect(applyChange([run(3)], run(2), all, true).map((one) => one.number)).toEqual([3, 2]);
    expect(applyChange([run(3)], run(2), all, false)).toHaveLength(1);
  });
  it("updates a listed run even if it no longer matches the filter", () => {
    const list = applyChange([run(3), run(1)], run(3, "failed"), { ...all, status: "running" });
    expect(list.map((one) => one.status)).toEqual(["failed", "running"]);
  });
  it("ignores runs that do not match the filter", () => {
    expect(applyChange([run(3)], run(4), { ...all, status: "failed" })).toHaveLength(1);
    expect(applyChange([run(3)], { ...run(4), parent: "r3" }, all)).toHaveLength(1);
    expect(applyChange([run(3)], { ...run(4), parent: "r3" }, { ...all, children: true })).toHaveLength(2);
  });
});

describe("the start form", () => {
  const parameters = [{ name: "n", kind: "integer" }, { name: "s", kind: "string" }, { name: "l", kind: "array", default: [] }];
  it("converts values by the kinds of the parameters", () => {
    expect(formInput(parameters, { n: "3", s: "3", l: "" })).toEqual({ n: 3, s: "3" });
    expect(() => formInput(parameters, { n: "three" })).toThrow("n: not a valid integer");
  });
});

describe("a loop", () => {
  const loop = { loop: "numbers", iterations: 6, failed: 2, reason: "items" };
  it("is not shown as succeeded if iterations failed and its status is unknown", () => {
    expect(loopStatus(loop, null, false, null)).toBe("failed");
    expect(loopStatus(loop, null, false, "succeeded")).toBe("succeeded");
    expect(loopStatus({ ...loop, failed: 0 }, null, false, null)).toBe("succeeded");
    expect(loopStatus({ ...loop, reason: "timeout" }, null, false, null)).toBe("timed_out");
  });
  it("is expanded, like all ancestors of a selected step", () => {
    expect(ancestors("a[3].b.c")).toEqual(["a", "a[3]", "a[3].b"]);
    expect(ancestors("a")).toEqual([]);
  });
  it("shows why its judge gave no verdict", () => {
    expect(verdictText({ error: { code: "NoResult", message: "it never called" } })).toBe("no verdict: it never called");
  });
});

describe("the stop of an agent", () => {
  it("is shown only for answers that are not complete", () => {
    expect(stopOf({ content: "half", result: null, stop: "length" })).toBe("length");
    expect(stopText("length")).toBe("cut off at its maximum length");
    const complete: (Json | undefined)[] = [undefined, null, "length", ["length"], { content: "ok" }, { stop: "end" }, { stop: 3 }];
    for (const output of complete) expect(stopOf(output)).toBeNull();
  });
});

describe("progress strips", () => {
  it("a cell is as wide as its iterations", () => {
    const cell = (from: number, to: number) => ({ from, to, succeeded: to - from + 1, failed: 0, other: 0 });
    expect(cellShare(cell(0, 9), 10)).toBe(1);
    expect(cellShare(cell(10, 12), 10)).toBeCloseTo(0.3);
  });
});
