// The timeline of a run. The contents of loops and scopes are fetched page by page when they are expanded.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Problem, type Run, type Step } from "../../api";
import { useInterval } from "../../api/hooks";
import { Button, Empty, Loading, ProblemBox } from "../../components/common";
import { Icon, Mark } from "../../components/icons";
import { count, duration, humanize } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { useNow } from "../../lib/now";
import { hasEnded, tone } from "../../lib/status";
import { panned, ticks, zoomed, type Span } from "../../lib/timeline";

const PAGE_SIZE = 100;
const LEAF_KINDS = /^(http|compose|initializevariable|setvariable|appendto|increment|decrement|noop|wait|delay|terminate|model|shell|python|postgres|sqlite|duckdb)/i;

interface Branch {
  items: Step[];
  next: number | string | null;
  loading: boolean;
}

type TimelineRow = { kind: "step"; step: Step; depth: number } | { kind: "more"; parent: string; depth: number };

export function Timeline({ run, round, chosen, onChoose }: { run: Run; round: number; chosen: string | null; onChoose(path: string): void }) {
  const [branches, setBranches] = useState<Record<string, Branch>>({});
  const [open, setOpen] = useState<Set<string>>(() => new Set(chosen ? ancestors(chosen) : []));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [dropped, setDropped] = useState(0);
  const [incomplete, setIncomplete] = useState(false);
  const now = useNow();
  const box = useRef<HTMLDivElement>(null);
  const load = useCallback(
    (parent: string, from: number | string | null) => {
      setBranches((old) => ({ ...old, [parent]: { items: old[parent]?.items ?? [], next: old[parent]?.next ?? null, loading: true } }));
      api.steps(run.run, { parent, from, limit: PAGE_SIZE }).then(
        (page) => {
          setBranches((old) => {
            const before = from === null ? [] : (old[parent]?.items ?? []);
            return { ...old, [parent]: { items: [...before, ...page.items], next: page.next ?? null, loading: false } };
          });
          setDropped(page.dropped ?? 0);
          setIncomplete(page.partial ?? false);
          setProblem(null);
        },
        (error: unknown) => setProblem(asProblem(error)),
      );
    },
    [run.run],
  );
  useEffect(() => {
    load("", null);
    for (const parent of open) load(parent, null);
  }, [load, round]); // eslint-disable-line
  // Expand the ancestors of a step that was selected elsewhere.
  useEffect(() => {
    const missing = chosen ? ancestors(chosen).filter((path) => !open.has(path)) : [];
    if (missing.length === 0) return;
    setOpen(new Set([...open, ...missing]));
    for (const parent of missing) if (!branches[parent]) load(parent, null);
  }, [chosen]); // eslint-disable-line
  useInterval(incomplete ? 700 : null, () => {
    load("", null);
    for (const parent of open) load(parent, null);
  });
  const rows = useMemo(() => flattenRows(branches, open), [branches, open]);

  const start = Date.parse(run.created_at);
  const end = hasEnded(run.status) ? Math.max(start + 1, start + run.duration_ms, Date.parse(run.changed_at) || 0) : now;
  const whole: Span = useMemo(() => ({ from: start, to: Math.max(start + 10, end) }), [start, end]);
  const [window, setWindow] = useState<Span | null>(null);
  const span = window ?? whole;
  const zoom = useCallback((factor: number, around?: number) => setWindow((old) => {
    const current = old ?? whole;
    const next = zoomed(current, whole, factor, around ?? (current.from + current.to) / 2);
    return next.to - next.from >= whole.to - whole.from ? null : next;
  }), [whole]);
  useKeys({ "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), "0": () => setWindow(null) });
  useWheelZoom(box, span, zoom, (by) => setWindow((old) => (old ? panned(old, whole, by) : old)));

  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => 30, overscan: 14 });
  const toggle = (path: string) => {
    const next = new Set(open);
    if (next.has(path)) next.delete(path);
    else {
      next.add(path);
      if (!branches[path]) load(path, null);
    }
    setOpen(next);
  };
  if (!branches[""] || (branches[""].loading && branches[""].items.length === 0)) return problem ? <ProblemBox problem={problem} onRetry={() => load("", null)} /> : <Loading lines={6} />;
  if (rows.length === 0 && incomplete) return <Loading lines={6} />;
  if (rows.length === 0) return <Empty title="Nothing has started yet" />;
  const length = span.to - span.from;
  const left = (at: number) => ((at - span.from) / length) * 100;
  return (
    <div className="stack fills-tab">
      {problem ? <ProblemBox problem={problem} /> : null}
      {dropped > 0 ? <p className="small muted">{count(dropped)} entries of early iterations are no longer available here; see the Loops tab.</p> : null}
      <div className="panel timeline">
        <div className="timeline-head">
          <span className="row small muted">
            <Button variant="quiet" className="small" icon="plus" aria-label="Zoom in" onClick={() => zoom(0.6)} />
            <Button variant="quiet" className="small" icon="minus" aria-label="Zoom out" onClick={() => zoom(1.6)} />
            <Button variant="quiet" className="small" icon="fit" aria-label="Show all" onClick={() => setWindow(null)} />
          </span>
          <div className="timeline-axis" aria-hidden="true">
            {ticks(span, start, document.documentElement.clientWidth < 700 ? 3 : 8).map(({ at, after }) => (
              <span key={after} style={{ left: `${left(at)}%` }}>{after === 0 ? "0" : left(at) > 88 ? "" : duration(after)}</span>
            ))}
          </div>
        </div>
        <div className="timeline-rows" ref={box}>
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {virtual.getVirtualItems().map((item) => {
              const row = rows[item.index];
              if (!row) return null;
              const at = { transform: `translateY(${item.start}px)` };
              if (row.kind === "more") {
                const branch = branches[row.parent];
                return (
                  <div key={`more ${row.parent}`} className="timeline-row" style={at}>
                    <span className="timeline-name" style={{ paddingLeft: 10 + row.depth * 14 }}>
                      <button type="button" className="more-link" disabled={branch?.loading} onClick={() => load(row.parent, branch?.next ?? null)}>{branch?.loading ? "…" : "More"}</button>
                    </span>
                    <span />
                  </div>
                );
              }
              const { step, depth } = row;
              const began = step.started_at ? Date.parse(step.started_at) : start;
              const took = hasEnded(step.status) ? (step.duration_ms ?? 0) : Math.max(step.duration_ms ?? 0, now - began);
              const [from, to] = [Math.max(-2, left(began)), Math.min(102, left(began + took))];
              const inside = branches[step.path];
              const folds = !LEAF_KINDS.test(step.kind) && !(inside && !inside.loading && inside.items.length === 0);
              return (
                <div key={step.path} className={`timeline-row tone-${tone(step.status)} ${step.path === chosen ? "chosen" : ""}`} style={at}>
                  <span className="timeline-name" style={{ paddingLeft: 6 + depth * 14 }}>
                    {folds ? (
                      <button type="button" className="fold-button" aria-expanded={open.has(step.path)} aria-label={`${open.has(step.path) ? "Collapse" : "Expand"} ${step.path}`} onClick={() => toggle(step.path)}>
                        <Icon name={open.has(step.path) ? "down" : "right"} size={11} />
                      </button>
                    ) : (
                      <i className="fold-space" />
                    )}
                    <button type="button" className="name-button" title={`${step.path}, ${step.kind}, ${humanize(step.status)}`} onClick={() => onChoose(step.path)}>
                      <Mark status={step.status} size={14} />
                      <span className="cut">{step.kind === "iteration" ? `iteration ${iterationNumber(step.path)}` : step.name || step.path}</span>
                    </button>
                  </span>
                  <span className="timeline-track" onClick={() => onChoose(step.path)}>
                    {to >= -1 && from <= 101 ? (
                      <>
                        <i style={{ left: `${from}%`, width: `max(3px, ${Math.max(0, to - from)}%)` }} />
                        <b className={to > 80 ? "before" : ""} style={to > 80 ? { right: `${100 - from}%` } : { left: `${Math.max(from, to)}%` }}>
                          {duration(took)}{(step.attempts ?? 1) > 1 ? ` · ${step.attempts} attempts` : ""}
                        </b>
                      </>
                    ) : null}
                  </span>
                </div>
              );
            })}
          </div>
        </div>
      </div>
    </div>
  );
}

