import { describe, expect, it } from "vitest";
import { SseParser } from "../../src/api/sse";
import { searchNewest } from "../../src/views/run/newest";

const TEXT = ': hello\n\nid: 1\nevent: step.done\ndata: {"a":1}\n\nid: 2\r\nevent: x\r\ndata: one\r\ndata: two\r\n\r\n: heartbeat\n\nevent: end\ndata: {}\n\n';

describe("the SSE parser", () => {
  it("gives the same messages for all chunk sizes", () => {
    const whole = new SseParser().push(TEXT);
    expect(whole).toEqual([
      { id: "1", event: "step.done", data: '{"a":1}' },
      { id: "2", event: "x", data: "one\ntwo" },
      { id: "2", event: "end", data: "{}" },
    ]);
    for (let size = 1; size < 9; size += 1) {
      const parser = new SseParser();
      const found = [];
      for (let at = 0; at < TEXT.length; at += size) found.push(...parser.push(TEXT.slice(at, at + size)));
      expect(found, `chunks of ${size}`).toEqual(whole);
    }
  });

  it("ignores comments and incomplete messages", () => {
    const parser = new SseParser();
    expect(parser.push(": heartbeat\n\n")).toEqual([]);
    expect(parser.push("data: half")).toEqual([]);
    expect(parser.push("\n\n")).toEqual([{ id: null, event: "message", data: "half" }]);
  });
});

describe("the newest event", () => {
  for (const newest of [0, 1, 499, 500, 501, 8000, 8001, 99_999, 5_000_000]) {
    it(`is found approximately among ${newest} with few requests`, async () => {
      let requests = 0;
      const found = await searchNewest((seq) => {
        requests += 1;
        return Promise.resolve(seq <= newest);
      });
      expect(found).toBeLessThanOrEqual(newest);
      expect(newest - found).toBeLessThanOrEqual(500);
      expect(requests).toBeLessThan(50);
    });
  }
});
