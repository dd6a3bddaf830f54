// One loop: how it stands, all its turns at a glance, and each of them one page at a time.

import { useEffect, useState } from "react";
import { api, type Json, type Loop, type Run } from "../api";
import { useEvery, useLoad } from "../api/use";
import { brief, count, many } from "../lib/format";
import { reasonWords, turnPath } from "../lib/loops";
import { joinPath, pathParts } from "../lib/paths";
import { Link, setQuery, to, usePlace } from "../lib/router";
import { hasEnded } from "../lib/status";
import { amount, money, tokens } from "../lib/usage";
import { Icon } from "../parts/icons";
import { Button, Pill, ProblemBox, Waiting } from "../parts/small";
import { ProgressStrip } from "../parts/strip";
import { useTold } from "./loop/told";
import { TurnList } from "./loop/turns";
import { WhyFailed } from "./loop/why";
import { RestartDialog, RetryDialog } from "./run/actions";
import { findStep } from "./run/side";

export default function LoopView({ run: id, path }: { run: string; path: string }) {
  const { query } = usePlace();
  const failedOnly = query.get("failed") === "true";
  const turn = query.get("turn");
  const run = useLoad(`run ${id}`, (signal) => api.run(id, signal));
  const loop = useLoad(`loop ${id} ${path}`, (signal) => findLoop(id, path, signal));
  const turns = loop.value ? (loop.value.live?.ended ?? loop.value.turns) : null;
  const failed = loop.value ? (loop.value.live?.failed ?? loop.value.failed) : 0;
  const strip = useLoad(`strip ${id} ${path}`, (signal) => api.strip(id, path, window.innerWidth < 700 ? 90 : 240, signal));
  const open = loop.value !== null && !loop.value.reason && run.value !== null && !hasEnded(run.value.status);
  useEvery(open ? 2000 : null, () => {
    loop.reload();
    strip.reload();
    run.reload();
  });
  // Why a loop ended says nothing of how its step did: one whose turns have failed may have gone through all of them.
  const step = useLoad(loop.value !== null && !open ? `loop step ${id} ${path}` : null, (signal) => findStep(id, path, signal));
  const told = useTold(id, path, loop.value !== null && loop.value.cost !== undefined && loop.value.cost !== null, turns);
  const missing = loop.value === null && loop.problem?.status === 404;
  const [retrying, setRetrying] = useState(false);
  const [restart, setRestart] = useState<string | null>(null);
  useEffect(() => {
    document.title = `${path} · Windlass`;
  }, [path]);
  return (
    <div className="page fills loop-page">
      <nav className="crumbs" aria-label="Where this is">
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
        <Waiting lines={2} />
      )}
      {strip.value && strip.value.cells.length > 0 ? (
        <ProgressStrip
          strip={strip.value}
          most={loop.value?.live?.most ?? null}
          open={open}
          current={turn === null ? undefined : Number(turn)}
          onChoose={(at) => setQuery({ turn: at, failed: null })}
        />
      ) : null}
      <WhyFailed id={id} path={path} failed={failed} />
      {missing ? null : <TurnList id={id} path={path} failedOnly={failedOnly} ordered={query.get("order") === "turns"} start={turn === null ? null : Number(turn)} known={turns} failed={failed} live={open} told={told} onRestart={(chosen) => setRestart(turnPath(path, chosen))} />}
      {retrying ? <RetryDialog id={id} failed={failed} onClose={() => setRetrying(false)} /> : null}
      {restart ? <RestartDialog id={id} from={restart} onClose={() => setRestart(null)} /> : null}
    </div>
  );
}

/** A loop that is deep inside others stands far down the list, which is sorted: the page that begins with it is asked for. */
async function findLoop(id: string, path: string, signal: AbortSignal): Promise<Loop> {
  const page = await api.loops(id, { after: justBefore(path), limit: 1 }, signal);
  const found = page.items.find((one) => one.loop === path);
  if (found) return found;
  const turns = await api.turns(id, { loop: path, from: 0, limit: 1 }, signal);
  return { loop: path, turns: turns.total ?? 0, failed: turns.failed ?? 0 };
}

/** The greatest text that is smaller than this one, near enough. */
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
        const loop = joinPath([...parts.slice(0, at), { name: part.name, turn: null }]);
        return (
          <span key={at} className="row">
            {at > 0 ? <Icon name="right" size={10} /> : null}
            {part.turn === null ? <strong>{part.name}</strong> : <Link to={to(["runs", id, "loop"], { path: loop, turn: part.turn })}>{joinPath([part])}</Link>}
          </span>
        );
      })}
    </>
  );
}

function Summary({ loop, run, status, onRetry }: { loop: Loop; run: Run | null; status: string; onRetry(): void }) {
  const ended = loop.live?.ended ?? loop.turns;
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
          <Button icon="retry" look="primary" onClick={onRetry}>
            Retry failed
          </Button>
        ) : null}
      </div>
      <dl className="figures">
        <div>
          <dt>Turns</dt>
          <dd className="number">
            {count(ended)}
            {loop.live?.most ? <small> of {count(loop.live.most)}</small> : null}
          </dd>
        </div>
        <div className={failed > 0 ? "tone-bad toned" : ""}>
          <dt>Failed</dt>
          <dd className="number">{count(failed)}</dd>
        </div>
        <div>
          <dt>{loop.reason ? "Ended by" : "Under way"}</dt>
          <dd>{loop.reason ? reasonWords(loop.reason) : loop.live ? many(Math.max(0, loop.live.begun - loop.live.ended), "turn") : "–"}</dd>
        </div>
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
          <div className="figure-wide">
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
  // Nobody knows yet; nothing is said to have gone well that may not have.
  return loop.failed > 0 ? "failed" : loop.reason ? "succeeded" : (run?.status ?? "succeeded");
}
