// The side panel with the details of one step.

import { useEffect, useState } from "react";
import { api, type GraphNode, type Json, type Run, type Step } from "../../api";
import { useLoad } from "../../api/hooks";
import { childSteps, eventsAt, stepValues } from "../../api/step-events";
import { Button, ErrorPageLink, Loading, Status } from "../../components/common";
import { Icon } from "../../components/icons";
import { JsonBox } from "../../components/json";
import { count, duration, humanize, stamp } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { endReasonText, isLoop, isPattern, iterationPath, loopPath, outermostLoop } from "../../lib/loops";
import { enclosingLoop, pathParts } from "../../lib/paths";
import { Link, to } from "../../lib/router";
import { stopOf, stopText } from "../../lib/stop";
import { RestartDialog } from "./actions";

export interface ChosenStep {
  path: string;
  node: GraphNode | null;
}

export function StepPanel({ run, step, round, onClose }: { run: Run; step: ChosenStep; round: number; onChanged(): void; onClose(): void }) {
  const [restarting, setRestarting] = useState(false);
  useKeys({ Escape: onClose });
  const { node, path } = step;
  const top = pathParts(path).length === 1 && pathParts(path)[0]?.iteration === null ? run.steps?.[path] : undefined;
  const frame = useLoad(isPattern(path) ? null : `step ${run.run} ${path}`, (signal) => findStep(run.run, path, signal));
  useEffect(() => {
    if (round > 0) frame.reload();
  }, [round, frame.reload]);
  const status = node?.run?.status ?? frame.value?.status ?? top?.status ?? "pending";
  const error = frame.value?.error ?? top?.error ?? (run.error?.path === path ? run.error : null);
  const ownLoop = node ? loopPath(node) : null;
  const enclosing = enclosingLoop(path);
  const outer = outermostLoop(path);
  const took = node?.run?.duration_ms ?? frame.value?.duration_ms;
  const attempts = node?.run?.attempts ?? frame.value?.attempts;
  const iterations = node?.run?.iterations;
  const stop = stopOf(top?.output);
  const started = status !== "pending" && !frame.value?.trimmed;
  const since = frame.value?.started_at ?? node?.run?.started_at ?? null;
  return (
    <aside className="side panel" aria-label={`Step ${path}`}>
      <header>
        <div className="grow">
          <h2 className="wrap">{node?.name ?? path}</h2>
          <span className="mono small faint wrap">{path}</span>
        </div>
        <Button variant="quiet" icon="close" aria-label="Close" onClick={onClose} />
      </header>
      <div className="side-body">
        <dl className="facts">
          <dt>Status</dt>
          <dd><Status status={status} /></dd>
          <dt>Kind</dt>
          <dd>{node?.kind || frame.value?.kind || "–"}</dd>
          {node?.detail && node.detail !== node.kind ? (<><dt>Detail</dt><dd className="wrap">{node.detail}</dd></>) : null}
          {node?.run?.started_at ?? frame.value?.started_at ? (<><dt>Started</dt><dd>{stamp(node?.run?.started_at ?? frame.value?.started_at)}</dd></>) : null}
          {took !== undefined && took !== null ? (<><dt>Duration</dt><dd>{duration(took)}{(node?.run?.runs ?? 1) > 1 ? " in total" : ""}</dd></>) : null}
          {node?.run && node.run.runs > 1 ? (<><dt>Runs</dt><dd>{count(node.run.runs)}{node.run.counts ? `: ${Object.entries(node.run.counts).map(([key, value]) => `${count(value)} ${humanize(key)}`).join(", ")}` : ""}</dd></>) : null}
          {attempts ? (<><dt>Attempts</dt><dd>{(node?.run?.runs ?? 1) > 1 ? `up to ${attempts}` : attempts}</dd></>) : null}
          {iterations ? (<><dt>Iterations</dt><dd>{count(iterations.ended)}{iterations.failed ? `, ${count(iterations.failed)} failed` : ""}{iterations.reason ? `, ended by ${endReasonText(iterations.reason)}` : ""}</dd></>) : null}
          {stop !== null ? (<><dt>Answer</dt><dd>{stopText(stop)} ({stop})</dd></>) : null}
          {node?.run?.worker !== undefined ? (<><dt>Worker</dt><dd>{node.run.worker}</dd></>) : null}
        </dl>
        <div className="row wraps">
          {node && isLoop(node) && ownLoop && (iterations?.entries ?? 1) <= 1 ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: ownLoop })}><Icon name="loop" size={13} /> Iterations</Link>
          ) : outer ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: outer })}><Icon name="loop" size={13} /> Iterations of {outer}</Link>
          ) : enclosing ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: enclosing.loop, iteration: enclosing.iteration })}><Icon name="loop" size={13} /> Iteration {count(enclosing.iteration)} of {enclosing.loop}</Link>
          ) : null}
          {started && path && !isPattern(path) ? (
            <Button className="small" icon="restart" onClick={() => setRestarting(true)}>Restart from here</Button>
          ) : null}
          <Link className="button small" to={to(["runs", run.run, "events"], { path, since: isPattern(path) ? null : since })}>Events</Link>
        </div>
        {error ? (
          <div className="problem">
            <div className="problem-text">
              <strong>{error.message}</strong>
              {error.hint ? <p className="hint">{error.hint}</p> : null}
              <p className="mono small faint">{[error.code, error.kind, error.path !== path ? error.path : ""].filter(Boolean).join(" · ")} <ErrorPageLink code={error.reference} /></p>
            </div>
          </div>
        ) : null}
        {frame.value?.trimmed ? <p className="warn-note">No events of this step are retained. Its status and time are those of iteration {count(frame.value.trimmed.iteration)}.</p> : null}
        {frame.loading && frame.value === null ? null : frame.value?.trimmed ? (
          frame.value.trimmed.result === undefined ? null : <section className="stack tight"><h3>Output</h3><JsonBox value={frame.value.trimmed.result} /></section>
        ) : <Values run={run} path={path} since={since} known={top?.output} round={round} />}
      </div>
      {restarting ? <RestartDialog id={run.run} from={path} onClose={() => setRestarting(false)} /> : null}
    </aside>
  );
}

