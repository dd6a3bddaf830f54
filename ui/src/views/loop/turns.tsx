// The turns of a loop, a page at a time: failed ones before the others, if nothing else is asked for.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";
import { type Json, type Turn } from "../../api";
import { brief, clock, count, duration, stamp } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { setQuery } from "../../lib/router";
import { isBad } from "../../lib/status";
import { gapsOf, rowsOf, type Row } from "../../lib/turns";
import { amount, money, tokens } from "../../lib/usage";
import { Mark } from "../../parts/icons";
import { Empty, ProblemBox, Status, Waiting } from "../../parts/small";
import { useListed, type Which } from "./listed";
import type { Told } from "./told";
import { TurnMore } from "./turn";

interface TurnListProps {
  id: string;
  path: string;
  failedOnly: boolean;
  /** As they come, although some have failed. */
  ordered: boolean;
  start: number | null;
  known: number | null;
  failed: number;
  /** It goes on. */
  live: boolean;
  /** What the run has told of its turns besides. */
  told: Map<number, Told>;
  onRestart(turn: Turn): void;
}

const NO_ROWS: Row[] = [];
const OTHERS = "others";
/** In the address: `order=turns`. */
const IN_ORDER = "turns";
const keyOf = (row: Row | undefined) => row?.iteration ?? OTHERS;

