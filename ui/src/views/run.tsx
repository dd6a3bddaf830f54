// One run: its head, its buttons, and the tabs that look into it.

import { lazy, useCallback, useEffect, useState } from "react";
import { api, type Event, type GraphNode, type Run, type RunSummary } from "../api";
import { useFollow, useLoad, useThrottled } from "../api/use";
import { count, words } from "../lib/format";
import { useKeys } from "../lib/keys";
import { loopOf } from "../lib/paths";
import { Link, navigate, setQuery, to, usePlace } from "../lib/router";
import { hasEnded } from "../lib/status";
import { amount, money, tokens } from "../lib/usage";
import { Ago, Copy, Pill, ProblemBox, Status, Tabs, Took, Waiting } from "../parts/small";
import { RestartDialog, RunActions } from "./run/actions";
import { RunData } from "./run/data";
import { RunDefinition } from "./run/definition";
import { RunEvents } from "./run/events";
import { newestSeq } from "./run/newest";
import { Now } from "./run/now";
import { RunJournal } from "./run/journal";
import { StepPanel, type ChosenStep } from "./run/side";
import { Timeline } from "./run/timeline";
import { Live } from "./runs";

const GraphTab = lazy(() => import("./run/graph"));

const TABS = [
  { id: "graph", title: "Graph" },
  { id: "timeline", title: "Timeline" },
  { id: "loops", title: "Loops" },
  { id: "events", title: "Events" },
  { id: "data", title: "Input & output" },
  { id: "definition", title: "Definition" },
  { id: "journal", title: "Journal" },
];

const LoopsTab = lazy(() => import("./run/loops"));

export default function RunView({ id, tab: wanted }: { id: string; tab: string }) {
  const tab = TABS.some((one) => one.id === wanted) ? wanted : "graph";
  const { query } = usePlace();
  const run = useLoad(`run ${id}`, (signal) => api.run(id, signal));
  const [round, setRound] = useState(0);
  const [node, setNode] = useState<GraphNode | null>(null);
  const refresh = useCallback(() => {
    run.reload();
    setRound((old) => old + 1);
  }, [run.reload]);
  const soon = useThrottled(refresh, 1000);
  const link = usePulse(id, run.value, soon);
  const choose = (next: string) => navigate(to(["runs", id, next], {}), true);
  useKeys(Object.fromEntries(TABS.map((one, at) => [String(at + 1), () => choose(one.id)])));
  const title = run.value ? `${words(run.value.status)}: ${run.value.definition}` : null;
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
        <Waiting lines={6} />
      </div>
    );
  }
  const value = run.value;
  return (
    <div className="page fills run-page">
      {run.problem && run.problem.status !== 0 ? <ProblemBox problem={run.problem} onRetry={run.reload} /> : null}
      <Head run={value} link={link} onChanged={refresh} />
      <Tabs label="Parts of the run" tabs={TABS} current={tab} onChoose={choose} />
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
            <RunEvents key={query.get("place") ?? ""} run={value} />
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

/** Something happened in the run: what is shown of it is asked for again, soon. */
function usePulse(id: string, run: Run | null, soon: () => void): string {
  const [from, setFrom] = useState<number | null>(null);
  const open = run !== null && !hasEnded(run.status);
  useEffect(() => {
    if (!open || from !== null) return undefined;
    const abort = new AbortController();
    newestSeq(id, run, abort.signal).then(setFrom, () => setFrom(0));
    return () => abort.abort();
  }, [open, from, id, run]);
  const link = useFollow(open && from !== null ? api.eventsPath(id) : null, {
    query: { after: from ?? 0, follow: true },
    onMessages: soon,
    onAgain: soon,
  });
  // The last event of all ends the stream: how the run ended is not to be missed.
  useEffect(() => {
    if (link === "ended") soon();
  }, [link, soon]);
  return open ? link : "ended";
}

function Head({ run, link, onChanged }: { run: Run; link: string; onChanged(): void }) {
  const origin = run.origin;
  const before = origin?.restarts ?? origin?.retries;
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
          {hasEnded(run.status) ? null : <Live link={link} />}
        </div>
        <div className="run-facts">
          <span className="row">
            <code className="wrap">{run.run}</code>
            <Copy text={run.run} label="Copy the run's id" />
          </span>
          <span>
            started <Ago at={run.created_at} />
          </span>
          <span>
            {hasEnded(run.status) ? "took " : "for "}
            <Took status={run.status} startedAt={run.created_at} ms={run.duration_ms} />
          </span>
          <span className="tag">{run.dialect}</span>
          {run.parent ? (
            <span>
              called by <Link to={to(["runs", run.parent])} className="mono small">{run.parent}</Link>
            </span>
          ) : null}
          {before ? (
            <span>
              {origin?.restarts ? "restarts" : "retries"} <Link to={to(["runs", before])} className="mono small">{before}</Link>
              {origin?.from ? <> from <code>{origin.from}</code></> : null}
            </span>
          ) : null}
          {children.length > 0 ? (
            <span>
              calls{" "}
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
      <Now run={run} />
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
  const said = [used ? `${count(used)} tokens` : "", cost ? `cost ${amount(cost)}` : ""].filter(Boolean);
  if (said.length === 0) return null;
  return <span title={JSON.stringify(usage)}>{said.join(" · ")}</span>;
}

function RunErrorBox({ run }: { run: Run }) {
  const error = run.error;
  const [restarting, setRestarting] = useState(false);
  if (!error) return null;
  const turn = error.path ? loopOf(error.path) : null;
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
          {error.position ? (
            <Link to={to(["runs", run.run, "definition"])}>
              line {error.position.line}, column {error.position.column} of the definition
            </Link>
          ) : null}
          {turn ? <Link to={to(["runs", run.run, "loop"], { path: turn.loop, turn: turn.turn })}>turn {count(turn.turn)} of {turn.loop}</Link> : null}
          {turn ? <Link to={to(["runs", run.run, "loop"], { path: turn.loop, failed: true })}>all its failed turns</Link> : null}
          {error.path && hasEnded(run.status) ? <button type="button" className="more-link flat" onClick={() => setRestarting(true)}>restart here</button> : null}
        </p>
      </div>
      {restarting && error.path ? <RestartDialog id={run.run} from={error.path} onClose={() => setRestarting(false)} /> : null}
    </div>
  );
}

export type { Event };
