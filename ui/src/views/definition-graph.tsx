import { api } from "../api";
import { useLoad } from "../api/use";
import { PlanGraph } from "../parts/graph";
import { Empty, ProblemBox, Waiting } from "../parts/small";

export default function PlanTab({ name, version }: { name: string; version: number | null }) {
  const graph = useLoad(`plan ${name} ${version ?? ""}`, (signal) => api.definitionGraph(name, version, signal));
  if (!graph.value) return graph.problem ? <ProblemBox problem={graph.problem} onRetry={graph.reload} /> : <Waiting lines={6} />;
  if (graph.value.nodes.length === 0) return <Empty title="It has no steps" />;
  return (
    <div className="graph-box">
      <PlanGraph graph={graph.value} />
    </div>
  );
}