/** Returns the number of an iteration: 3 for `a[3]`. */
function iterationNumber(path: string): string {
  return /\[(\d+)\]$/.exec(path)?.[1] ?? path;
}

/** Returns the paths that contain a path: `a` and `a[3]` for `a[3].b`. */
export function ancestors(path: string): string[] {
  return [...path.matchAll(/[.[]/g)].map((match) => path.slice(0, match.index)).filter((part) => part !== "");
}

export function flattenRows(branches: Record<string, Branch>, open: Set<string>, parent = "", depth = 0): TimelineRow[] {
  const branch = branches[parent];
  if (!branch || depth > 40) return [];
  const rows: TimelineRow[] = [];
  for (const step of branch.items) {
    rows.push({ kind: "step", step, depth });
    if (open.has(step.path)) rows.push(...flattenRows(branches, open, step.path, depth + 1));
  }
  if (branch.next !== null) rows.push({ kind: "more", parent, depth });
  return rows;
}

function useWheelZoom(box: React.RefObject<HTMLDivElement | null>, span: Span, zoom: (factor: number, around: number) => void, pan: (by: number) => void): void {
  const current = useRef({ span, zoom, pan });
  current.current = { span, zoom, pan };
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    // Not passive, so that zooming the timeline does not zoom the browser page.
    const wheel = (event: WheelEvent) => {
      const { span: shown, zoom: change, pan: move } = current.current;
      const track = element.querySelector(".timeline-track")?.getBoundingClientRect();
      if (!track || track.width === 0) return;
      const length = shown.to - shown.from;
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        change(event.deltaY > 0 ? 1.25 : 0.8, shown.from + ((event.clientX - track.left) / track.width) * length);
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        move(((event.deltaX || event.deltaY) / track.width) * length);
      }
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });
}
