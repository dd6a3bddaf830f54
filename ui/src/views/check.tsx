// An editor that checks a definition while the user types, and registers it.

import { lazy, useEffect, useRef, useState, type RefObject, type UIEvent } from "react";
import { api, asProblem, type CheckResult, type Problem } from "../api";
import { isAborted } from "../api/client";
import { useLoad } from "../api/hooks";
import { Button, ErrorPageLink, Field, PageHead, ProblemBox, Tabs } from "../components/common";
import { Mark } from "../components/icons";
import { Source } from "../components/source";
import { count, plural } from "../lib/format";
import { Link, navigate, to, useRoute } from "../lib/router";
import { SAMPLES } from "../lib/samples";

const Plan = lazy(() => import("./check-graph"));
const STORAGE_KEY = "windlass.draft";
const MAX_LISTED = 5;
/** Must match the line height in the stylesheet. */
const LINE_HEIGHT = 19.2;

export default function Check() {
  const { query } = useRoute();
  const from = query.get("from");
  const version = query.get("version") ? Number(query.get("version")) : null;
  const base = useLoad(from ? `definition ${from} ${version ?? ""}` : null, (signal) => api.definition(from ?? "", version, signal));
  const [text, setText] = useState(() => (from ? "" : (sessionStorage.getItem(STORAGE_KEY) ?? "")));
  const [name, setName] = useState(from ?? "");
  const [checked, setChecked] = useState<CheckResult | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [tab, setTab] = useState("problems");
  useEffect(() => {
    if (base.value) setText(base.value.source);
  }, [base.value]);
  useEffect(() => {
    if (!from) sessionStorage.setItem(STORAGE_KEY, text);
    if (text.trim() === "") {
      setChecked(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      api.check({ source: text, ...(name.trim() ? { name: name.trim() } : {}) }, abort.signal).then(
        (result) => {
          setChecked(result);
          setProblem(null);
        },
        (error: unknown) => {
          if (!isAborted(error)) setProblem(asProblem(error));
        },
      );
    }, 350);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [text, name, from]);
  const register = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const done = await api.register({ source: text, ...(name.trim() ? { name: name.trim() } : {}) });
      sessionStorage.removeItem(STORAGE_KEY);
      navigate(to(["definitions", done.name]));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  const problems = checked?.problems ?? [];
  const located = problems.filter((one) => one.line > 0);
  const editor = useRef<((line: number, column: number) => void) | null>(null);
  const errors = problems.filter((one) => one.severity === "error").length;
  return (
    <div className="page fills">
      <PageHead title={from ? <span className="wrap">Edit {from}</span> : "Check a definition"} note={<Link to="/definitions">All definitions</Link>}>
        <Button variant="primary" icon="check" disabled={busy || !checked?.valid} onClick={() => void register()}>
          Register
        </Button>
      </PageHead>
      {base.problem ? <ProblemBox problem={base.problem} /> : null}
      <div className="editor-panes">
        <div className="stack editor-side">
          <Field label="Name" hint={checked?.name && !name ? `The definition is named ${checked.name}.` : "Required only if the definition has no name."}>
            <input type="text" value={name} placeholder={checked?.name ?? ""} spellCheck={false} onChange={(event) => setName(event.target.value)} />
          </Field>
          <Editor text={text} marked={new Set(problems.map((one) => one.line))} onChange={setText} jump={editor} />
        </div>
        <div className="stack editor-side">
          <div className="row wraps check-state" role="status">
            {text.trim() === "" ? (
              <span className="muted">Write or paste a Loom, NoETL or zenflow definition; it is checked while you type. Or start from a sample:</span>
            ) : checked === null ? (
              <span className="muted">Checking…</span>
            ) : checked.valid ? (
              <span className="status tone-good"><Mark status="succeeded" /> The definition is valid{checked.dialect ? `, ${checked.dialect}` : ""}{problems.length > 0 ? `, with ${plural(problems.length, "warning")}` : ""}</span>
            ) : (
              <span className="status tone-bad"><Mark status="failed" /> {plural(errors, "problem")}</span>
            )}
          </div>
          {text.trim() === "" ? (
            <ul className="panel pick-list samples">
              {SAMPLES.map((sample) => (
                <li key={sample.dialect}>
                  <button type="button" onClick={() => setText(sample.text)}>
                    <strong>{sample.dialect}</strong>
                    <span className="muted">{sample.shows}</span>
                  </button>
                </li>
              ))}
            </ul>
          ) : null}
          {located.length > 0 ? (
            <ul className="problem-list" aria-label="Problems">
              {located.slice(0, MAX_LISTED).map((one, at) => (
                <li key={at} className={one.severity === "warning" ? "tone-warn" : "tone-bad"}>
                  <button type="button" className="more-link flat" onClick={() => editor.current?.(one.line, one.column)}>
                    <span className="mono small">{one.line}:{one.column}</span> <span className="problem-message">{one.message}</span>
                  </button>{" "}
                  <ErrorPageLink code={one.code} />
                </li>
              ))}
              {located.length > MAX_LISTED ? <li className="muted small">and {count(located.length - MAX_LISTED)} more</li> : null}
            </ul>
          ) : null}
          {problem ? <ProblemBox problem={problem} /> : null}
          {checked?.graph ? <Tabs label="Preview" current={tab} onChoose={setTab} tabs={[{ id: "problems", title: "Text" }, { id: "graph", title: "Graph" }]} /> : null}
          {checked?.graph && tab === "graph" ? (
            <Plan graph={checked.graph} />
          ) : text.trim() !== "" ? (
            <>
              {problems.some((one) => one.line === 0) ? problems.filter((one) => one.line === 0).map((one, at) => <p key={at} className="bad-text">{one.code}: {one.message}</p>) : null}
              <Source text={text} annotations={located} />
            </>
          ) : null}
        </div>
      </div>
    </div>
  );
}

/** A text area with line numbers. */
function Editor({ text, marked, onChange, jump }: { text: string; marked: Set<number>; onChange(text: string): void; jump: RefObject<((line: number, column: number) => void) | null> }) {
  const gutter = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  jump.current = (line, column) => {
    const before = text.split("\n").slice(0, line - 1);
    const start = before.reduce((sum, one) => sum + one.length + 1, 0);
    // Columns count code points.
    const at = start + Array.from(text.slice(start)).slice(0, column - 1).join("").length;
    area.current?.focus();
    area.current?.setSelectionRange(at, at);
    if (area.current) area.current.scrollTop = Math.max(0, (line - 4) * LINE_HEIGHT);
  };
  const lines = text.split("\n").length;
  const scroll = (event: UIEvent<HTMLTextAreaElement>) => {
    if (gutter.current) gutter.current.scrollTop = event.currentTarget.scrollTop;
  };
  return (
    <div className="editor">
      <div className="gutter" ref={gutter} aria-hidden="true">
        {Array.from({ length: lines }, (_, at) => (
          <span key={at} className={marked.has(at + 1) ? "marked" : undefined}>{at + 1}</span>
        ))}
      </div>
      <textarea
        ref={area}
        aria-label="Definition"
        value={text}
        wrap="off"
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        onScroll={scroll}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          // Escape removes the focus, so that Tab can leave the editor.
          if (event.key === "Escape") event.currentTarget.blur();
          if (event.key !== "Tab" || event.shiftKey) return;
          event.preventDefault();
          event.currentTarget.setRangeText("  ", event.currentTarget.selectionStart, event.currentTarget.selectionEnd, "end");
          onChange(event.currentTarget.value);
        }}
      />
    </div>
  );
}
