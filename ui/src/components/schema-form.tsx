// Form fields for a JSON Schema. Schemas without a specific field are edited as JSON.

import { useState } from "react";
import type { FieldProblem, Json } from "../api/types";
import { asSchema, escapePointer, fieldKind, parseInput, type Schema } from "../lib/schema";
import { Button, Field } from "./common";

interface FormProps {
  schema: Schema;
  value: Json | undefined;
  problems: FieldProblem[];
  onChange(value: Json | undefined): void;
}

export function SchemaForm({ schema, value, problems, onChange }: FormProps) {
  return <SchemaField schema={schema} value={value} pointer="" name="" required problems={problems} onChange={onChange} depth={0} />;
}

interface SchemaFieldProps extends FormProps {
  pointer: string;
  name: string;
  required: boolean;
  depth: number;
}

const INPUTS: Record<string, string> = { date: "date", time: "time", "date-time": "datetime-local", email: "email", uri: "url", password: "password" };

function SchemaField(props: SchemaFieldProps) {
  const { schema, value, pointer, name, required, problems, onChange, depth } = props;
  const kind = fieldKind(schema, depth);
  const label = (schema.title || name || "Answer") + (required && depth > 0 ? " *" : "");
  const problem = problems.filter((one) => one.pointer === pointer || (kind !== "object" && kind !== "list" && one.pointer.startsWith(`${pointer}/`))).map((one) => one.message).join("; ") || null;
  const hint = schemaHint(schema);
  switch (kind) {
    case "object":
      return <ObjectField {...props} />;
    case "boolean":
      return depth > 0 && !required ? (
        <Field label={label} hint={hint} problem={problem}>
          <select value={value === undefined ? "" : String(value)} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value === "true")}>
            <option value="">–</option>
            <option value="true">yes</option>
            <option value="false">no</option>
          </select>
        </Field>
      ) : (
        <div className={problem ? "field wrong" : "field"}>
          <span className="row">
            {[true, false].map((choice) => (
              <label key={String(choice)} className="check">
                <input type="radio" name={`field ${pointer}`} checked={value === choice} onChange={() => onChange(choice)} /> {depth === 0 ? "" : `${label}: `}{choice ? "yes" : "no"}
              </label>
            ))}
          </span>
          {problem ? <span className="field-problem">{problem}</span> : hint ? <span className="field-hint">{hint}</span> : null}
        </div>
      );
    case "choice":
      return (
        <Field label={label} hint={hint} problem={problem}>
          <select value={value === undefined ? "" : JSON.stringify(value)} onChange={(event) => onChange(event.target.value === "" ? undefined : (JSON.parse(event.target.value) as Json))}>
            <option value="">–</option>
            {(schema.enum ?? []).map((one) => (
              <option key={JSON.stringify(one)} value={JSON.stringify(one)}>{typeof one === "string" ? one : JSON.stringify(one)}</option>
            ))}
          </select>
        </Field>
      );
    case "list":
      return <ListField {...props} label={label} problem={problem} hint={hint} />;
    case "raw":
      return <RawField {...props} label={label} problem={problem} hint={hint} />;
    case "long":
      return (
        <Field label={label} hint={hint} problem={problem}>
          <textarea className="prose" rows={3} value={typeof value === "string" ? value : ""} onChange={(event) => onChange(parseInput(schema, event.target.value))} />
        </Field>
      );
    default: {
      const numeric = kind === "number" || kind === "integer";
      const shown = value === undefined || value === null ? "" : String(value);
      const input = numeric ? "number" : (INPUTS[schema.format ?? ""] ?? "text");
      return (
        <Field label={label} hint={hint} problem={problem}>
          <input
            type={input}
            value={input === "datetime-local" ? localTime(shown) : shown}
            step={numeric ? (kind === "integer" ? 1 : "any") : undefined}
            min={schema.minimum}
            max={schema.maximum}
            placeholder={schema.examples?.[0] === undefined ? undefined : String(schema.examples[0])}
            onChange={(event) => onChange(input === "datetime-local" ? toIsoTime(event.target.value) : parseInput(schema, event.target.value))}
          />
        </Field>
      );
    }
  }
}

