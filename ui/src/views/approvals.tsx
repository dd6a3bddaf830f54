// Open approval requests, with a form for each.

import { useEffect, useMemo, useState } from "react";
import { api, asProblem, type Approval, type FieldProblem, type Json, type Problem } from "../api";
import { useInterval, useLoad, useStream, useThrottled } from "../api/hooks";
import { Ago, Button, Empty, isDefinitionProblem, Loading, PageHead, ProblemBox } from "../components/common";
import { SchemaForm } from "../components/schema-form";
import { plural } from "../lib/format";
import { Link, setQuery, to, useRoute } from "../lib/router";
import { asSchema, initialValue, validate } from "../lib/schema";

const key = (approval: Approval) => `${approval.run} ${approval.name} ${approval.path}`;

export default function Approvals() {
  const { query } = useRoute();
  const run = query.get("run");
  const list = useLoad(`approvals ${run ?? ""}`, (signal) => api.approvals({ run }, signal));
  const soon = useThrottled(list.reload, 1000);
  useStream("/runs/changes", { onMessages: soon, onReconnect: soon });
  useInterval(10_000, list.reload);
  const [done, setDone] = useState<string | null>(null);
  const items = list.value?.items ?? [];
  const selected = query.get("open");
  const open = items.find((one) => key(one) === selected) ?? (items.length > 0 && selected === null ? items[0] : undefined);
  useEffect(() => {
    if (done === null) return undefined;
    const timer = setTimeout(() => setDone(null), 4000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <div className="page">
      <PageHead title="Approvals" note={run ? <>for run <Link to={to(["runs", run])} className="mono">{run}</Link> · <Link to="/approvals">all</Link></> : "Requests that wait for a decision"} />
      {done ? <p className="done-note" role="status">{done}</p> : null}
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Loading />
      ) : items.length === 0 ? (
        <Empty title="No open approval requests">
          <p>When a step waits for an approval, its form appears here.</p>
        </Empty>
      ) : (
        <div className="two-panes">
          <ul className="panel pick-list">
            {items.map((approval) => (
              <li key={key(approval)}>
                <button type="button" aria-current={open && key(open) === key(approval) ? "true" : undefined} onClick={() => setQuery({ open: key(approval) })}>
                  <strong className="wrap">{formText(approval.title || approval.name)}</strong>
                  <span className="muted small">{approval.definition} · requested <Ago at={approval.since} /></span>
                  <span className="mono small faint cut">{approval.run}</span>
                  {approval.deadline ? <span className="small warn-text">due <Ago at={approval.deadline} /></span> : null}
                </button>
              </li>
            ))}
            {list.value.next !== null && list.value.next !== undefined ? <li className="muted small more-wait">More requests appear when these are answered.</li> : null}
          </ul>
          {open ? (
            <ApprovalForm
              key={key(open)}
              approval={open}
              onDone={() => {
                setDone(`Answered: ${formText(open.title || open.name)}`);
                setQuery({ open: null });
                list.reload();
              }}
            />
          ) : (
            <Empty title="Already answered, or the run has ended" />
          )}
        </div>
      )}
    </div>
  );
}

/** Formats a text of a form, which the run computes and which may be any JSON value. */
function formText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function ApprovalForm({ approval, onDone }: { approval: Approval; onDone(): void }) {
  const schema = useMemo(() => asSchema(approval.schema), [approval.schema]);
  const [value, setValue] = useState<Json | undefined>(() => (schema ? initialValue(schema) : undefined));
  const [problems, setProblems] = useState<FieldProblem[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setProblem(null);
    const invalid = schema ? validate(schema, value) : [];
    setProblems(invalid);
    if (invalid.length > 0) return;
    setBusy(true);
    try {
      // The path is unique within a run; the name is not.
      await api.approve(approval.run, approval.path || approval.name, value ?? null);
      onDone();
    } catch (error) {
      const failure = asProblem(error);
      const fields = failure.problems.filter((one): one is FieldProblem => !isDefinitionProblem(one));
      setProblems(fields);
      setProblem(failure);
      setBusy(false);
    }
  };
  return (
    <form
      className="panel approval"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <header>
        <div className="grow">
          <h2 className="wrap">{formText(approval.title || approval.name)}</h2>
          <span className="small muted">
            <Link to={to(["runs", approval.run])}>{approval.definition}</Link> at <code>{approval.path || approval.name}</code> · requested <Ago at={approval.since} />
            {approval.deadline ? <> · due <Ago at={approval.deadline} /></> : null}
          </span>
        </div>
      </header>
      <div className="panel-body stack">
        {approval.message ? <p className="message">{formText(approval.message)}</p> : null}
        {approval.assignees && approval.assignees.length > 0 ? <p className="muted small">Assigned to {approval.assignees.map(formText).join(", ")}</p> : null}
        <SchemaForm schema={schema ?? {}} value={value} problems={problems} onChange={setValue} />
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer className="row">
          <Button type="submit" variant="primary" icon="check" disabled={busy}>
            Submit answer
          </Button>
          {problems.length > 0 ? <span className="field-problem">{plural(problems.length, "invalid field")}</span> : null}
        </footer>
      </div>
    </form>
  );
}
