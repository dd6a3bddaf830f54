// The graph of a plan, annotated with the state of a run.

import { Background, BackgroundVariant, Controls, Handle, MarkerType, Position, ReactFlow, type Edge, useReactFlow, useStore, type Node, type NodeProps } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import "../styles/graph.css";
import { createContext, useContext, useEffect, useMemo } from "react";
import { api } from "../api";
import type { Graph, GraphNode, NodeIterations } from "../api/types";
import { useLoad } from "../api/hooks";
import { count, duration, humanize, plural } from "../lib/format";
import { backEdgeTest, edgeLabel, isAfterFailure, layoutGraph, type Box } from "../lib/layout";
import { isLoop, loopPath } from "../lib/loops";
import { hasEnded, tone } from "../lib/status";
import { Icon, Mark } from "./icons";
import { ProgressStrip } from "./strip";

interface GraphState {
  run: string | null;
  chosen: string | null;
}

const GraphContext = createContext<GraphState>({ run: null, chosen: null });

interface GraphProps {
  graph: Graph;
  run?: string | null;
  chosen?: string | null;
  onChoose?(node: GraphNode | null): void;
}

type BoxNode = Node<{ box: Box }>;

export function PlanGraph({ graph, run = null, chosen = null, onChoose }: GraphProps) {
  // The layout depends on the plan only, so that boxes do not move while the run progresses.
  const shape = JSON.stringify([graph.nodes.map((node) => [node.id, node.parent, node.kind, isLoop(node)]), graph.edges.map((edge) => [edge.from, edge.to])]);
  const laidOut = useMemo(() => layoutGraph(graph), [shape]); // eslint-disable-line
  const isBackEdge = useMemo(() => backEdgeTest(laidOut.boxes), [laidOut]);
  const byId = useMemo(() => new Map(graph.nodes.map((node) => [node.id, node])), [graph]);
  const nodes = useMemo<BoxNode[]>(
    () =>
      laidOut.boxes.map((box) => ({
        id: box.id,
        type: nodeType(box),
        position: { x: box.x, y: box.y },
        ...(box.parent ? { parentId: box.parent } : {}),
        width: box.width,
        height: box.height,
        style: { width: box.width, height: box.height },
        data: { box: { ...box, node: byId.get(box.id) ?? box.node } },
        draggable: false,
        connectable: false,
        selectable: true,
        selected: box.id === chosen,
        ariaLabel: `${box.node.name}, ${box.node.kind}, ${byId.get(box.id)?.run?.status ?? "not started"}`,
      })),
    [laidOut, byId, chosen],
  );
  const edges = useMemo<Edge[]>(
    () =>
      graph.edges
        .filter((edge) => byId.has(edge.from) && byId.has(edge.to))
        .map((edge, at) => {
          const label = edgeLabel(edge);
          const followed = byId.get(edge.to)?.run !== undefined;
          return {
            id: `${at} ${edge.from} ${edge.to}`,
            source: edge.from,
            target: edge.to,
            type: "smoothstep",
            ...(isBackEdge(edge.from, edge.to) ? { sourceHandle: "side-out", targetHandle: "side-in" } : {}),
            className: `${isAfterFailure(edge) ? "after-failure" : ""} ${followed ? "followed" : ""}`,
            ...(label ? { label: label.length > 42 ? `${label.slice(0, 41)}…` : label } : {}),
            markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14 },
            focusable: false,
            selectable: false,
            zIndex: 2,
          };
        }),
    [graph, byId, isBackEdge],
  );
  return (
    <GraphContext.Provider value={{ run, chosen }}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        fitView
        fitViewOptions={{ padding: 0.12, maxZoom: 1, minZoom: 0.35 }}
        minZoom={0.08}
        maxZoom={1.8}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        onlyRenderVisibleElements={graph.nodes.length > 150}
        proOptions={{ hideAttribution: true }}
        onNodeClick={(_, node) => onChoose?.(byId.get(node.id) ?? null)}
        onPaneClick={() => onChoose?.(null)}
        onKeyDown={(event) => {
          const id = event.target instanceof Element ? event.target.closest(".react-flow__node")?.getAttribute("data-id") : null;
          if (id && (event.key === "Enter" || event.key === " ")) onChoose?.(byId.get(id) ?? null);
        }}
      >
        <Background variant={BackgroundVariant.Dots} gap={20} size={1} />
        <Refit />
        <Controls showInteractive={false} position="bottom-left" />
      </ReactFlow>
    </GraphContext.Provider>
  );
}

/** Fits the whole graph into view again when the side panel changes the width. */
function Refit() {
  const { fitView } = useReactFlow();
  const width = useStore((store) => store.width);
  useEffect(() => {
    const reducedMotion = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    void fitView({ padding: 0.12, maxZoom: 1, minZoom: 0.35, duration: reducedMotion ? 0 : 160 });
  }, [width, fitView]);
  return null;
}

function nodeType(box: Box): string {
  if (box.group || isLoop(box.node)) return "group_box";
  if (box.node.kind === "choice") return "choice_box";
  if (box.node.kind === "event" || box.node.kind === "outside") return "event_box";
  return "step_box";
}

