// What is known of one step.

import { useEffect, useState } from "react";
import { api, type GraphNode, type Json, type Run, type Step } from "../../api";
import { eventsAt, stepsOf, valuesOf } from "../../api/places";
import { useLoad } from "../../api/use";
import { count, duration, many, stamp, words } from "../../lib/format";
import { loopOf, pathParts } from "../../lib/paths";
import { Link, to } from "../../lib/router";
import { Icon } from "../../parts/icons";
import { JsonBox } from "../../parts/json";
import { Button, Status, Waiting } from "../../parts/small";
import { isLoop, isMany, loopPath, outermostLoop, reasonWords, turnPath } from "../../lib/loops";
import { useKeys } from "../../lib/keys";
import { RestartDialog } from "./actions";

export interface ChosenStep {
  path: string;
  node: GraphNode | null;
}

export function StepPanel({ run, step, round, onClose }: { run: Run; step: ChosenStep; round: number; onChanged(): void; onClose(): void }) {
  const [restarting, setRestarting] = useState(false);
  useKeys({ Escape: onClose });
  const { node, path } = step;
  const top = pathParts(path).length === 1 && pathParts(path)[0]?.turn === null ? run.steps?.[path] : undefined;
  const frame = useLoad(isMany(path) ? null : `step ${run.run} ${path}`, (signal) => findStep(run.run, path, signal));
  useEffect(() => {
    if (round > 0) frame.reload();
  }, [round, frame.reload]);
  const status = node?.run?.status ?? frame.value?.status ?? top?.status ?? "pending";
  const error = frame.value?.error ?? top?.error ?? (run.error?.path === path ? run.error : null);
  const mine = node ? loopPath(node) : null;
  const enclosing = loopOf(path);
  const outer = outermostLoop(path);
  const took = node?.run?.duration_ms ?? frame.value?.duration_ms;
  const attempts = node?.run?.attempts ?? frame.value?.attempts;
  const turns = node?.run?.turns;
  const began = status !== "pending" && !frame.value?.gone;
  const since = frame.value?.started_at ?? node?.run?.started_at ?? null;
  return (
    <aside className="side panel" aria-label={`Step ${path}`}>
      <header>
        <div className="grow">
          <h2 className="wrap">{node?.name ?? path}</h2>
          <span className="mono small faint wrap">{path}</span>
        </div>
        <Button look="quiet" icon="close" aria-label="Close" onClick={onClose} />
      </header>
      <div className="side-body">
        <dl className="facts">
          <dt>Status</dt>
          <dd><Status status={status} /></dd>
          <dt>Kind</dt>
          <dd>{node?.kind || frame.value?.kind || "–"}</dd>
          {node?.detail && node.detail !== node.kind ? (<><dt>Does</dt><dd className="wrap">{node.detail}</dd></>) : null}
          {node?.run?.started_at ?? frame.value?.started_at ? (<><dt>Began</dt><dd>{stamp(node?.run?.started_at ?? frame.value?.started_at)}</dd></>) : null}
          {took !== undefined && took !== null ? (<><dt>Took</dt><dd>{duration(took)}{(node?.run?.runs ?? 1) > 1 ? " in all" : ""}</dd></>) : null}
          {node?.run && node.run.runs > 1 ? (<><dt>Runs</dt><dd>{count(node.run.runs)}{node.run.counts ? `: ${Object.entries(node.run.counts).map(([key, value]) => `${count(value)} ${words(key)}`).join(", ")}` : ""}</dd></>) : null}
          {attempts ? (<><dt>Tries</dt><dd>{(node?.run?.runs ?? 1) > 1 ? `at most ${attempts}` : attempts}</dd></>) : null}
          {turns ? (<><dt>Turns</dt><dd>{many(turns.ended, "turn")}{turns.failed ? `, ${count(turns.failed)} failed` : ""}{turns.reason ? `, ended by ${reasonWords(turns.reason)}` : ""}</dd></>) : null}
          {node?.run?.worker !== undefined ? (<><dt>Worker</dt><dd>{node.run.worker}</dd></>) : null}
        </dl>
        <div className="row wraps">
          {node && isLoop(node) && mine && (turns?.entries ?? 1) <= 1 ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: mine })}><Icon name="loop" size={13} /> Turns of the loop</Link>
          ) : outer ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: outer })}><Icon name="loop" size={13} /> Turns of {outer}</Link>
          ) : enclosing ? (
            <Link className="button small" to={to(["runs", run.run, "loop"], { path: enclosing.loop, turn: enclosing.turn })}><Icon name="loop" size={13} /> Turn {count(enclosing.turn)} of {enclosing.loop}</Link>
          ) : null}
          {began && path && !isMany(path) ? (
            <Button className="small" icon="restart" onClick={() => setRestarting(true)}>Restart here</Button>
          ) : null}
          <Link className="button small" to={to(["runs", run.run, "events"], { place: path, since: isMany(path) ? null : since })}>Events</Link>
        </div>
        {error ? (
          <div className="problem">
            <div className="problem-text">
              <strong>{error.message}</strong>
              {error.hint ? <p className="hint">{error.hint}</p> : null}
              <p className="mono small faint">{[error.code, error.kind, error.path !== path ? error.path : ""].filter(Boolean).join(" · ")}</p>
            </div>
          </div>
        ) : null}
        {frame.value?.gone ? <p className="warn-note">No events of this step are kept. Its status and time are those of turn {count(frame.value.gone.turn)}.</p> : null}
        {frame.loading && frame.value === null ? null : frame.value?.gone ? (
          frame.value.gone.result === undefined ? null : <section className="stack tight"><h3>Output</h3><JsonBox value={frame.value.gone.result} /></section>
        ) : <Values run={run} path={path} since={since} known={top?.output} round={round} />}
      </div>
      {restarting ? <RestartDialog id={run.run} from={path} onClose={() => setRestarting(false)} /> : null}
    </aside>
  );
}

