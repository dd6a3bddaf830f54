// The turns of a loop, a page at a time.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Json, type Problem, type Turn } from "../../api";
import { isAborted } from "../../api/client";
import { eventsAt, stepsOf } from "../../api/places";
import { useLoad } from "../../api/use";
import { brief, clock, count, duration } from "../../lib/format";
import { useKeys } from "../../lib/keys";
import { reasonWords } from "../../lib/loops";
import { Link, navigate, setQuery, to } from "../../lib/router";
import { money, tokens } from "../../lib/usage";
import { Mark } from "../../parts/icons";
import { JsonBox } from "../../parts/json";
import { Button, Empty, ProblemBox, Status, Waiting } from "../../parts/small";
import type { Told } from "./told";

const PAGE = 100;

interface TurnListProps {
  id: string;
  path: string;
  failedOnly: boolean;
  start: number | null;
  known: number | null;
  /** What the run has told of its turns besides. */
  told: Map<number, Told>;
  onRestart(iteration: number): void;
}

interface Window {
  turns: Turn[];
  next: number | null;
  notKept: { from: number; to: number }[];
}

export function TurnList({ id, path, failedOnly, start, known, told, onRestart }: TurnListProps) {
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
  // A loop that goes on: what came after the end of the list is asked for when there is more of it.
  const lastKnown = list?.turns.at(-1)?.iteration ?? -1;
  useEffect(() => {
    if (list && list.next === null && known !== null && known - 1 > lastKnown && !failedOnly && lastKnown >= 0) {
      setList({ ...list, next: lastKnown + 1 });
    }
  }, [known, lastKnown, list, failedOnly]);
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
  return (
    <>
      <div className="filters">
        <div className="chips" role="group" aria-label="Which turns">
          <button type="button" className="chip" aria-pressed={!failedOnly} onClick={() => setQuery({ failed: null, turn: null })}>All turns</button>
          <button type="button" className="chip tone-bad" aria-pressed={failedOnly} onClick={() => setQuery({ failed: true, turn: null })}>
            <Mark status="failed" size={14} /> Failed
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
        <div className="panel turn-list" data-testid="turns">
          <div className="turn-row head" aria-hidden="true">
            <span>Turn</span><span>Status</span><span>Condition</span><span>Result</span><span className="wide-only">Began</span><span>Took</span><span className="wide-only">Cost</span>
          </div>
          <div className="scroll-list" ref={box}>
            <div style={{ height: rows.getTotalSize(), position: "relative" }}>
              {visible.map((row) => {
                const kept = list.turns[row.index];
                if (!kept) return null;
                const turn = { ...told.get(kept.iteration), ...kept };
                return (
                  <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                    <TurnRow turn={turn} open={open === turn.iteration} onToggle={() => { setChosen(row.index); setOpen(open === turn.iteration ? null : turn.iteration); }} />
                    {open === turn.iteration ? <TurnMore id={id} path={path} turn={turn} onRestart={() => onRestart(turn.iteration)} /> : null}
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

function TurnRow({ turn, open, onToggle }: { turn: Turn; open: boolean; onToggle(): void }) {
  const cost = money(turn.usage ?? undefined);
  const used = tokens(turn.usage ?? undefined);
  const verdict = verdictWords(turn.verdict);
  return (
    <button type="button" className="turn-row" aria-expanded={open} onClick={onToggle}>
      <span className="number">{count(turn.iteration)}</span>
      <span><Status status={turn.status} /></span>
      <span className="mono small cut">{turn.conditionResult === undefined || turn.conditionResult === null ? <span className="faint">–</span> : brief(turn.conditionResult, 30)}</span>
      <span className="mono small cut">
        {turn.error ? <span className="bad-text">{turn.error.message}</span> : verdict ? <span className="verdict">{verdict}</span> : <span className="muted">{brief(turn.result, 140)}</span>}
      </span>
      <span className="number faint wide-only">{clock(turn.started_at)}</span>
      <span className="number muted">{duration(turn.duration)}</span>
      <span className="number faint wide-only">{cost !== null && cost > 0 ? `$${cost.toFixed(4)}` : used ? `${count(used)} tok` : ""}</span>
    </button>
  );
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

function TurnMore({ id, path, turn, onRestart }: { id: string; path: string; turn: Turn; onRestart(): void }) {
  const here = `${path}[${turn.iteration}]`;
  const inner = useLoad(`inner ${id} ${here}`, async (signal) => {
    const page = await api.steps(id, { parent: here, limit: 50 }, signal);
    // What is inside of early turns is not kept at hand: the events have it.
    if (page.items.length > 0 || !(page.dropped || page.partial)) return page;
    return { ...page, items: stepsOf(await eventsAt(id, here, turn.started_at, signal), here).slice(0, 50) };
  });
  return (
    <div className="log-open stack turn-more">
      <div className="row wraps">
        <code className="wrap">{here}</code>
        <Button className="small" icon="restart" onClick={onRestart}>Restart from this turn</Button>
        <Link className="button small" to={to(["runs", id, "events"], { place: here, since: turn.started_at ?? null })}>Events</Link>
        <Link className="button small" to={to(["runs", id, "timeline"], { step: here })}>Timeline</Link>
        {turn.reason ? <span className="muted">ended by {reasonWords(turn.reason)}</span> : null}
      </div>
      {turn.error ? (
        <div className="problem">
          <div className="problem-text">
            <strong>{turn.error.message}</strong>
            {turn.error.hint ? <p className="hint">{turn.error.hint}</p> : null}
            <p className="mono small faint">{[turn.error.code, turn.error.path].filter(Boolean).join(" · ")}</p>
          </div>
        </div>
      ) : null}
      {turn.verdict !== undefined && turn.verdict !== null ? <section className="stack tight"><h3>Judge</h3><JsonBox value={turn.verdict} /></section> : null}
      {inner.value && inner.value.items.length > 0 ? (
        <ul className="inner-steps">
          {inner.value.items.map((step) => (
            <li key={step.path}>
              <Status status={step.status} word={false} />
              <strong>{step.name}</strong> <span className="faint">{step.kind}</span>
              <span className="muted number nowrap">{duration(step.duration_ms)}</span>
              {/foreach|until|while|repeat|loop/i.test(step.kind) ? (
                <button type="button" className="more-link flat" onClick={() => navigate(to(["runs", id, "loop"], { path: step.path }))}>its turns</button>
              ) : null}
              {step.error ? <span className="bad-text cut">{step.error.message}</span> : null}
            </li>
          ))}
        </ul>
      ) : null}
      {turn.result !== undefined && turn.result !== null ? <section className="stack tight"><h3>Result</h3><JsonBox value={turn.result} /></section> : null}
      {turn.usage ? <section className="stack tight"><h3>Usage</h3><JsonBox value={turn.usage as Json} /></section> : null}
    </div>
  );
}
