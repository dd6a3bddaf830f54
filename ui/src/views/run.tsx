// The view of one run: header, actions and tabs.

import { lazy, useCallback, useEffect, useState } from "react";
import { api, type Event, type GraphNode, type Run, type RunSummary } from "../api";
import { useLoad, useStream, useThrottled } from "../api/hooks";
import { Ago, Copy, Elapsed, ErrorPageLink, Loading, Pill, ProblemBox, Status, Tabs } from "../components/common";
import { count, humanize } from "../lib/format";
import { useKeys } from "../lib/keys";
import { enclosingLoop } from "../lib/paths";
import { Link, navigate, setQuery, to, useRoute } from "../lib/router";
import { hasEnded } from "../lib/status";
import { amount, money, tokens } from "../lib/usage";
import { RestartDialog, RunActions } from "./run/actions";
import { RunActivity } from "./run/activity";
import { RunData } from "./run/data";
import { RunDefinition } from "./run/definition";
import { RunEvents } from "./run/events";
import { newestSeq } from "./run/newest";
import { RunLogs } from "./run/logs";
import { RunJournal } from "./run/journal";
import { StepPanel, type ChosenStep } from "./run/step-panel";
import { Timeline } from "./run/timeline";
import { StreamStatus } from "./runs";

const GraphTab = lazy(() => import("./run/graph"));

const TABS = [
  { id: "graph", title: "Graph" },
  { id: "timeline", title: "Timeline" },
  { id: "loops", title: "Loops" },
  { id: "events", title: "Events" },
  { id: "logs", title: "Logs" },
  { id: "data", title: "Input & output" },
  { id: "definition", title: "Definition" },
  { id: "journal", title: "Journal" },
];

const LoopsTab = lazy(() => import("./run/loops"));

export default function RunView({ id, tab: requested }: { id: string; tab: string }) {
  const tab = TABS.some((one) => one.id === requested) ? requested : "graph";
  const { query } = useRoute();
  const run = useLoad(`run ${id}`, (signal) => api.run(id, signal));
  const [round, setRound] = useState(0);
  const [node, setNode] = useState<GraphNode | null>(null);
  const refresh = useCallback(() => {
    run.reload();
    setRound((old) => old + 1);
  }, [run.reload]);
  const soon = useThrottled(refresh, 1000);
  const stream = useRunChanges(id, run.value, soon);
  const choose = (next: string) => navigate(to(["runs", id, next], {}), true);
  useKeys(Object.fromEntries(TABS.map((one, at) => [String(at + 1), () => choose(one.id)])));
  const title = run.value ? `${humanize(run.value.status)}: ${run.value.definition}` : null;
  useEffect(() => {
    if (title) document.title = `${title} · Windlass`;
  }, [title]);
  const step = query.get("step");
  const chosen: ChosenStep | null = node && (step === null || step === (node.path ?? node.name)) ? { path: node.path ?? node.name, node } : step !== null ? { path: step, node: null } : null;
  if (run.problem && !run.value) {
    return (
      <div className="page">
        <ProblemBox problem={run.problem} onRetry={run.reload} />
        <Link to="/runs">All runs</Link>
      </div>
    );
  }
  if (!run.value) {
    return (
      <div className="page">
        <Loading lines={6} />
      </div>
    );
  }
  const value = run.value;
  return (
    <div className="page fills run-page">
      {run.problem && run.problem.status !== 0 ? <ProblemBox problem={run.problem} onRetry={run.reload} /> : null}
      <Head run={value} stream={stream} onChanged={refresh} />
      <Tabs label="Run" tabs={TABS} current={tab} onChoose={choose} />
      <div className="run-body">
        <div className="run-tab" role="tabpanel" id="tabpanel" aria-labelledby={`tab-${tab}`}>
          {tab === "graph" ? (
            <GraphTab
              run={value}
              round={round}
              chosen={node?.id ?? null}
              onChoose={(next) => {
                setNode(next);
                setQuery({ step: next ? (next.path ?? next.name) : null });
              }}
            />
          ) : tab === "timeline" ? (
            <Timeline run={value} round={round} onChoose={(path) => { setNode(null); setQuery({ step: path }); }} chosen={step} />
          ) : tab === "loops" ? (
            <LoopsTab id={id} round={round} />
          ) : tab === "events" ? (
            <RunEvents key={query.get("path") ?? ""} run={value} />
          ) : tab === "logs" ? (
            <RunLogs run={value} round={round} />
          ) : tab === "data" ? (
            <RunData run={value} />
          ) : tab === "definition" ? (
            <RunDefinition run={value} />
          ) : (
            <RunJournal id={id} ticks={value.ticks ?? null} />
          )}
        </div>
        {chosen && (tab === "graph" || tab === "timeline") ? (
          <StepPanel key={chosen.path} run={value} step={chosen} round={round} onChanged={refresh} onClose={() => { setNode(null); setQuery({ step: null }); }} />
        ) : null}
      </div>
    </div>
  );
}

/** Calls `soon` when the run publishes events, so that the view reloads. */
function useRunChanges(id: string, run: Run | null, soon: () => void): string {
  const [from, setFrom] = useState<number | null>(null);
  const open = run !== null && !hasEnded(run.status);
  useEffect(() => {
    if (!open || from !== null) return undefined;
    const abort = new AbortController();
    newestSeq(id, run, abort.signal).then(setFrom, () => setFrom(0));
    return () => abort.abort();
  }, [open, from, id, run]);
  const stream = useStream(open && from !== null ? api.eventsPath(id) : null, {
    query: { after: from ?? 0, follow: true },
    onMessages: soon,
    onReconnect: soon,
  });
  // The stream ends with the last event of the run; reload once more to show the final status.
  useEffect(() => {
    if (stream === "ended") soon();
  }, [stream, soon]);
  return open ? stream : "ended";
}

