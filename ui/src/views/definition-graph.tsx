import { api } from "../api";
import { useLoad } from "../api/hooks";
import { Empty, Loading, ProblemBox } from "../components/common";
import { PlanGraph } from "../components/graph";

export default function PlanTab({ name, version }: { name: string; version: number | null }) {
  const graph = useLoad(`plan ${name} ${version ?? ""}`, (signal) => api.definitionGraph(name, version, signal));
  if (!graph.value) return graph.problem ? <ProblemBox problem={graph.problem} onRetry={graph.reload} /> : <Loading lines={6} />;
  if (graph.value.nodes.length === 0) return <Empty title="No steps" />;
  return (
    <div className="graph-box">
      <PlanGraph graph={graph.value} />
    </div>
  );
}
