import { api, type Graph, type GraphNode, type Run } from "../../api";
import { useEffect } from "react";
import { useEvery, useLoad } from "../../api/use";
import { hasEnded } from "../../lib/status";
import { whole } from "../../lib/whole";
import { PlanGraph } from "../../parts/graph";
import { Empty, ProblemBox, Waiting } from "../../parts/small";

export default function GraphTab({ run, round, chosen, onChoose }: { run: Run; round: number; chosen: string | null; onChoose(node: GraphNode | null): void }) {
  const id = run.run;
  // Without it there is still what has happened.
  const plan = useLoad(run.version ? `plan ${run.definition} ${run.version}` : null, (signal) => api.definitionGraph(run.definition, run.version, signal));
  const graph = useLoad(`graph ${id}`, (signal) => api.graph(id, signal));
  useEffect(() => {
    if (round > 0) graph.reload();
  }, [round, graph.reload]);
  // A long run's events are read in the background: then there is more to see.
  const unread = graph.value?.notes?.some((note) => note.includes("could be read yet")) ?? false;
  useEvery(unread ? 1500 : null, graph.reload);
  if (!graph.value) return graph.problem ? <ProblemBox problem={graph.problem} onRetry={graph.reload} /> : <Waiting lines={6} />;
  const shown = whole(plan.value, unread ? untimed(graph.value) : graph.value);
  if (shown.nodes.length === 0) return <Empty title="Nothing has begun yet" />;
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

/** As long as the events are not read, nobody knows how long what has ended has taken. */
function untimed(graph: Graph): Graph {
  const nodes = graph.nodes.map((node) => {
    if (!node.run || !hasEnded(node.run.status)) return node;
    const { duration_ms, started_at, ...run } = node.run;
    void [duration_ms, started_at];
    return { ...node, run };
  });
  return { ...graph, nodes };
}
