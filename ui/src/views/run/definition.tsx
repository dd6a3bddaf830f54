import { api, type Run, type RunError } from "../../api";
import { useLoad } from "../../api/hooks";
import { Loading, ProblemBox } from "../../components/common";
import { Source, type Annotation } from "../../components/source";
import { enclosingLoop } from "../../lib/paths";
import { Link, to, useRoute } from "../../lib/router";

export function RunDefinition({ run }: { run: Run }) {
  const { query } = useRoute();
  const path = query.get("iteration");
  const definition = useLoad(`definition ${run.definition} ${run.version ?? ""}`, (signal) => api.definition(run.definition, run.version, signal));
  const selected = path === null ? null : enclosingLoop(path);
  const page = useLoad(selected ? `iteration ${run.run} ${path}` : null, (signal) => api.iterations(run.run, { loop: selected?.loop ?? "", from: selected?.iteration ?? 0, limit: 1 }, signal));
  if (!definition.value) {
    return definition.problem ? <ProblemBox problem={definition.problem} onRetry={definition.reload} /> : <Loading lines={8} />;
  }
  const error = selected ? page.value?.iterations.find((one) => one.iteration === selected.iteration)?.error : run.error;
  return (
    <div className="stack fills-tab">
      <p className="small muted">
        This run is pinned to <Link to={to(["definitions", run.definition], { version: run.version })}>version {definition.value.version}</Link>, {definition.value.dialect}, <code>{definition.value.hash.slice(0, 12)}</code>.
        {selected ? <> The marked error occurred in <Link to={to(["runs", run.run, "loop"], { path: selected.loop, iteration: selected.iteration })} className="mono">{path}</Link>.</> : null}
      </p>
      <Source text={definition.value.source} annotations={errorAnnotations(error)} />
    </div>
  );
}

function errorAnnotations(error: RunError | null | undefined): Annotation[] {
  return error?.position ? [{ ...error.position, message: error.message, hint: error.hint ?? null, ...(error.code ? { code: error.code } : {}) }] : [];
}
