// The view of one loop: its summary, a progress strip and the paged list of its iterations.

import { useEffect, useState } from "react";
import { api, type Json, type Loop, type Run } from "../api";
import { useInterval, useLoad } from "../api/hooks";
import { Ago, Button, Loading, Pill, ProblemBox } from "../components/common";
import { Icon } from "../components/icons";
import { ProgressStrip } from "../components/strip";
import { brief, count } from "../lib/format";
import { endReasonText, iterationPath } from "../lib/loops";
import { joinPath, pathParts } from "../lib/paths";
import { Link, setQuery, to, useRoute } from "../lib/router";
import { hasEnded } from "../lib/status";
import { amount, money, tokens } from "../lib/usage";
import { FailureSummary } from "./loop/failure-summary";
import { useIterationExtras } from "./loop/iteration-extras";
import { IterationList } from "./loop/iterations";
import { RestartDialog, RetryDialog } from "./run/actions";
import { findStep } from "./run/step-panel";

export default function LoopView({ run: id, path }: { run: string; path: string }) {
  const { query } = useRoute();
  const failedOnly = query.get("failed") === "true";
  const selected = query.get("iteration");
  const run = useLoad(`run ${id}`, (signal) => api.run(id, signal));
  const loop = useLoad(`loop ${id} ${path}`, (signal) => findLoop(id, path, signal));
  const iterations = loop.value ? (loop.value.live?.ended ?? loop.value.iterations) : null;
  const failed = loop.value ? (loop.value.live?.failed ?? loop.value.failed) : 0;
  const strip = useLoad(`strip ${id} ${path}`, (signal) => api.strip(id, path, window.innerWidth < 700 ? 90 : 240, signal));
  const open = loop.value !== null && !loop.value.reason && run.value !== null && !hasEnded(run.value.status);
  useInterval(open ? 2000 : null, () => {
    loop.reload();
    strip.reload();
    run.reload();
  });
  // The end reason does not determine the status: a loop with failed iterations may still have run all of them.
  const step = useLoad(loop.value !== null && !open ? `loop step ${id} ${path}` : null, (signal) => findStep(id, path, signal));
  const extras = useIterationExtras(id, path, loop.value !== null && loop.value.cost !== undefined && loop.value.cost !== null, iterations);
  const missing = loop.value === null && loop.problem?.status === 404;
  const [retrying, setRetrying] = useState(false);
  const [restart, setRestart] = useState<string | null>(null);
  useEffect(() => {
    document.title = `${path} · Windlass`;
  }, [path]);
  return (
    <div className="page fills loop-page">
      <nav className="crumbs" aria-label="Breadcrumb">
        <Link to="/runs">Runs</Link>
        <Icon name="right" size={10} />
        <Link to={to(["runs", id])}>{run.value?.definition ?? id}</Link>
        <Icon name="right" size={10} />
        <Crumbs id={id} path={path} />
      </nav>
      {loop.problem ? <ProblemBox problem={loop.problem} onRetry={loop.reload} /> : null}
      {missing ? <p><Link to={to(["runs", id, "loops"])}>All loops of this run</Link></p> : null}
      {loop.value ? (
        <Summary loop={loop.value} run={run.value} status={loopStatus(loop.value, run.value, open, step.value?.status ?? null)} onRetry={() => setRetrying(true)} />
      ) : loop.problem ? null : (
        <Loading lines={2} />
      )}
      {strip.value && strip.value.cells.length > 0 ? (
        <ProgressStrip
          strip={strip.value}
          max={loop.value?.live?.max_iterations ?? null}
          open={open}
          current={selected === null ? undefined : Number(selected)}
          onChoose={(at) => setQuery({ iteration: at, failed: null })}
        />
      ) : null}
      <FailureSummary id={id} path={path} failed={failed} />
      {missing ? null : <IterationList id={id} path={path} failedOnly={failedOnly} ordered={query.get("order") === "iteration"} start={selected === null ? null : Number(selected)} known={iterations} failed={failed} live={open} extras={extras} onRestart={(chosen) => setRestart(iterationPath(path, chosen))} />}
      {retrying ? <RetryDialog id={id} failed={failed} onClose={() => setRetrying(false)} /> : null}
      {restart ? <RestartDialog id={id} from={restart} onClose={() => setRestart(null)} /> : null}
    </div>
  );
}

