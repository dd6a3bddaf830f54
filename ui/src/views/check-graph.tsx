import type { Graph } from "../api";
import { PlanGraph } from "../parts/graph";

export default function CheckedGraph({ graph }: { graph: Graph }) {
  return (
    <div className="graph-box">
      <PlanGraph graph={graph} />
    </div>
  );
}
