// What people are asked, and a form to answer each.

import { useEffect, useMemo, useState } from "react";
import { api, asProblem, type Approval, type FieldProblem, type Json, type Problem } from "../api";
import { useEvery, useFollow, useLoad, useThrottled } from "../api/use";
import { Link, setQuery, to, usePlace } from "../lib/router";
import { asSchema, initial, problemsOf } from "../lib/schema";
import { SchemaForm } from "../parts/schema-form";
import { Ago, Button, Empty, isReport, PageHead, ProblemBox, Waiting } from "../parts/small";

const key = (approval: Approval) => `${approval.run} ${approval.name} ${approval.path}`;

export default function Approvals() {
  const { query } = usePlace();
  const run = query.get("run");
  const list = useLoad(`approvals ${run ?? ""}`, (signal) => api.approvals({ run }, signal));
  const soon = useThrottled(list.reload, 1000);
  useFollow("/runs/changes", { onMessages: soon, onAgain: soon });
  useEvery(10_000, list.reload);
  const [done, setDone] = useState<string | null>(null);
  const items = list.value?.items ?? [];
  const wanted = query.get("open");
  const open = items.find((one) => key(one) === wanted) ?? (items.length > 0 && wanted === null ? items[0] : undefined);
  useEffect(() => {
    if (done === null) return undefined;
    const timer = setTimeout(() => setDone(null), 4000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <div className="page">
      <PageHead title="Approvals" note={run ? <>of run <Link to={to(["runs", run])} className="mono">{run}</Link> · <Link to="/approvals">all</Link></> : "What runs wait for people to say"} />
      {done ? <p className="done-note" role="status">{done}</p> : null}
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Waiting />
      ) : items.length === 0 ? (
        <Empty title="Nobody is asked anything">
          <p>A step that waits for an approval shows its form here.</p>
        </Empty>
      ) : (
        <div className="two-panes">
          <ul className="panel pick-list">
            {items.map((approval) => (
              <li key={key(approval)}>
                <button type="button" aria-current={open && key(open) === key(approval) ? "true" : undefined} onClick={() => setQuery({ open: key(approval) })}>
                  <strong className="wrap">{said(approval.title || approval.name)}</strong>
                  <span className="muted small">{approval.definition} · asked <Ago at={approval.since} /></span>
                  <span className="mono small faint cut">{approval.run}</span>
                  {approval.deadline ? <span className="small warn-text">answer <Ago at={approval.deadline} /></span> : null}
                </button>
              </li>
            ))}
            {list.value.next !== null && list.value.next !== undefined ? <li className="muted small more-wait">More are waiting: they come when these are answered.</li> : null}
          </ul>
          {open ? (
            <ApprovalForm
              key={key(open)}
              approval={open}
              onDone={() => {
                setDone(`Answered: ${said(open.title || open.name)}`);
                setQuery({ open: null });
                list.reload();
              }}
            />
          ) : (
            <Empty title="This was answered, or the run has ended" />
          )}
        </div>
      )}
    </div>
  );
}

/** Texts of a form are computed by the run, and may be anything. */
function said(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function ApprovalForm({ approval, onDone }: { approval: Approval; onDone(): void }) {
  const schema = useMemo(() => asSchema(approval.schema), [approval.schema]);
  const [value, setValue] = useState<Json | undefined>(() => (schema ? initial(schema) : undefined));
  const [problems, setProblems] = useState<FieldProblem[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setProblem(null);
    const wrong = schema ? problemsOf(schema, value) : [];
    setProblems(wrong);
    if (wrong.length > 0) return;
    setBusy(true);
    try {
      // No two of a run have the same path.
      await api.approve(approval.run, approval.path || approval.name, value ?? null);
      onDone();
    } catch (error) {
      const told = asProblem(error);
      const fields = told.problems.filter((one): one is FieldProblem => !isReport(one));
      setProblems(fields);
      setProblem(told);
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
          <h2 className="wrap">{said(approval.title || approval.name)}</h2>
          <span className="small muted">
            <Link to={to(["runs", approval.run])}>{approval.definition}</Link> at <code>{approval.path || approval.name}</code> · asked <Ago at={approval.since} />
            {approval.deadline ? <> · until <Ago at={approval.deadline} /></> : null}
          </span>
        </div>
      </header>
      <div className="panel-body stack">
        {approval.message ? <p className="message">{said(approval.message)}</p> : null}
        {approval.assignees && approval.assignees.length > 0 ? <p className="muted small">Asked of {approval.assignees.map(said).join(", ")}</p> : null}
        <SchemaForm schema={schema ?? {}} value={value} problems={problems} onChange={setValue} />
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer className="row">
          <Button type="submit" look="primary" icon="check" disabled={busy}>
            Send the answer
          </Button>
          {problems.length > 0 ? <span className="field-problem">{problems.length === 1 ? "One field needs another look" : `${problems.length} fields need another look`}</span> : null}
        </footer>
      </div>
    </form>
  );
}
