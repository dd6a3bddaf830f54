// The paged list of a loop's iterations, failed ones first by default.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type IterationRecord, type Json } from "../../api";
import { Empty, Loading, ProblemBox, Status } from "../../components/common";
import { Mark } from "../../components/icons";
import { brief, clock, count, duration, stamp } from "../../lib/format";
import { buildRows, findGaps, type ListRow } from "../../lib/iterations";
import { useKeys } from "../../lib/keys";
import { setQuery } from "../../lib/router";
import { isFailure } from "../../lib/status";
import { amount, money, tokens } from "../../lib/usage";
import { IterationDetails } from "./iteration";
import type { IterationExtras } from "./iteration-extras";
import { useIterations, type ListMode } from "./use-iterations";

interface IterationListProps {
  id: string;
  path: string;
  failedOnly: boolean;
  /** In iteration order, even if some have failed. */
  ordered: boolean;
  start: number | null;
  known: number | null;
  failed: number;
  /** The loop is still running. */
  live: boolean;
  /** Further data of the iterations, from events. */
  extras: Map<number, IterationExtras>;
  onRestart(record: IterationRecord): void;
}

const NO_ROWS: ListRow[] = [];
const OTHERS_KEY = "others";
/** The query parameter value in `order=iteration`. */
const IN_ORDER = "iteration";
const rowKey = (row: ListRow | undefined) => row?.iteration ?? OTHERS_KEY;

