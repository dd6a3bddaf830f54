// The turns of a loop, a page at a time.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Json, type Problem, type Turn } from "../../api";
import { isAborted } from "../../api/client";
import { brief, clock, count, duration, stamp } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { setQuery } from "../../lib/router";
import { amount, money, tokens } from "../../lib/usage";
import { Mark } from "../../parts/icons";
import { Empty, ProblemBox, Status, Waiting } from "../../parts/small";
import type { Told } from "./told";
import { TurnMore } from "./turn";

const PAGE = 100;
/** Of a longer list only what comes after it is asked for. */
const REFRESHED = 500;

interface TurnListProps {
  id: string;
  path: string;
  failedOnly: boolean;
  start: number | null;
  known: number | null;
  failed: number;
  /** It goes on. */
  live: boolean;
  /** What the run has told of its turns besides. */
  told: Map<number, Told>;
  onRestart(turn: Turn): void;
}

interface Window {
  turns: Turn[];
  next: number | null;
  notKept: { from: number; to: number }[];
}

export function TurnList({ id, path, failedOnly, start, known, failed, live, told, onRestart }: TurnListProps) {
  const [list, setList] = useState<Window | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [open, setOpen] = useState<number | null>(start);
  const [chosen, setChosen] = useState(0);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const ask = useMemo(() => ({ loop: path, failed: failedOnly || null, limit: PAGE }), [path, failedOnly]);
  useEffect(() => {
    const abort = new AbortController();
    busy.current = true;
    api.turns(id, { ...ask, from: start ?? 0 }, abort.signal).then(
      (page) => {
        setList({ turns: page.turns, next: page.next ?? null, notKept: page.not_kept ?? [] });
        setProblem(null);
        setOpen(start);
        setChosen(0);
        box.current?.scrollTo({ top: 0 });
        busy.current = false;
      },
      (error: unknown) => {
        busy.current = false;
        if (!abort.signal.aborted && !isAborted(error)) setProblem(asProblem(error));
      },
    );
    return () => abort.abort();
  }, [id, ask, start, round]);
  const more = useCallback(() => {
    if (busy.current || list === null || list.next === null) return;
    busy.current = true;
    api.turns(id, { ...ask, from: list.next }).then(
      (page) => {
        setList((old) => ({ turns: [...(old?.turns ?? []), ...page.turns], next: page.next ?? null, notKept: [...(old?.notKept ?? []), ...(page.not_kept ?? [])] }));
        busy.current = false;
      },
      (error: unknown) => {
        setProblem(asProblem(error));
        busy.current = false;
      },
    );
  }, [id, ask, list]);
  // A loop that goes on: turns side by side end in any order, so what is shown is asked for again, and a page more.
  const shown = `${path} ${failedOnly} ${start ?? ""}`;
  const current = useRef(shown);
  current.current = shown;
  const wasLive = useRef(false);
  wasLive.current ||= live;
  const news = `${known ?? ""} ${failed}`;
  const heard = useRef("");
  useEffect(() => {
    if (!wasLive.current || list === null || busy.current || heard.current === news) return;
    heard.current = news;
    if (list.turns.length > REFRESHED) {
      if (list.next === null) setList({ ...list, next: (list.turns.at(-1)?.iteration ?? -1) + 1 });
      return;
    }
    busy.current = true;
    api.turns(id, { ...ask, from: start ?? 0, limit: list.turns.length + PAGE }).then(
      (page) => {
        busy.current = false;
        if (current.current === shown) setList({ turns: page.turns, next: page.next ?? null, notKept: page.not_kept ?? [] });
      },
      () => {
        // The next news ask again.
        busy.current = false;
      },
    );
  }, [id, ask, start, shown, news, list]);
  const size = list?.turns.length ?? 0;
  const rows = useVirtualizer({ count: size, getScrollElement: () => box.current, estimateSize: () => 34, overscan: 10, getItemKey: (at) => list?.turns[at]?.iteration ?? at });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= size - 30) more();
  }, [last, size, more]);
  const go = (at: number) => {
    const next = Math.max(0, Math.min(size - 1, at));
    setChosen(next);
    rows.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-index="${next}"] button`)?.focus({ preventScroll: true }));
  };
  useKeys({ j: () => go(chosen + 1), k: () => go(chosen - 1), f: () => setQuery({ failed: !failedOnly, turn: null }) });
  const [typed, setTyped] = useState("");
  // Loops over items check nothing: what a turn was for says more.
  const items = list?.turns.some((turn) => turn.item !== undefined) ?? false;
  const costs = told.size > 0 || (list?.turns.some((turn) => turn.usage) ?? false);
  const total = known === null ? "" : count(known);
  return (
    <>
      <div className="filters">
        <div className="chips" role="group" aria-label="Which turns">
          <button type="button" className="chip" aria-pressed={!failedOnly} onClick={() => setQuery({ failed: null, turn: null })}>All turns {known ? <span className="number">{total}</span> : null}</button>
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
        {start !== null && start > 0 ? <span className="muted small">from turn {count(start)} on · <button type="button" className="more-link flat" onClick={() => setQuery({ turn: null })}>from the first</button></span> : null}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={() => setRound(round + 1)} /> : null}
      {list?.notKept.length ? <p className="small muted">Not kept any more: {list.notKept.slice(0, 3).map((gap) => `${count(gap.from)} to ${count(gap.to)}`).join(", ")}</p> : null}
      {list === null ? problem ? null : <Waiting lines={6} /> : size === 0 && list.next === null ? <Empty title={failedOnly ? "No turn has failed" : "No turn has ended yet"} /> : null}
      {size > 0 && list ? (
        <div className={costs ? "panel turn-list costs" : "panel turn-list"} data-testid="turns">
          <div className="turn-row head" aria-hidden="true">
            <span>Turn</span><span>Status</span><span>{items ? "Item" : "Condition"}</span><span>Result</span><span className="wide-only">Began</span><span>Took</span>{costs ? <span className="wide-only">Cost</span> : null}
          </div>
          <div className="scroll-list" ref={box}>
            <div style={{ height: rows.getTotalSize(), position: "relative" }}>
              {visible.map((row) => {
                const kept = list.turns[row.index];
                if (!kept) return null;
                const turn = { ...told.get(kept.iteration), ...kept };
                return (
                  <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                    <TurnRow turn={turn} items={items} costs={costs} open={open === turn.iteration} onToggle={() => { setChosen(row.index); setOpen(open === turn.iteration ? null : turn.iteration); }} />
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
