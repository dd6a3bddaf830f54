import { api, type Run } from "../../api";
import { useLoad } from "../../api/use";
import { Link, to } from "../../lib/router";
import { ProblemBox, Waiting } from "../../parts/small";
import { Source, type Remark } from "../../parts/source";

export function RunDefinition({ run }: { run: Run }) {
  const definition = useLoad(`definition ${run.definition} ${run.version ?? ""}`, (signal) => api.definition(run.definition, run.version, signal));
  if (!definition.value) {
    return definition.problem ? <ProblemBox problem={definition.problem} onRetry={definition.reload} /> : <Waiting lines={8} />;
  }
  const { error } = run;
  const remarks: Remark[] = error?.position ? [{ ...error.position, message: error.message, hint: error.hint ?? null, ...(error.code ? { code: error.code } : {}) }] : [];
  return (
    <div className="stack fills-tab">
      <p className="small muted">
        This run is pinned to <Link to={to(["definitions", run.definition], { version: run.version })}>version {definition.value.version}</Link>, {definition.value.dialect}, <code>{definition.value.hash.slice(0, 12)}</code>.
      </p>
      <Source text={definition.value.source} remarks={remarks} />
    </div>
  );
}