const NODE_TYPES = { step_box: StepBox, group_box: GroupBox, choice_box: ChoiceBox, event_box: EventBox };

function Handles() {
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <Handle type="source" position={Position.Bottom} />
      <Handle id="side-in" type="target" position={Position.Right} />
      <Handle id="side-out" type="source" position={Position.Right} />
    </>
  );
}

function boxClass(node: GraphNode): string {
  return node.run ? `tone-${tone(node.run.status)} started ${hasEnded(node.run.status) ? "" : "in-progress"}` : "tone-calm";
}

function StepBox({ data, selected }: NodeProps<BoxNode>) {
  const { node } = data.box;
  return (
    <div className={`box step ${boxClass(node)} ${selected ? "chosen" : ""}`}>
      <Handles />
      <Mark status={node.run?.status ?? "pending"} />
      <div className="box-text">
        <strong className="cut" title={node.name}>{node.name}</strong>
        <span className="cut" title={node.detail}>{stepSummary(node)}</span>
      </div>
    </div>
  );
}

function stepSummary(node: GraphNode): string {
  const run = node.run;
  if (!run) return node.detail ?? node.kind;
  const parts = [node.kind];
  if (run.runs > 1) {
    parts.push(`× ${count(run.runs)}`);
    const failed = run.counts?.["failed"] ?? 0;
    if (failed > 0) parts.push(`${count(failed)} failed`);
  } else if (run.status === "failed" && run.error) parts.push(run.error);
  if (run.duration_ms !== undefined) parts.push(duration(run.duration_ms));
  if ((run.attempts ?? 0) > 1) parts.push(`${run.runs > 1 ? "≤ " : ""}${run.attempts} attempts`);
  return parts.join(" · ");
}

function GroupBox({ data, selected }: NodeProps<BoxNode>) {
  const { node } = data.box;
  const { run: id } = useContext(GraphContext);
  const loop = isLoop(node);
  const iterations = node.run?.iterations;
  const path = loopPath(node);
  const key = id && path && iterations && iterations.entries <= 1 && iterations.ended > 0 ? `strip ${id} ${path} ${Math.floor(iterations.ended / Math.max(1, Math.ceil(iterations.ended / 400)))} ${node.run?.status}` : null;
  const strip = useLoad(key, (signal) => api.strip(id ?? "", path ?? "", 60, signal));
  return (
    <div className={`box group ${loop ? "loop" : ""} ${boxClass(node)} ${selected ? "chosen" : ""}`}>
      <Handles />
      <header>
        <Mark status={node.run?.status ?? "pending"} />
        <div className="box-text">
          <strong className="cut" title={node.name}>
            {node.name} {loop ? <Icon name="loop" size={12} /> : null}
          </strong>
          <span className="cut" title={node.detail}>{iterations ? iterationSummary(iterations) : (node.detail ?? node.kind)}</span>
        </div>
        {node.run?.duration_ms !== undefined ? <span className="faint small number">{duration(node.run.duration_ms)}</span> : null}
      </header>
      {loop && iterations ? (
        strip.value ? (
          <ProgressStrip strip={strip.value} max={iterations.max_iterations ?? null} open={!hasEnded(node.run?.status ?? "")} mini />
        ) : (
          <Bar ended={iterations.ended} failed={iterations.failed} max={iterations.entries > 1 ? null : (iterations.max_iterations ?? null)} />
        )
      ) : null}
    </div>
  );
}

function iterationSummary({ ended, failed, entries, max_iterations: max, reason }: NodeIterations): string {
  const progress = !reason && max && entries <= 1 ? `${count(ended)} of ${count(max)} iterations` : plural(ended, "iteration");
  return [progress, entries > 1 ? `${count(entries)} entries` : "", failed ? `${count(failed)} failed` : "", reason && !["items", "condition"].includes(reason) ? humanize(reason) : ""].filter(Boolean).join(" · ");
}

function Bar({ ended, failed, max }: { ended: number; failed: number; max: number | null }) {
  const all = Math.max(1, max ?? ended);
  return (
    <div className="bar" aria-hidden="true">
      <i className="good" style={{ width: `${(Math.max(0, ended - failed) / all) * 100}%` }} />
      <i className="failed" style={{ width: `${failed ? Math.max(1.5, (failed / all) * 100) : 0}%` }} />
    </div>
  );
}

function ChoiceBox({ data }: NodeProps<BoxNode>) {
  return (
    <div className="choice-frame">
      <Handles />
      <div className={`box choice ${boxClass(data.box.node)}`}>
        <span>?</span>
      </div>
    </div>
  );
}

function EventBox({ data, selected }: NodeProps<BoxNode>) {
  const { node } = data.box;
  return (
    <div className={`box event ${node.kind} ${boxClass(node)} ${selected ? "chosen" : ""}`}>
      <Handles />
      <div className="box-text">
        <strong className="cut" title={node.name}>{node.name}</strong>
        <span className="cut">{node.kind === "outside" ? "outside" : (node.event ?? "event").replaceAll("_", " ")}</span>
      </div>
    </div>
  );
}
