import { api, type Graph, type GraphNode, type Run } from "../../api";
import { useEffect } from "react";
import { useInterval, useLoad } from "../../api/hooks";
import { Empty, Loading, ProblemBox } from "../../components/common";
import { PlanGraph } from "../../components/graph";
import { mergeGraphs } from "../../lib/merge-graphs";
import { hasEnded } from "../../lib/status";

export default function GraphTab({ run, round, chosen, onChoose }: { run: Run; round: number; chosen: string | null; onChoose(node: GraphNode | null): void }) {
  const id = run.run;
  // Without the plan, the graph shows only started nodes.
  const plan = useLoad(run.version ? `plan ${run.definition} ${run.version}` : null, (signal) => api.definitionGraph(run.definition, run.version, signal));
  const graph = useLoad(`graph ${id}`, (signal) => api.graph(id, signal));
  useEffect(() => {
    if (round > 0) graph.reload();
  }, [round, graph.reload]);
  // The server reads the events of a long run in the background; reload until it has finished.
  const incomplete = graph.value?.notes?.some((note) => note.includes("read so far")) ?? false;
  useInterval(incomplete ? 1500 : null, graph.reload);
  if (!graph.value) return graph.problem ? <ProblemBox problem={graph.problem} onRetry={graph.reload} /> : <Loading lines={6} />;
  const shown = mergeGraphs(plan.value, incomplete ? withoutDurations(graph.value) : graph.value);
  if (shown.nodes.length === 0) return <Empty title="Nothing has started yet" />;
  const notes = (graph.value.notes ?? []).slice(1);
  return (
    <>
      <div className="graph-box">
        <PlanGraph graph={shown} run={id} chosen={chosen} onChoose={onChoose} />
      </div>
      {notes.length > 0 ? <p className="small muted">{notes.join(" · ")}</p> : null}
    </>
  );
}

/** Removes the times of ended nodes: their durations are unknown until all events are read. */
function withoutDurations(graph: Graph): Graph {
  const nodes = graph.nodes.map((node) => {
    if (!node.run || !hasEnded(node.run.status)) return node;
    const { duration_ms, started_at, ...run } = node.run;
    void [duration_ms, started_at];
    return { ...node, run };
  });
  return { ...graph, nodes };
}
