// The dialog that starts a run, with a form for the definition's parameters or raw JSON.

import { useEffect, useRef, useState } from "react";
import { api, asProblem, newIdempotencyKey, type DefinitionSummary, type Json, type Parameter, type Problem, type StartedRun } from "../api";
import { useLoad } from "../api/hooks";
import { Button, Dialog, Field, Loading, ProblemBox, Tabs } from "../components/common";
import { navigate, to } from "../lib/router";

interface StartProps {
  names: DefinitionSummary[] | null;
  initial?: string;
  version?: number | null;
  onClose(): void;
}

export function StartRun({ names, initial = "", version = null, onClose }: StartProps) {
  const [name, setName] = useState(initial || names?.[0]?.name || "");
  useEffect(() => {
    const first = names?.[0]?.name;
    // A choice that was made before this effect runs stays.
    if (first) setName((current) => current || first);
  }, [names]);
  const known = useLoad(name ? `definition ${name} ${version}` : null, (signal) => api.definition(name, version, signal));
  const [mode, setMode] = useState("form");
  const [values, setValues] = useState<Record<string, string>>({});
  const [raw, setRaw] = useState("{}");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState<StartedRun | null>(null);
  const key = useRef(newIdempotencyKey());
  const parameters = known.value?.parameters ?? [];
  const start = async () => {
    setProblem(null);
    let input: Json;
    try {
      input = mode === "raw" || parameters.length === 0 ? (JSON.parse(raw || "{}") as Json) : formInput(parameters, values);
    } catch (error) {
      setProblem(asProblem(error));
      return;
    }
    setBusy(true);
    try {
      const started = await api.start({ definition: name, ...(version ? { version } : {}), input }, key.current);
      if (started.warnings && started.warnings.length > 0) {
        setDone(started);
        return;
      }
      onClose();
      navigate(to(["runs", started.run]));
    } catch (error) {
      setProblem(asProblem(error));
      // The server rejects a different body with the same key.
      key.current = newIdempotencyKey();
      setBusy(false);
    }
  };
  const toRaw = (next: string) => {
    if (next === "raw" && mode === "form") {
      try {
        setRaw(JSON.stringify(formInput(parameters, values, true), null, 2));
      } catch {
        // The form is incomplete; the raw text stays unchanged.
      }
    }
    setMode(next);
  };
  if (done) {
    return (
      <Dialog title="Run started" onClose={onClose}>
        <div className="warn-note stack tight" role="status">
          <strong>Some inputs are not used:</strong>
          {(done.warnings ?? []).map((one, at) => (
            <div key={at}>
              <p>{one.message}</p>
              {one.hint ? <p className="hint">{one.hint}</p> : null}
            </div>
          ))}
        </div>
        <footer>
          <Button onClick={onClose}>Close</Button>
          <Button variant="primary" icon="play" autoFocus onClick={() => { onClose(); navigate(to(["runs", done.run])); }}>Open run</Button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={version ? `Start a run of ${name} v${version}` : "Start a run"} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        {version ? null : (
          <Field label="Definition">
            <select value={name} onChange={(event) => { setName(event.target.value); setValues({}); setProblem(null); }}>
              {names?.map((one) => (
                <option key={one.name} value={one.name}>
                  {one.name}
                </option>
              ))}
            </select>
          </Field>
        )}
        {known.loading && !known.value ? <Loading lines={2} /> : null}
        {known.problem ? <ProblemBox problem={known.problem} /> : null}
        {parameters.length > 0 ? (
          <Tabs label="Input" current={mode} onChoose={toRaw} tabs={[{ id: "form", title: "Form" }, { id: "raw", title: "JSON" }]} />
        ) : null}
        {mode === "form" && parameters.length > 0 ? (
          parameters.map((parameter) => (
            <ParameterField key={parameter.name} parameter={parameter} value={values[parameter.name]} onChange={(value) => setValues({ ...values, [parameter.name]: value })} />
          ))
        ) : known.value ? (
          <Field label="Input" hint={parameters.length === 0 ? "A JSON object, passed to the run unchanged: the definition declares no parameters." : "A JSON object."}>
            <textarea value={raw} rows={8} spellCheck={false} onChange={(event) => setRaw(event.target.value)} />
          </Field>
        ) : null}
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" icon="play" disabled={busy || !name}>
            Start
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

function ParameterField({ parameter, value, onChange }: { parameter: Parameter; value: string | undefined; onChange(value: string): void }) {
  const kind = (parameter.kind ?? "").toLowerCase();
  const hint = [parameter.kind, parameter.required ? "required" : null, parameter.default !== undefined && parameter.default !== null ? `default ${JSON.stringify(parameter.default)}` : null];
  const title = parameter.required ? `${parameter.name} *` : parameter.name;
  const text = [parameter.description, hint.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
  if (parameter.allowed && parameter.allowed.length > 0) {
    return (
      <Field label={title} hint={text}>
        <select value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
          <option value="">{parameter.required ? "–" : "(default)"}</option>
          {parameter.allowed.map((one) => {
            const label = typeof one === "string" ? one : JSON.stringify(one);
            return <option key={label}>{label}</option>;
          })}
        </select>
      </Field>
    );
  }
  if (/^bool/.test(kind)) {
    return (
      <Field label={title} hint={text}>
        <select value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
          <option value="">(default)</option>
          <option>true</option>
          <option>false</option>
        </select>
      </Field>
    );
  }
  const long = /object|array|map|list|json/.test(kind);
  return (
    <Field label={title} hint={text}>
      {long ? (
        <textarea rows={3} value={value ?? ""} placeholder={/array|list/.test(kind) ? "[]" : "{}"} spellCheck={false} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input type={/secure|secret|password/.test(kind) ? "password" : "text"} value={value ?? ""} autoComplete="off" onChange={(event) => onChange(event.target.value)} />
      )}
    </Field>
  );
}

/** Converts the form to the run's input by the kinds of the parameters. Empty fields are omitted, so their defaults apply. */
export function formInput(parameters: Parameter[], values: Record<string, string>, lenient = false): Json {
  const input: { [key: string]: Json } = {};
  for (const parameter of parameters) {
    const typed = values[parameter.name];
    if (typed === undefined || typed === "") {
      if (lenient && parameter.default !== undefined) input[parameter.name] = parameter.default;
      continue;
    }
    input[parameter.name] = parseParameter(parameter, typed);
  }
  return input;
}

function parseParameter(parameter: Parameter, typed: string): Json {
  const kind = (parameter.kind ?? "").toLowerCase();
  if (/string|secure|text/.test(kind)) return typed;
  try {
    return JSON.parse(typed) as Json;
  } catch {
    if (kind === "" || kind === "any") return typed;
    throw new Error(`${parameter.name}: not a valid ${parameter.kind}: ${typed}`);
  }
}