/** The page of its parent's steps holds it, if it has begun; of what is inside of early turns the events alone tell. */
export async function findStep(run: string, path: string, signal: AbortSignal): Promise<Step | null> {
  const cut = path.endsWith("]") ? path.lastIndexOf("[") : path.lastIndexOf(".");
  const parent = cut > 0 ? path.slice(0, cut) : "";
  const page = await api.steps(run, { parent, limit: 2000 }, signal);
  const found = page.items.find((step) => step.path === path);
  if (found || !(page.dropped || page.partial)) return found ?? null;
  const around = loopOf(path);
  if (around === null) return null;
  const { turns } = await api.turns(run, { loop: around.loop, from: around.turn, limit: 1 }, signal);
  const turn = turns.find((one) => one.iteration === around.turn);
  if (!turn) return null;
  const whole = turnPath(around.loop, turn);
  if (path === whole) {
    return { path, name: path, kind: "turn", status: turn.status, started_at: turn.started_at ?? null, duration_ms: turn.duration ?? null, error: turn.error ?? null };
  }
  const told = stepsOf(await eventsAt(run, path, turn.started_at, signal), parent).find((step) => step.path === path);
  if (told) return told;
  const name = path.slice(parent.length + 1);
  const { result } = turn;
  const own = result !== null && typeof result === "object" && !Array.isArray(result) && parent === whole ? result[name] : undefined;
  return { path, name, kind: "", status: turn.status, started_at: turn.started_at ?? null, gone: { turn: around.turn, result: own } };
}

/** Input and output stand in its events: the server looks for them from the time on at which it began. */
function Values({ run, path, since, known, round }: { run: Run; path: string; since: string | null; known: Json | undefined; round: number }) {
  const found = useLoad(isMany(path) || path === "" ? null : `values ${run.run} ${path} ${since ?? ""}`, async (signal) => valuesOf(await eventsAt(run.run, path, since, signal), path));
  useEffect(() => {
    if (round > 0 && found.value?.output === undefined) found.reload();
  }, [round]); // eslint-disable-line
  const input = found.value?.input;
  const output = known ?? found.value?.output;
  return (
    <>
      {input !== undefined ? <section className="stack tight"><h3>Input</h3><JsonBox value={input} /></section> : null}
      {output !== undefined && output !== null ? <section className="stack tight"><h3>Output</h3><JsonBox value={output} /></section> : null}
      {found.loading && found.value === null && output === undefined ? <Waiting lines={2} /> : null}
    </>
  );
}