function Head({ run, stream, onChanged }: { run: Run; stream: string; onChanged(): void }) {
  const origin = run.origin;
  const source = origin?.restarts ?? origin?.retries;
  const children = run.children ?? [];
  return (
    <header className="run-head">
      <div className="run-title">
        <div className="row wraps">
          <h1 className="wrap">
            <Link to={to(["definitions", run.definition])}>{run.definition}</Link>
            {run.version ? <Link to={to(["definitions", run.definition], { version: run.version })} className="version">v{run.version}</Link> : null}
          </h1>
          <span role="status"><Pill status={run.status} /></span>
          {hasEnded(run.status) ? null : <StreamStatus state={stream} />}
        </div>
        <div className="run-facts">
          <span className="row">
            <code className="wrap">{run.run}</code>
            <Copy text={run.run} label="Copy run ID" />
          </span>
          {run.execution_id ? (
            <span>
              execution <code className="wrap">{run.execution_id}</code>
            </span>
          ) : null}
          <span>
            started <Ago at={run.created_at} />
          </span>
          <span>
            {hasEnded(run.status) ? "took " : "elapsed "}
            <Elapsed status={run.status} startedAt={run.created_at} ms={run.duration_ms} />
          </span>
          <span className="tag">{run.dialect}</span>
          {Object.entries(run.labels ?? {}).map(([name, value]) => <span key={name} className="tag wrap">{name}={value}</span>)}
          {run.parent ? (
            <span>
              child of <Link to={to(["runs", run.parent])} className="mono small">{run.parent}</Link>
            </span>
          ) : null}
          {source ? (
            <span>
              {origin?.restarts ? "restart of" : "retry of"} <Link to={to(["runs", source])} className="mono small">{source}</Link>
              {origin?.from ? <> from <code>{origin.from}</code></> : null}
            </span>
          ) : null}
          {children.length > 0 ? (
            <span>
              child runs{" "}
              {children.slice(0, 3).map((child) => (
                <ChildLink key={typeof child === "string" ? child : child.run} child={child} />
              ))}
              {children.length > 3 ? <Link to={to(["runs"], { parent: run.run })}>all {count(children.length)}</Link> : null}
            </span>
          ) : null}
          <UsageLine run={run} />
        </div>
      </div>
      <RunActions run={run} onChanged={onChanged} />
      {run.error ? <RunErrorBox run={run} /> : null}
      <RunActivity run={run} />
    </header>
  );
}

function ChildLink({ child }: { child: string | RunSummary }) {
  if (typeof child === "string") return <Link to={to(["runs", child])} className="mono small child">{child}</Link>;
  return (
    <Link to={to(["runs", child.run])} className="child" title={child.run}>
      <Status status={child.status} word={false} /> {child.definition}
    </Link>
  );
}

function UsageLine({ run }: { run: Run }) {
  const usage = run.usage;
  if (!usage || typeof usage !== "object") return null;
  const [used, cost] = [tokens(usage), money(usage)];
  const parts = [used ? `${count(used)} tokens` : "", cost ? `cost ${amount(cost)}` : ""].filter(Boolean);
  if (parts.length === 0) return null;
  return <span title={JSON.stringify(usage)}>{parts.join(" · ")}</span>;
}

function RunErrorBox({ run }: { run: Run }) {
  const error = run.error;
  const [restarting, setRestarting] = useState(false);
  if (!error) return null;
  const enclosing = error.path ? enclosingLoop(error.path) : null;
  return (
    <div className="problem run-error" role="note">
      <div className="problem-text">
        <p>
          {error.path ? (
            <Link to={to(["runs", run.run, "timeline"], { step: error.path })} className="mono">
              {error.path}
            </Link>
          ) : null}{" "}
          <strong>{error.message}</strong>
        </p>
        {error.hint ? <p className="hint">{error.hint}</p> : null}
        <p className="row wraps small">
          <span className="mono faint">{[error.code, error.kind].filter(Boolean).join(" · ")}</span>
          <ErrorPageLink code={error.reference} />
          {error.position ? (
            <Link to={to(["runs", run.run, "definition"])}>
              line {error.position.line}, column {error.position.column} of the definition
            </Link>
          ) : null}
          {enclosing ? <Link to={to(["runs", run.run, "loop"], { path: enclosing.loop, iteration: enclosing.iteration })}>iteration {count(enclosing.iteration)} of {enclosing.loop}</Link> : null}
          {enclosing ? <Link to={to(["runs", run.run, "loop"], { path: enclosing.loop, failed: true })}>all failed iterations</Link> : null}
          {error.path && hasEnded(run.status) ? <button type="button" className="more-link flat" onClick={() => setRestarting(true)}>restart from here</button> : null}
        </p>
        {hasEnded(run.status) ? (
          <>
            <ApiCall label="retry what failed" call={`POST /api/v1/runs/${run.run}/retry`} />
            {error.path ? <ApiCall label="restart from there" call={`POST /api/v1/runs/${run.run}/restart ${JSON.stringify({ from: error.path })}`} /> : null}
          </>
        ) : null}
      </div>
      {restarting && error.path ? <RestartDialog id={run.run} from={error.path} onClose={() => setRestarting(false)} /> : null}
    </div>
  );
}

/** A call of the API, ready to copy. */
function ApiCall({ label, call }: { label: string; call: string }) {
  return (
    <p className="row wraps small">
      <span className="faint">{label}:</span> <code className="wrap">{call}</code>
      <Copy text={call} label={`Copy: ${label}`} />
    </p>
  );
}

export type { Event };
