import { describe, expect, it } from "vitest";
import { childSteps, stepValues } from "../../src/api/step-events";
import type { AuditEntry, Event } from "../../src/api/types";
import { auditRows, describeAction, pageBefore } from "../../src/lib/audit";
import { parseCron, scheduleText } from "../../src/views/triggers";

const event = (seq: number, type: string, path: string, more: object = {}): Event => ({ seq, at: `2026-11-16T10:00:0${seq}.000Z`, type, path, ...more });

describe("the events of a step", () => {
  const events = [
    event(1, "loop.iteration.started", "sync[3]"),
    event(2, "step.started", "sync[3].fetch", { kind: "http" }),
    event(3, "task.started", "sync[3].fetch.call", { input: { page: 7 } }),
    event(4, "step.failed", "sync[3].fetch", { status: "failed", error: { code: "503", message: "no" } }),
    event(5, "step.skipped", "sync[3].store", { status: "skipped" }),
    event(6, "loop.iteration.done", "sync[3]", { status: "failed", result: [1] }),
  ];
  it("contain its input and output", () => {
    expect(stepValues(events.slice(1, 4), "sync[3].fetch")).toEqual({ input: { page: 7 } });
    expect(stepValues(events, "sync[3]").output).toEqual([1]);
    expect(stepValues([event(1, "step.done", "a", { output: 0 })], "a")).toEqual({ output: 0 });
    expect(stepValues([], "a")).toEqual({});
  });
  it("contain its direct children only", () => {
    const steps = childSteps([...events, event(7, "step.started", "sync[3].more.deep")], "sync[3]");
    expect(steps.map((step) => [step.name, step.status, step.duration_ms, step.error?.message])).toEqual([
      ["fetch", "failed", 2000, "no"],
      ["store", "skipped", 0, undefined],
    ]);
  });
});

describe("the audit log", () => {
  const entries: AuditEntry[] = [
    { n: 7, at: "", method: "DELETE", route: "/api/v1/runs/{run}", path: { run: "r/1" }, actor: { name: "anna" } },
    { n: 8, at: "", line: 7, status: 409 },
    { n: 9, at: "", event: "start" },
    { n: 10, at: "", line: 2, status: 500 },
  ];
  it("is listed newest first, each call with its outcome", () => {
    expect(auditRows(entries).map((row) => [row.n, describeAction(row), row.outcome])).toEqual([
      [10, "outcome of 2", 500],
      [9, "server: start", null],
      [7, "DELETE /runs/r/1", 409],
    ]);
  });
  it("is paged from its end", () => {
    expect(pageBefore(1001, 200)).toBe(800);
    expect(pageBefore(5, 200)).toBe(0);
  });
});

describe("schedules", () => {
  it("are shown on one line", () => {
    expect(scheduleText({ cron: "0 8 * * *" })).toBe("0 8 * * * UTC");
    expect(scheduleText({ cron: "0 8 * * *", time_zone: "Europe/Berlin" })).toBe("0 8 * * * Europe/Berlin");
    expect(scheduleText({ frequency: "Day", interval: 1 })).toBe('{"frequency":"Day","interval":1}');
    expect(parseCron(null)).toEqual({ cron: "", timeZone: "" });
  });
});
