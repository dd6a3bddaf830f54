// Forms from JSON Schema: field kinds, initial values and client-side validation.

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

export type FieldKind = "text" | "long" | "number" | "integer" | "boolean" | "choice" | "list" | "object" | "raw";

const UNSUPPORTED_KEYWORDS = ["$ref", "oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "prefixItems", "dependentSchemas"];

export function asSchema(value: unknown): Schema | null {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Schema) : null;
}

/** The single type of a schema, ignoring null. */
function typeOf(schema: Schema): string | null {
  if (typeof schema.type === "string") return schema.type;
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return types.length === 1 ? (types[0] ?? null) : null;
  }
  return schema.properties ? "object" : null;
}

export function fieldKind(schema: Schema, depth = 0): FieldKind {
  if (depth > 6 || UNSUPPORTED_KEYWORDS.some((key) => key in schema)) return "raw";
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
      return items && ["text", "number", "integer", "choice"].includes(fieldKind(items, depth + 1)) ? "list" : "raw";
    }
    case "object":
      return Object.keys(schema.properties ?? {}).length > 0 ? "object" : "raw";
    default:
      return "raw";
  }
}

/** The initial value of a form. */
export function initialValue(schema: Schema, depth = 0): Json | undefined {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  switch (fieldKind(schema, depth)) {
    case "object": {
      const made: { [key: string]: Json } = {};
      for (const [name, part] of Object.entries(schema.properties ?? {})) {
        const value = initialValue(part, depth + 1);
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

/** Converts the text of a field to the schema's type. Text that cannot be converted stays a string, which validation reports. */
export function parseInput(schema: Schema, text: string): Json | undefined {
  if (text === "") return undefined;
  const kind = fieldKind(schema);
  if (kind === "number" || kind === "integer") {
    const value = Number(text);
    return Number.isFinite(value) ? value : text;
  }
  return text;
}

export interface ValidationProblem {
  pointer: string;
  message: string;
}

/** Validates a value against the supported part of a schema. The server validates it again, completely. */
export function validate(schema: Schema, value: Json | undefined, pointer = "", required = true, depth = 0): ValidationProblem[] {
  const wrong = (message: string): ValidationProblem[] => [{ pointer, message }];
  if (value === undefined || (value === null && !allowsNull(schema))) return required ? wrong("is required") : [];
  if (value === null) return [];
  switch (fieldKind(schema, depth)) {
    case "text":
    case "long":
      return typeof value === "string" ? validateText(schema, value, pointer) : wrong("must be a string");
    case "number":
    case "integer":
      return typeof value === "number" ? validateNumber(schema, value, pointer) : wrong("must be a number");
    case "boolean":
      return typeof value === "boolean" ? [] : wrong("must be true or false");
    case "choice":
      return (schema.enum ?? []).some((one) => JSON.stringify(one) === JSON.stringify(value)) ? [] : wrong("must be one of the allowed values");
    case "list": {
      if (!Array.isArray(value)) return wrong("must be a list");
      if (schema.minItems !== undefined && value.length < schema.minItems) return wrong(`must have at least ${schema.minItems} items`);
      if (schema.maxItems !== undefined && value.length > schema.maxItems) return wrong(`must have at most ${schema.maxItems} items`);
      return value.flatMap((one, at) => validate(schema.items ?? {}, one, `${pointer}/${at}`, true, depth + 1));
    }
    case "object": {
      if (value === null || typeof value !== "object" || Array.isArray(value)) return wrong("must be an object");
      return Object.entries(schema.properties ?? {}).flatMap(([name, part]) => validate(part, value[name], `${pointer}/${escapePointer(name)}`, (schema.required ?? []).includes(name), depth + 1));
    }
    default:
      return [];
  }
}

function validateText(schema: Schema, value: string, pointer: string): ValidationProblem[] {
  const length = Array.from(value).length;
  if (schema.minLength !== undefined && length < schema.minLength) return [{ pointer, message: `must have at least ${schema.minLength} characters` }];
  if (schema.maxLength !== undefined && length > schema.maxLength) return [{ pointer, message: `must have at most ${schema.maxLength} characters, has ${length}` }];
  if (schema.pattern !== undefined && !matches(schema.pattern, value)) return [{ pointer, message: `must match ${schema.pattern}` }];
  return [];
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    // The pattern is not valid in JavaScript; the server decides.
    return true;
  }
}

function validateNumber(schema: Schema, value: number, pointer: string): ValidationProblem[] {
  if (fieldKind(schema) === "integer" && !Number.isInteger(value)) return [{ pointer, message: "must be an integer" }];
  if (schema.minimum !== undefined && value < schema.minimum) return [{ pointer, message: `must be at least ${schema.minimum}` }];
  if (schema.maximum !== undefined && value > schema.maximum) return [{ pointer, message: `must be at most ${schema.maximum}` }];
  return [];
}

function allowsNull(schema: Schema): boolean {
  return Array.isArray(schema.type) ? schema.type.includes("null") : schema.type === "null" || (schema.enum?.includes(null) ?? false);
}

/** Escapes a name for a JSON pointer. */
export function escapePointer(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