function schemaHint(schema: Schema): string {
  const parts = [schema.description];
  if (schema.maxLength !== undefined && schema.maxLength <= 120) parts.push(`at most ${schema.maxLength} characters`);
  if (schema.minimum !== undefined && schema.maximum !== undefined) parts.push(`${schema.minimum} to ${schema.maximum}`);
  else if (schema.minimum !== undefined) parts.push(`at least ${schema.minimum}`);
  else if (schema.maximum !== undefined) parts.push(`at most ${schema.maximum}`);
  return parts.filter(Boolean).join(" · ");
}

function ObjectField({ schema, value, pointer, name, problems, onChange, depth }: SchemaFieldProps) {
  const now = value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  const own = problems.filter((one) => one.pointer === pointer).map((one) => one.message).join("; ");
  const fields = Object.entries(schema.properties ?? {}).map(([key, part]) => (
    <SchemaField
      key={key}
      schema={part}
      value={now[key]}
      pointer={`${pointer}/${escapePointer(key)}`}
      name={key}
      required={(schema.required ?? []).includes(key)}
      problems={problems}
      depth={depth + 1}
      onChange={(next) => {
        const made = { ...now };
        if (next === undefined) delete made[key];
        else made[key] = next;
        onChange(depth > 0 && Object.keys(made).length === 0 ? undefined : made);
      }}
    />
  ));
  if (depth === 0) {
    return (
      <>
        {own ? <p className="field-problem">{own}</p> : null}
        {fields}
      </>
    );
  }
  return (
    <fieldset className="group-field">
      <legend>{schema.title || name}</legend>
      {schema.description ? <p className="field-hint">{schema.description}</p> : null}
      {own ? <p className="field-problem">{own}</p> : null}
      {fields}
    </fieldset>
  );
}

interface FieldTexts {
  label: string;
  problem: string | null;
  hint: string;
}

function ListField({ schema, value, pointer, problems, onChange, label, problem, hint, depth }: SchemaFieldProps & FieldTexts) {
  const items = asSchema(schema.items) ?? {};
  const list = Array.isArray(value) ? value : [];
  const set = (next: Json[]) => onChange(next.length === 0 && depth > 0 ? undefined : next);
  return (
    <fieldset className="group-field">
      <legend>{label}</legend>
      {list.map((one, at) => (
        <div key={at} className="row list-item">
          <div className="grow">
            <SchemaField schema={{ ...items, title: `${at + 1}` }} value={one === null ? undefined : one} pointer={`${pointer}/${at}`} name={String(at)} required problems={problems} depth={depth + 1} onChange={(next) => set(list.map((old, index) => (index === at ? (next ?? "") : old)))} />
          </div>
          <Button variant="quiet" icon="close" aria-label={`Remove ${at + 1}`} onClick={() => set(list.filter((_, index) => index !== at))} />
        </div>
      ))}
      <div className="row">
        <Button className="small" icon="plus" onClick={() => set([...list, fieldKind(items) === "number" || fieldKind(items) === "integer" ? 0 : ""])}>Add</Button>
        {problem ? <span className="field-problem">{problem}</span> : hint ? <span className="field-hint">{hint}</span> : null}
      </div>
    </fieldset>
  );
}

function RawField({ value, onChange, label, problem, hint }: SchemaFieldProps & FieldTexts) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState<string | null>(null);
  return (
    <Field label={label} hint={hint || "JSON"} problem={wrong ?? problem}>
      <textarea
        rows={5}
        value={text}
        spellCheck={false}
        onChange={(event) => {
          setText(event.target.value);
          try {
            onChange(event.target.value.trim() === "" ? undefined : (JSON.parse(event.target.value) as Json));
            setWrong(null);
          } catch (error) {
            setWrong(error instanceof Error ? error.message : "invalid JSON");
          }
        }}
      />
    </Field>
  );
}

function localTime(text: string): string {
  const date = new Date(text);
  if (text === "" || Number.isNaN(date.getTime())) return "";
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function toIsoTime(text: string): string | undefined {
  const date = new Date(text);
  return text === "" || Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}