export function TurnList({ id, path, failedOnly, ordered, start, known, failed, live, told, onRestart }: TurnListProps) {
  const [open, setOpen] = useState<number | null>(start);
  const [chosen, setChosen] = useState<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  // Who asks for one turn wants to see it among its neighbours.
  const which: Which = failedOnly ? "failed" : ordered || start !== null ? "order" : "first";
  const held = useRef<{ key: React.Key; start: number }[]>([]);
  const { list, problem, more, retry } = useListed({
    id, path, which, start, known, failed, live,
    onOther: () => {
      setOpen(start);
      setChosen(null);
      held.current = [];
      box.current?.scrollTo({ top: 0 });
    },
    onChange: () => (held.current = inSight()),
  });
  const rows = useMemo(() => (list ? rowsOf(list) : NO_ROWS), [list]);
  const gaps = useMemo(() => (list && which !== "failed" ? gapsOf(list, start ?? 0) : []), [list, which, start]);
  const size = rows.length;
  const virtual = useVirtualizer({ count: size, getScrollElement: () => box.current, estimateSize: () => 34, overscan: 10, getItemKey: useCallback((at: number) => keyOf(rows[at]), [rows]) });
  /** What stays where it is when rows come in above: the turn that is open, the one with the focus, else the first that is seen. At the very top it is the top. */
  const inSight = () => {
    const element = box.current;
    if (element === null) return [];
    const [top, bottom] = [element.scrollTop, element.scrollTop + element.clientHeight];
    const seen = virtual.getVirtualItems().filter((item) => item.end > top && item.start < bottom);
    const focused = Number(document.activeElement?.closest<HTMLElement>(".scroll-list [data-index]")?.dataset["index"] ?? -1);
    const liked = [...seen.filter((item) => item.key === open), ...seen.filter((item) => item.index === focused)];
    return [...liked, ...(top > 0 ? seen : [])].map((item) => ({ key: item.key, start: item.start }));
  };
  useLayoutEffect(() => {
    const before = held.current;
    held.current = [];
    if (before.length === 0 || box.current === null) return;
    const places = new Map(rows.map((row, at) => [keyOf(row) as React.Key, at]));
    const stays = before.find((one) => places.has(one.key));
    const now = stays && virtual.measurementsCache[places.get(stays.key) ?? -1];
    if (stays && now && now.start !== stays.start) box.current.scrollTop += now.start - stays.start;
  }, [rows, virtual]);
  const visible = virtual.getVirtualItems();
  const last = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= size - 30) more();
  }, [last, size, more]);
  const go = (by: 1 | -1) => {
    const from = Math.max(0, rows.findIndex((row) => row !== null && row.iteration === chosen));
    const to = from + (rows[from + by] === null ? 2 * by : by);
    const next = Math.max(0, Math.min(size - 1, to));
    const turn = rows[next];
    if (!turn) return;
    setChosen(turn.iteration);
    virtual.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-index="${next}"] button`)?.focus({ preventScroll: true }));
  };
  useKeys({ j: () => go(1), k: () => go(-1), f: () => setQuery({ failed: !failedOnly, turn: null }) });
  const [typed, setTyped] = useState("");
  // Loops over items check nothing: what a turn was for says more.
  const items = useMemo(() => rows.some((turn) => turn?.item !== undefined), [rows]);
  const costs = useMemo(() => told.size > 0 || rows.some((turn) => turn?.usage), [told, rows]);
  const anyFailed = failed > 0 || (rows[0] ? isBad(rows[0].status) && list?.failed !== null : false);
  const numbered = known ? <span className="number">{count(known)}</span> : null;
  return (
    <>
      <div className="filters">
        <div className="chips" role="group" aria-label="Which turns">
          {anyFailed ? (
            <>
              <button type="button" className="chip" aria-pressed={which === "first"} onClick={() => setQuery({ failed: null, order: null, turn: null })}>Failed first</button>
              <button type="button" className="chip" aria-pressed={which === "order"} onClick={() => setQuery({ failed: null, order: IN_ORDER, turn: null })}>In order {numbered}</button>
            </>
          ) : (
            <button type="button" className="chip" aria-pressed={!failedOnly} onClick={() => setQuery({ failed: null, turn: null })}>All turns {numbered}</button>
          )}
          <button type="button" className="chip tone-bad" aria-pressed={failedOnly} onClick={() => setQuery({ failed: true, turn: null })}>
            <Mark status="failed" size={14} /> Failed {failed ? <span className="number">{count(failed)}</span> : null}
          </button>
        </div>
        <form
          className="row"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed.trim() !== "") setQuery({ turn: Math.max(0, Math.floor(Number(typed))) });
          }}
        >
          <label className="row">
            <span className="muted">Go to turn</span>
            <input type="number" min={0} className="narrow" value={typed} onChange={(event) => setTyped(event.target.value)} id="search" />
          </label>
        </form>
        {start !== null && start > 0 ? <span className="muted small">from turn {count(start)} on · <button type="button" className="more-link flat" onClick={() => setQuery({ turn: null, ...(anyFailed && !failedOnly ? { order: IN_ORDER } : {}) })}>from the first</button></span> : null}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={retry} /> : null}
      {gaps.length > 0 ? <p className="small muted">{live ? "Not ended yet, or not kept" : "Not kept any more"}: {gaps.slice(0, 3).map((gap) => `${count(gap.from)} to ${count(gap.to)}`).join(", ")}</p> : null}
      {list === null ? problem ? null : <Waiting lines={6} /> : size === 0 && list.rest.next === null ? <Empty title={failedOnly ? "No turn has failed" : "No turn has ended yet"} /> : null}
      {size > 0 && list ? (
        <div className={costs ? "panel turn-list costs" : "panel turn-list"} data-testid="turns">
          <div className="turn-row head" aria-hidden="true">
            <span>Turn</span><span>Status</span><span>{items ? "Item" : "Condition"}</span><span>Result</span><span className="wide-only">Began</span><span>Took</span>{costs ? <span className="wide-only">Cost</span> : null}
          </div>
          <div className="scroll-list" ref={box}>
            <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
              {visible.map((row) => {
                const kept = rows[row.index];
                if (kept === undefined) return null;
                if (kept === null) {
                  return (
                    <div key={row.key} ref={virtual.measureElement} data-index={row.index} className="log-item others-head" style={{ transform: `translateY(${row.start}px)` }}>
                      <h2>The others, in their order</h2>
                    </div>
                  );
                }
                const turn = { ...told.get(kept.iteration), ...kept };
                return (
                  <div key={row.key} ref={virtual.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                    <TurnRow turn={turn} items={items} costs={costs} open={open === turn.iteration} onToggle={() => { setChosen(turn.iteration); setOpen(open === turn.iteration ? null : turn.iteration); }} />
                    {open === turn.iteration ? <TurnMore id={id} path={path} turn={turn} onRestart={() => onRestart(turn)} /> : null}
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

function TurnRow({ turn, items, costs, open, onToggle }: { turn: Turn; items: boolean; costs: boolean; open: boolean; onToggle(): void }) {
  const said = items ? turn.item : (turn.conditionResult ?? doneOf(turn.verdict));
  const cost = money(turn.usage ?? undefined);
  const used = tokens(turn.usage ?? undefined);
  const verdict = verdictWords(turn.verdict);
  return (
    <button type="button" className="turn-row" aria-expanded={open} onClick={onToggle}>
      <span className="number">{count(turn.iteration)}</span>
      <span><Status status={turn.status} /></span>
      <span className="mono small cut">{said === undefined || said === null ? <span className="faint">–</span> : brief(said, 40)}</span>
      <span className="mono small cut">
        {items ? <span className="narrow-only">{brief(said, 20)} · </span> : null}
        {turn.error ? <span className="bad-text">{turn.error.message}</span> : verdict ? <span className="verdict">{verdict}</span> : <span className="muted">{brief(turn.result, 140)}</span>}
      </span>
      <span className="number faint wide-only" title={stamp(turn.started_at)}>{clock(turn.started_at)}</span>
      <span className="number muted">{duration(turn.duration)}</span>
      {costs ? <span className="number faint wide-only">{cost !== null && cost > 0 ? amount(cost) : used ? `${count(used)} tok` : ""}</span> : null}
    </button>
  );
}

function doneOf(verdict: Json | undefined): Json | undefined {
  const done = verdict !== null && typeof verdict === "object" && !Array.isArray(verdict) ? verdict["done"] : undefined;
  return typeof done === "boolean" ? (done ? "done" : "not done") : undefined;
}

/** A judge says `{done, verdict}`, or only a text. */
export function verdictWords(verdict: Json | undefined): string {
  if (verdict === undefined || verdict === null) return "";
  if (typeof verdict === "string") return verdict;
  if (typeof verdict === "object" && !Array.isArray(verdict)) {
    const said = verdict["verdict"] ?? verdict["reason"] ?? verdict["feedback"];
    const error = verdict["error"];
    if (error !== null && typeof error === "object" && !Array.isArray(error) && typeof error["message"] === "string") return `no verdict: ${error["message"]}`;
    const text = typeof said === "string" ? said : said === undefined || said === null ? "" : brief(said);
    return text || ("done" in verdict ? (verdict["done"] === true ? "done" : "not done") : brief(verdict));
  }
  return brief(verdict);
}