export function IterationList({ id, path, failedOnly, ordered, start, known, failed, live, extras, onRestart }: IterationListProps) {
  const [open, setOpen] = useState<number | null>(start);
  const [chosen, setChosen] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  // A selected iteration is shown among its neighbours.
  const mode: ListMode = failedOnly ? "failed-only" : ordered || start !== null ? "in-order" : "failed-first";
  const anchors = useRef<{ key: React.Key; start: number }[]>([]);
  const { list, problem, loadMore, retry } = useIterations({
    id, path, mode, start, known, failed, live,
    onReplace: () => {
      setOpen(start);
      setChosen(null);
      anchors.current = [];
      box.current?.scrollTo({ top: 0 });
    },
    onChange: () => (anchors.current = scrollAnchors()),
  });
  const rows = useMemo(() => (list ? buildRows(list) : NO_ROWS), [list]);
  const gaps = useMemo(() => (list && mode !== "failed-only" ? findGaps(list, start ?? 0) : []), [list, mode, start]);
  const size = rows.length;
  const virtual = useVirtualizer({ count: size, getScrollElement: () => box.current, estimateSize: () => 34, overscan: 10, getItemKey: useCallback((at: number) => rowKey(rows[at]), [rows]) });
  /** The rows to keep in place when rows are inserted above: the expanded one, the focused one, else the first visible. At scroll position 0 the top stays. */
  const scrollAnchors = () => {
    const element = box.current;
    if (element === null) return [];
    const [top, bottom] = [element.scrollTop, element.scrollTop + element.clientHeight];
    const inView = virtual.getVirtualItems().filter((item) => item.end > top && item.start < bottom);
    const focused = Number(document.activeElement?.closest<HTMLElement>(".scroll-list [data-index]")?.dataset["index"] ?? -1);
    const preferred = [...inView.filter((item) => item.key === open), ...inView.filter((item) => item.index === focused)];
    return [...preferred, ...(top > 0 ? inView : [])].map((item) => ({ key: item.key, start: item.start }));
  };
  useLayoutEffect(() => {
    const before = anchors.current;
    anchors.current = [];
    if (before.length === 0 || box.current === null) return;
    const indexes = new Map(rows.map((row, at) => [rowKey(row) as React.Key, at]));
    const anchor = before.find((one) => indexes.has(one.key));
    const now = anchor && virtual.measurementsCache[indexes.get(anchor.key) ?? -1];
    if (anchor && now && now.start !== anchor.start) box.current.scrollTop += now.start - anchor.start;
  }, [rows, virtual]);
  const visible = virtual.getVirtualItems();
  const last = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= size - 30) loadMore();
  }, [last, size, loadMore]);
  const go = (by: 1 | -1) => {
    const from = Math.max(0, rows.findIndex((row) => row !== null && row.iteration === chosen));
    const to = from + (rows[from + by] === null ? 2 * by : by);
    const next = Math.max(0, Math.min(size - 1, to));
    const record = rows[next];
    if (!record) return;
    setChosen(record.iteration);
    virtual.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-index="${next}"] button`)?.focus({ preventScroll: true }));
  };
  useKeys({ j: () => go(1), k: () => go(-1), f: () => setQuery({ failed: !failedOnly, iteration: null }) });
  const [typed, setTyped] = useState("");
  // Loops over items have no condition, so the column shows the item instead.
  const items = useMemo(() => rows.some((record) => record?.item !== undefined), [rows]);
  const costs = useMemo(() => extras.size > 0 || rows.some((record) => record?.usage), [extras, rows]);
  const anyFailed = failed > 0 || (rows[0] ? isFailure(rows[0].status) && list?.failed !== null : false);
  const total = known ? <span className="number">{count(known)}</span> : null;
  return (
    <>
      <div className="filters">
        <div className="chips" role="group" aria-label="Iterations shown">
          {anyFailed ? (
            <>
              <button type="button" className="chip" aria-pressed={mode === "failed-first"} onClick={() => setQuery({ failed: null, order: null, iteration: null })}>Failed first</button>
              <button type="button" className="chip" aria-pressed={mode === "in-order"} onClick={() => setQuery({ failed: null, order: IN_ORDER, iteration: null })}>In order {total}</button>
            </>
          ) : (
            <button type="button" className="chip" aria-pressed={!failedOnly} onClick={() => setQuery({ failed: null, iteration: null })}>All iterations {total}</button>
          )}
          <button type="button" className="chip tone-bad" aria-pressed={failedOnly} onClick={() => setQuery({ failed: true, iteration: null })}>
            <Mark status="failed" size={14} /> Failed {failed ? <span className="number">{count(failed)}</span> : null}
          </button>
        </div>
        <form
          className="row"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed.trim() !== "") setQuery({ iteration: Math.max(0, Math.floor(Number(typed))) });
          }}
        >
          <label className="row">
            <span className="muted">Go to iteration</span>
            <input type="number" min={0} className="narrow" value={typed} onChange={(event) => setTyped(event.target.value)} id="search" />
          </label>
        </form>
        {start !== null && start > 0 ? <span className="muted small">from iteration {count(start)} · <button type="button" className="more-link flat" onClick={() => setQuery({ iteration: null, ...(anyFailed && !failedOnly ? { order: IN_ORDER } : {}) })}>show from the first</button></span> : null}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={retry} /> : null}
      {gaps.length > 0 ? <p className="small muted">{live ? "Not ended yet or not retained" : "Not retained"}: {gaps.slice(0, 3).map((gap) => `${count(gap.from)} to ${count(gap.to)}`).join(", ")}</p> : null}
      {list === null ? problem ? null : <Loading lines={6} /> : size === 0 && list.rest.next === null ? <Empty title={failedOnly ? "No failed iterations" : "No iteration has ended yet"} /> : null}
      {size > 0 && list ? (
        <div className={costs ? "panel iteration-list costs" : "panel iteration-list"} data-testid="iterations">
          <div className="iteration-row head" aria-hidden="true">
            <span>#</span><span>Status</span><span>{items ? "Item" : "Condition"}</span><span>Result</span><span className="wide-only">Started</span><span>Duration</span>{costs ? <span className="wide-only">Cost</span> : null}
          </div>
          <div className="scroll-list" ref={box}>
            <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
              {visible.map((row) => {
                const entry = rows[row.index];
                if (entry === undefined) return null;
                if (entry === null) {
                  return (
                    <div key={row.key} ref={virtual.measureElement} data-index={row.index} className="log-item others-head" style={{ transform: `translateY(${row.start}px)` }}>
                      <h2>Other iterations</h2>
                    </div>
                  );
                }
                const record = { ...extras.get(entry.iteration), ...entry };
                return (
                  <div key={row.key} ref={virtual.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                    <IterationRow record={record} items={items} costs={costs} open={open === record.iteration} onToggle={() => { setChosen(record.iteration); setOpen(open === record.iteration ? null : record.iteration); }} />
                    {open === record.iteration ? <IterationDetails id={id} path={path} record={record} onRestart={() => onRestart(record)} /> : null}
                  </div>
                );
              })}
            </div>
          </div>
        </div>
      ) : null}
    </>
  );
}

function IterationRow({ record, items, costs, open, onToggle }: { record: IterationRecord; items: boolean; costs: boolean; open: boolean; onToggle(): void }) {
  const subject = items ? record.item : (record.condition_result ?? doneText(record.verdict));
  const cost = money(record.usage ?? undefined);
  const used = tokens(record.usage ?? undefined);
  const verdict = verdictText(record.verdict);
  return (
    <button type="button" className="iteration-row" aria-expanded={open} onClick={onToggle}>
      <span className="number">{count(record.iteration)}</span>
      <span><Status status={record.status} /></span>
      <span className="mono small cut">{subject === undefined || subject === null ? <span className="faint">–</span> : brief(subject, 40)}</span>
      <span className="mono small cut">
        {items ? <span className="narrow-only">{brief(subject, 20)} · </span> : null}
        {record.error ? <span className="bad-text">{record.error.message}</span> : verdict ? <span className="verdict">{verdict}</span> : <span className="muted">{brief(record.result, 140)}</span>}
      </span>
      <span className="number faint wide-only" title={stamp(record.started_at)}>{clock(record.started_at)}</span>
      <span className="number muted">{duration(record.duration_ms)}</span>
      {costs ? <span className="number faint wide-only">{cost !== null && cost > 0 ? amount(cost) : used ? `${count(used)} tok` : ""}</span> : null}
    </button>
  );
}

function doneText(verdict: Json | undefined): Json | undefined {
  const done = verdict !== null && typeof verdict === "object" && !Array.isArray(verdict) ? verdict["done"] : undefined;
  return typeof done === "boolean" ? (done ? "done" : "not done") : undefined;
}

/** Formats a judge's verdict, which is `{done, verdict}` or a string. */
export function verdictText(verdict: Json | undefined): string {
  if (verdict === undefined || verdict === null) return "";
  if (typeof verdict === "string") return verdict;
  if (typeof verdict === "object" && !Array.isArray(verdict)) {
    const reason = verdict["verdict"] ?? verdict["reason"] ?? verdict["feedback"];
    const error = verdict["error"];
    if (error !== null && typeof error === "object" && !Array.isArray(error) && typeof error["message"] === "string") return `no verdict: ${error["message"]}`;
    const text = typeof reason === "string" ? reason : reason === undefined || reason === null ? "" : brief(reason);
    return text || ("done" in verdict ? (verdict["done"] === true ? "done" : "not done") : brief(verdict));
  }
  return brief(verdict);
}