/** Finds a loop. The list is sorted by path and may be long, so this requests the page that starts with the loop. */
async function findLoop(id: string, path: string, signal: AbortSignal): Promise<Loop> {
  const page = await api.loops(id, { after: justBefore(path), limit: 1 }, signal);
  const found = page.items.find((one) => one.loop === path);
  if (found) return found;
  const first = await api.iterations(id, { loop: path, from: 0, limit: 1 }, signal);
  return { loop: path, iterations: first.total ?? 0, failed: first.failed ?? 0 };
}

/** Returns approximately the greatest string that sorts before `path`. */
export function justBefore(path: string): string {
  const letters = Array.from(path);
  const last = letters.pop()?.codePointAt(0) ?? 0;
  return last <= 32 ? letters.join("") : `${letters.join("")}${String.fromCodePoint(last - 1)}\u{10ffff}`;
}

function Crumbs({ id, path }: { id: string; path: string }) {
  const parts = pathParts(path);
  return (
    <>
      {parts.map((part, at) => {
        const loop = joinPath([...parts.slice(0, at), { name: part.name, iteration: null }]);
        return (
          <span key={at} className="row">
            {at > 0 ? <Icon name="right" size={10} /> : null}
            {part.iteration === null ? <strong>{part.name}</strong> : <Link to={to(["runs", id, "loop"], { path: loop, iteration: part.iteration })}>{joinPath([part])}</Link>}
          </span>
        );
      })}
    </>
  );
}

function Summary({ loop, run, status, onRetry }: { loop: Loop; run: Run | null; status: string; onRetry(): void }) {
  const ended = loop.live?.ended ?? loop.iterations;
  const failed = loop.live?.failed ?? loop.failed;
  const cost = money(loop.cost) ?? money(loop.usage ?? undefined);
  const used = tokens(loop.cost) ?? tokens(loop.usage ?? undefined);
  const condition = loop.live?.condition ?? (loop as unknown as Record<string, Json>)["condition"];
  return (
    <header className="loop-head">
      <div className="row wraps">
        <h1 className="path wrap">{loop.loop}</h1>
        {loop.kind ? <span className="tag">{loop.kind}</span> : null}
        <Pill status={status} />
        <span className="grow" />
        {run && hasEnded(run.status) && (run.status !== "succeeded" || failed > 0) ? (
          <Button icon="retry" variant="primary" onClick={onRetry}>
            Retry failed
          </Button>
        ) : null}
      </div>
      <dl className="stats">
        <div>
          <dt>Iterations</dt>
          <dd className="number">
            {count(ended)}
            {loop.live?.max_iterations ? <small> of {count(loop.live.max_iterations)}</small> : null}
          </dd>
        </div>
        <div className={failed > 0 ? "tone-bad toned" : ""}>
          <dt>Failed</dt>
          <dd className="number">{count(failed)}</dd>
        </div>
        <div>
          <dt>{loop.reason ? "Ended by" : "In flight"}</dt>
          <dd>{loop.reason ? endReasonText(loop.reason) : loop.live ? count(Math.max(0, loop.live.begun - loop.live.ended)) : "–"}</dd>
        </div>
        {loop.live?.due_at ? (
          <div>
            <dt>Next iteration</dt>
            <dd><Ago at={loop.live.due_at} /></dd>
          </div>
        ) : null}
        {cost !== null ? (
          <div>
            <dt>Cost</dt>
            <dd className="number">{amount(cost)}</dd>
          </div>
        ) : null}
        {used !== null ? (
          <div>
            <dt>Tokens</dt>
            <dd className="number">{count(used)}</dd>
          </div>
        ) : null}
        {condition !== undefined && condition !== null ? (
          <div className="stat-wide">
            <dt>{/until/i.test(loop.kind ?? "") ? "Until" : "Condition"}</dt>
            <dd className="mono small cut" title={brief(condition, 2000)}>{brief(condition, 300)}</dd>
          </div>
        ) : null}
      </dl>
    </header>
  );
}

export function loopStatus(loop: Loop, run: Run | null, open: boolean, step: string | null): string {
  if (loop.status) return loop.status;
  if (open) return run && run.status !== "running" ? run.status : "running";
  const known = run?.steps?.[loop.loop]?.status ?? step;
  if (known) return known;
  if (loop.reason === "failed" || loop.reason === "timeout" || loop.reason === "cancelled") return loop.reason === "timeout" ? "timed_out" : loop.reason;
  // The status is not known yet: do not report success if any iteration failed.
  return loop.failed > 0 ? "failed" : loop.reason ? "succeeded" : (run?.status ?? "succeeded");
}
