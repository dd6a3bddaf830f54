import type { Graph } from "../api";
import { PlanGraph } from "../components/graph";

export default function CheckedGraph({ graph }: { graph: Graph }) {
  return (
    <div className="graph-box">
      <PlanGraph graph={graph} />
    </div>
  );
}
