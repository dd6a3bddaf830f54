// Forms from JSON Schema: what can be asked for with fields, and what cannot.

import type { Json } from "../api/types";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: Json[];
  const?: Json;
  default?: Json;
  format?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
  minItems?: number;
  maxItems?: number;
  examples?: Json[];
  [more: string]: unknown;
}

export type Kind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "list" | "object" | "raw";

const TOO_MUCH = ["$ref", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas"];

export function asSchema(value: unknown): Schema | null {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Schema) : null;
}

/** One type, null aside. */
function typeOf(schema: Schema): string | null {
  if (typeof schema.type === "string") return schema.type;
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return types.length === 1 ? (types[0] ?? null) : null;
  }
  return schema.properties ? "object" : null;
}

export function kindOf(schema: Schema, depth = 0): Kind {
  if (depth > 6 || TOO_MUCH.some((key) => key in schema)) return "raw";
  if (Array.isArray(schema.enum)) return "choice";
  switch (typeOf(schema)) {
    case "string":
      return (schema.maxLength ?? 0) > 120 || schema.format === "textarea" || schema.format === "markdown" ? "long" : "text";
    case "number":
      return "number";
    case "integer":
      return "integer";
    case "boolean":
      return "boolean";
    case "array": {
      const items = asSchema(schema.items);
      return items && ["text", "number", "integer", "choice"].includes(kindOf(items, depth + 1)) ? "list" : "raw";
    }
    case "object":
      return Object.keys(schema.properties ?? {}).length > 0 ? "object" : "raw";
    default:
      return "raw";
  }
}

/** What stands in the fields before anybody has typed. */
export function initial(schema: Schema, depth = 0): Json | undefined {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  switch (kindOf(schema, depth)) {
    case "object": {
      const made: { [key: string]: Json } = {};
      for (const [name, part] of Object.entries(schema.properties ?? {})) {
        const value = initial(part, depth + 1);
        if (value !== undefined) made[name] = value;
      }
      return made;
    }
    case "list":
      return undefined;
    case "boolean":
      return depth === 0 ? false : undefined;
    default:
      return undefined;
  }
}

/** A text from a field, as the schema's kind; what does not fit stays a text, and the problem is told. */
export function typed(schema: Schema, text: string): Json | undefined {
  if (text === "") return undefined;
  const kind = kindOf(schema);
  if (kind === "number" || kind === "integer") {
    const value = Number(text);
    return Number.isFinite(value) ? value : text;
  }
  return text;
}

export interface Wrong {
  pointer: string;
  message: string;
}

/** What the page can tell at once. The server looks again, at everything. */
export function problemsOf(schema: Schema, value: Json | undefined, pointer = "", required = true, depth = 0): Wrong[] {
  const wrong = (message: string): Wrong[] => [{ pointer, message }];
  if (value === undefined || (value === null && !allowsNull(schema))) return required ? wrong("is required") : [];
  if (value === null) return [];
  switch (kindOf(schema, depth)) {
    case "text":
    case "long":
      return typeof value === "string" ? textProblems(schema, value, pointer) : wrong("must be a text");
    case "number":
    case "integer":
      return typeof value === "number" ? numberProblems(schema, value, pointer) : wrong("must be a number");
    case "boolean":
      return typeof value === "boolean" ? [] : wrong("must be yes or no");
    case "choice":
      return (schema.enum ?? []).some((one) => JSON.stringify(one) === JSON.stringify(value)) ? [] : wrong("must be one of the choices");
    case "list": {
      if (!Array.isArray(value)) return wrong("must be a list");
      if (schema.minItems !== undefined && value.length < schema.minItems) return wrong(`needs at least ${schema.minItems}`);
      if (schema.maxItems !== undefined && value.length > schema.maxItems) return wrong(`takes at most ${schema.maxItems}`);
      return value.flatMap((one, at) => problemsOf(schema.items ?? {}, one, `${pointer}/${at}`, true, depth + 1));
    }
    case "object": {
      if (value === null || typeof value !== "object" || Array.isArray(value)) return wrong("must be an object");
      return Object.entries(schema.properties ?? {}).flatMap(([name, part]) => problemsOf(part, value[name], `${pointer}/${escaped(name)}`, (schema.required ?? []).includes(name), depth + 1));
    }
    default:
      return [];
  }
}

function textProblems(schema: Schema, value: string, pointer: string): Wrong[] {
  const length = Array.from(value).length;
  if (schema.minLength !== undefined && length < schema.minLength) return [{ pointer, message: `needs at least ${schema.minLength} characters` }];
  if (schema.maxLength !== undefined && length > schema.maxLength) return [{ pointer, message: `takes at most ${schema.maxLength} characters, not ${length}` }];
  if (schema.pattern !== undefined && !matches(schema.pattern, value)) return [{ pointer, message: `must be like ${schema.pattern}` }];
  return [];
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    // Not a pattern of this language: the server decides.
    return true;
  }
}

function numberProblems(schema: Schema, value: number, pointer: string): Wrong[] {
  if (kindOf(schema) === "integer" && !Number.isInteger(value)) return [{ pointer, message: "must be a whole number" }];
  if (schema.minimum !== undefined && value < schema.minimum) return [{ pointer, message: `must be ${schema.minimum} or more` }];
  if (schema.maximum !== undefined && value > schema.maximum) return [{ pointer, message: `must be ${schema.maximum} or less` }];
  return [];
}

function allowsNull(schema: Schema): boolean {
  return Array.isArray(schema.type) ? schema.type.includes("null") : schema.type === "null" || (schema.enum?.includes(null) ?? false);
}

/** As JSON pointers write names. */
export function escaped(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