/** Finds a started step among its parent's steps. Steps of early iterations are no longer buffered and come from the events or, if these were trimmed, from the iteration. */
export async function findStep(run: string, path: string, signal: AbortSignal): Promise<Step | null> {
  const cut = path.endsWith("]") ? path.lastIndexOf("[") : path.lastIndexOf(".");
  const parent = cut > 0 ? path.slice(0, cut) : "";
  const page = await api.steps(run, { parent, limit: 2000 }, signal);
  const found = page.items.find((step) => step.path === path);
  if (found || !(page.dropped || page.partial)) return found ?? null;
  const enclosing = enclosingLoop(path);
  if (enclosing === null) return null;
  const { iterations } = await api.iterations(run, { loop: enclosing.loop, from: enclosing.iteration, limit: 1 }, signal);
  const record = iterations.find((one) => one.iteration === enclosing.iteration);
  if (!record) return null;
  const ownPath = iterationPath(enclosing.loop, record);
  if (path === ownPath) {
    return { path, name: path, kind: "iteration", status: record.status, started_at: record.started_at ?? null, duration_ms: record.duration_ms ?? null, error: record.error ?? null };
  }
  const fromEvents = childSteps(await eventsAt(run, path, record.started_at, signal), parent).find((step) => step.path === path);
  if (fromEvents) return fromEvents;
  const name = path.slice(parent.length + 1);
  const { result } = record;
  const own = result !== null && typeof result === "object" && !Array.isArray(result) && parent === ownPath ? result[name] : undefined;
  return { path, name, kind: "", status: record.status, started_at: record.started_at ?? null, trimmed: { iteration: enclosing.iteration, result: own } };
}

/** The step's input and output, which the server finds in its events from its start time on. */
function Values({ run, path, since, known, round }: { run: Run; path: string; since: string | null; known: Json | undefined; round: number }) {
  const found = useLoad(isPattern(path) || path === "" ? null : `values ${run.run} ${path} ${since ?? ""}`, async (signal) => stepValues(await eventsAt(run.run, path, since, signal), path));
  useEffect(() => {
    if (round > 0 && found.value?.output === undefined) found.reload();
  }, [round]); // eslint-disable-line
  const input = found.value?.input;
  const output = known ?? found.value?.output;
  return (
    <>
      {input !== undefined ? <section className="stack tight"><h3>Input</h3><JsonBox value={input} /></section> : null}
      {output !== undefined && output !== null ? <section className="stack tight"><h3>Output</h3><JsonBox value={output} /></section> : null}
      {found.loading && found.value === null && output === undefined ? <Loading lines={2} /> : null}
    </>
  );
}
