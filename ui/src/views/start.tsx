// A run is started: a form from the definition's parameters, or raw JSON.

import { useEffect, useRef, useState } from "react";
import { api, asProblem, newKey, type Started, type DefinitionSummary, type Json, type Parameter, type Problem } from "../api";
import { useLoad } from "../api/use";
import { navigate, to } from "../lib/router";
import { Button, Dialog, Field, ProblemBox, Tabs, Waiting } from "../parts/small";

interface StartProps {
  names: DefinitionSummary[] | null;
  initial?: string;
  version?: number | null;
  onClose(): void;
}

export function StartRun({ names, initial = "", version = null, onClose }: StartProps) {
  const [name, setName] = useState(initial || names?.[0]?.name || "");
  useEffect(() => {
    if (name === "" && names?.[0]) setName(names[0].name);
  }, [names, name]);
  const known = useLoad(name ? `definition ${name} ${version}` : null, (signal) => api.definition(name, version, signal));
  const [mode, setMode] = useState("form");
  const [values, setValues] = useState<Record<string, string>>({});
  const [raw, setRaw] = useState("{}");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [done, setDone] = useState<Started | null>(null);
  const key = useRef(newKey());
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
      // Another body under the same key would be refused.
      key.current = newKey();
      setBusy(false);
    }
  };
  const toRaw = (next: string) => {
    if (next === "raw" && mode === "form") {
      try {
        setRaw(JSON.stringify(formInput(parameters, values, true), null, 2));
      } catch {
        // What was typed is no value yet: the raw text stays as it was.
      }
    }
    setMode(next);
  };
  if (done) {
    return (
      <Dialog title="It has begun" onClose={onClose}>
        <div className="warn-note stack tight" role="status">
          <strong>Some of what you gave is never read:</strong>
          {(done.warnings ?? []).map((one, at) => (
            <div key={at}>
              <p>{one.message}</p>
              {one.hint ? <p className="hint">{one.hint}</p> : null}
            </div>
          ))}
        </div>
        <footer>
          <Button onClick={onClose}>Stay here</Button>
          <Button look="primary" icon="play" autoFocus onClick={() => { onClose(); navigate(to(["runs", done.run])); }}>Open the run</Button>
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
        {known.loading && !known.value ? <Waiting lines={2} /> : null}
        {known.problem ? <ProblemBox problem={known.problem} /> : null}
        {parameters.length > 0 ? (
          <Tabs label="Input" current={mode} onChoose={toRaw} tabs={[{ id: "form", title: "Form" }, { id: "raw", title: "JSON" }]} />
        ) : null}
        {mode === "form" && parameters.length > 0 ? (
          parameters.map((parameter) => (
            <ParameterField key={parameter.name} parameter={parameter} value={values[parameter.name]} onChange={(value) => setValues({ ...values, [parameter.name]: value })} />
          ))
        ) : known.value ? (
          <Field label="Input" hint={parameters.length === 0 ? "This definition names no parameters; an object of JSON is passed on as it is." : "An object of JSON."}>
            <textarea value={raw} rows={8} spellCheck={false} onChange={(event) => setRaw(event.target.value)} />
          </Field>
        ) : null}
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" icon="play" disabled={busy || !name}>
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
  const label = parameter.required ? `${parameter.name} *` : parameter.name;
  const said = [parameter.description, hint.filter(Boolean).join(", ")].filter(Boolean).join(" · ");
  if (parameter.allowed && parameter.allowed.length > 0) {
    return (
      <Field label={label} hint={said}>
        <select value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
          <option value="">{parameter.required ? "–" : "(default)"}</option>
          {parameter.allowed.map((one) => {
            const text = typeof one === "string" ? one : JSON.stringify(one);
            return <option key={text}>{text}</option>;
          })}
        </select>
      </Field>
    );
  }
  if (/^bool/.test(kind)) {
    return (
      <Field label={label} hint={said}>
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
    <Field label={label} hint={said}>
      {long ? (
        <textarea rows={3} value={value ?? ""} placeholder={/array|list/.test(kind) ? "[]" : "{}"} spellCheck={false} onChange={(event) => onChange(event.target.value)} />
      ) : (
        <input type={/secure|secret|password/.test(kind) ? "password" : "text"} value={value ?? ""} autoComplete="off" onChange={(event) => onChange(event.target.value)} />
      )}
    </Field>
  );
}

/** What was typed, by the parameter's kind; an empty field is left out and so takes its default. */
export function formInput(parameters: Parameter[], values: Record<string, string>, lenient = false): Json {
  const input: { [key: string]: Json } = {};
  for (const parameter of parameters) {
    const typed = values[parameter.name];
    if (typed === undefined || typed === "") {
      if (lenient && parameter.default !== undefined) input[parameter.name] = parameter.default;
      continue;
    }
    input[parameter.name] = typedValue(parameter, typed);
  }
  return input;
}

function typedValue(parameter: Parameter, typed: string): Json {
  const kind = (parameter.kind ?? "").toLowerCase();
  if (/string|secure|text/.test(kind)) return typed;
  try {
    return JSON.parse(typed) as Json;
  } catch {
    if (kind === "" || kind === "any") return typed;
    throw new Error(`${parameter.name}: this is no ${parameter.kind}: ${typed}`);
  }
}
