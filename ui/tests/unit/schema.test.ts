import { describe, expect, it } from "vitest";
import { fieldKind, initialValue, parseInput, validate, type Schema } from "../../src/lib/schema";

const form: Schema = {
  type: "object",
  required: ["decision", "amount"],
  properties: {
    decision: { type: "string", enum: ["pay", "hold"] },
    amount: { type: "number", minimum: 0, default: 12 },
    days: { type: "integer" },
    note: { type: "string", maxLength: 5 },
    "a/b": { type: "array", items: { type: "string" }, maxItems: 2 },
    who: { type: "object", required: ["name"], properties: { name: { type: "string", minLength: 2 } } },
    free: { anyOf: [{ type: "string" }, { type: "number" }] },
    yes: { type: "boolean", default: true },
    maybe: { type: ["string", "null"] },
  },
};

describe("forms", () => {
  const kinds: [Schema, string][] = [
    [{ type: "string" }, "text"],
    [{ type: "string", maxLength: 2000 }, "long"],
    [{ type: ["integer", "null"] }, "integer"],
    [{ enum: [1, "two"] }, "choice"],
    [{ type: "array", items: { type: "string" } }, "list"],
    [{ type: "array", items: { type: "object", properties: { a: {} } } }, "raw"],
    [{ type: "object" }, "raw"],
    [{ $ref: "#/x" }, "raw"],
    [{}, "raw"],
    [{ properties: { a: { type: "string" } } }, "object"],
  ];
  for (const [schema, kind] of kinds) it(`${JSON.stringify(schema)} is ${kind}`, () => expect(fieldKind(schema)).toBe(kind));

  it("start with their defaults", () => {
    expect(initialValue(form)).toEqual({ amount: 12, who: {}, yes: true });
  });

  it("convert text to values", () => {
    expect(parseInput({ type: "number" }, "2.5")).toBe(2.5);
    expect(parseInput({ type: "number" }, "much")).toBe("much");
    expect(parseInput({ type: "string" }, "")).toBeUndefined();
  });

  const cases: [unknown, string[]][] = [
    [{ decision: "pay", amount: 1 }, []],
    [{}, ["/decision is required", "/amount is required"]],
    [{ decision: "burn", amount: -1 }, ["/decision must be one of the allowed values", "/amount must be at least 0"]],
    [{ decision: "pay", amount: 1, days: 1.5, note: "too long" }, ["/days must be an integer", "/note must have at most 5 characters, has 8"]],
    [{ decision: "pay", amount: 1, "a/b": ["x", "y", "z"] }, ["/a~1b must have at most 2 items"]],
    [{ decision: "pay", amount: 1, who: { name: "x" } }, ["/who/name must have at least 2 characters"]],
    [{ decision: "pay", amount: 1, who: {} }, ["/who/name is required"]],
    [{ decision: "pay", amount: 1, free: [1], maybe: null }, []],
  ];
  for (const [value, expected] of cases) {
    it(`${JSON.stringify(value)} has ${expected.length} problems`, () => {
      expect(validate(form, value as never).map((one) => `${one.pointer} ${one.message}`)).toEqual(expected);
    });
  }
});
