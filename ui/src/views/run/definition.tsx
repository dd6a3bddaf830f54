import { api, type Run, type RunError } from "../../api";
import { useLoad } from "../../api/use";
import { loopOf } from "../../lib/paths";
import { Link, to, usePlace } from "../../lib/router";
import { ProblemBox, Waiting } from "../../parts/small";
import { Source, type Remark } from "../../parts/source";

export function RunDefinition({ run }: { run: Run }) {
  const { query } = usePlace();
  const place = query.get("turn");
  const definition = useLoad(`definition ${run.definition} ${run.version ?? ""}`, (signal) => api.definition(run.definition, run.version, signal));
  const turn = place === null ? null : loopOf(place);
  const asked = useLoad(turn ? `turn ${run.run} ${place}` : null, (signal) => api.turns(run.run, { loop: turn?.loop ?? "", from: turn?.turn ?? 0, limit: 1 }, signal));
  if (!definition.value) {
    return definition.problem ? <ProblemBox problem={definition.problem} onRetry={definition.reload} /> : <Waiting lines={8} />;
  }
  const error = turn ? asked.value?.turns.find((one) => one.iteration === turn.turn)?.error : run.error;
  return (
    <div className="stack fills-tab">
      <p className="small muted">
        This run is pinned to <Link to={to(["definitions", run.definition], { version: run.version })}>version {definition.value.version}</Link>, {definition.value.dialect}, <code>{definition.value.hash.slice(0, 12)}</code>.
        {turn ? <> Marked is what went wrong in <Link to={to(["runs", run.run, "loop"], { path: turn.loop, turn: turn.turn })} className="mono">{place}</Link>.</> : null}
      </p>
      <Source text={definition.value.source} remarks={remarks(error)} />
    </div>
  );
}

function remarks(error: RunError | null | undefined): Remark[] {
  return error?.position ? [{ ...error.position, message: error.message, hint: error.hint ?? null, ...(error.code ? { code: error.code } : {}) }] : [];
}
