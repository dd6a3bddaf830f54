// The run's events, oldest first, as they come. Long runs are read page by page; only a window of them is kept.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Event, type Json, type Problem, type Run } from "../../api";
import { useFollow } from "../../api/use";
import { brief, clock, count, stamp } from "../../lib/format";
import { setQuery, usePlace } from "../../lib/router";
import { hasEnded } from "../../lib/status";
import { Icon } from "../../parts/icons";
import { JsonBox } from "../../parts/json";
import { Button, Empty, ProblemBox, Search, Waiting } from "../../parts/small";
import { Live } from "../runs";
import { isMany, stands } from "../../lib/loops";
import { newestSeq } from "./newest";

const PAGE = 500;
/** The oldest go when there are more. */
const KEPT = 40_000;
const NEAR_THE_END = 2000;

interface Kept {
  events: Event[];
  /** Nothing newer is known. */
  caughtUp: boolean;
  /** The newest number that was looked at. */
  upTo: number;
}

export function RunEvents({ run }: { run: Run }) {
  const { query } = usePlace();
  const [type, setType] = useState(query.get("type") ?? "");
  const [text, setText] = useState(query.get("path") ?? "");
  /** The server looks for what is told of one place; the rest is chosen here, from what was loaded. */
  const place = query.get("place") ?? "";
  const since = place === "" ? null : query.get("since");
  const [kept, setKept] = useState<Kept | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [start, setStart] = useState<number | null>(null);
  const [stick, setStick] = useState(!hasEnded(run.status));
  const [open, setOpen] = useState<number | null>(null);
  const busy = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const id = run.run;

  // A long run that goes on is entered near its end; one that has ended, and what is told of one place, at the beginning.
  useEffect(() => {
    const abort = new AbortController();
    const from = hasEnded(run.status) || place !== "" ? Promise.resolve(0) : newestSeq(id, run, abort.signal).then((newest) => Math.max(0, newest - NEAR_THE_END));
    from.then(setStart, (error: unknown) => {
      if (!abort.signal.aborted) setProblem(asProblem(error));
    });
    return () => abort.abort();
  }, [id]); // eslint-disable-line

  const add = useCallback((more: Event[], caughtUp: boolean, looked: number) => {
    setKept((old) => {
      const last = old?.events.at(-1)?.seq ?? -1;
      const fresh = more.filter((event) => event.seq > last);
      const all = [...(old?.events ?? []), ...fresh];
      return { events: all.length > KEPT ? all.slice(-KEPT) : all, caughtUp, upTo: Math.max(looked, old?.upTo ?? 0, all.at(-1)?.seq ?? 0) };
    });
  }, []);

  const loadFrom = useCallback(
    async (after: number) => {
      if (busy.current) return;
      busy.current = true;
      try {
        const page = await api.events(id, { after, limit: PAGE, path: place, since });
        add(page.items, page.next === null || page.next === undefined, Number(page.next ?? after));
        setProblem(null);
      } catch (error) {
        setProblem(asProblem(error));
      } finally {
        busy.current = false;
      }
    },
    [id, add, place, since],
  );
  useEffect(() => {
    if (start === null) return;
    setKept(null);
    void loadFrom(start);
  }, [start, loadFrom]);

  const lastSeq = kept?.upTo ?? start ?? 0;
  const isHere = useMemo(() => (place === "" ? () => true : stands(place)), [place]);
  const following = kept !== null && kept.caughtUp && !hasEnded(run.status);
  const link = useFollow(following ? api.eventsPath(id) : null, {
    query: { follow: true },
    lastId: () => String(lastSeq),
    onMessages: (messages) => add(messages.filter((message) => message.data !== "").map((message) => JSON.parse(message.data) as Event).filter((event) => typeof event.seq === "number" && isHere(event.path)), true, 0),
  });

  const types = useMemo(() => [...new Set(kept?.events.map((event) => event.type) ?? [])].sort(), [kept]);
  const shown = useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const many = isMany(wanted) ? stands(wanted) : null;
    return (kept?.events ?? []).filter((event) => (type === "" || event.type === type || event.type.startsWith(`${type}.`)) && (wanted === "" || (many?.(event.path.toLowerCase()) ?? event.path.toLowerCase().includes(wanted)) || event.type.includes(wanted)));
  }, [kept, type, text]);

  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => box.current, estimateSize: () => 28, overscan: 14, getItemKey: (at) => shown[at]?.seq ?? at });
  const visible = rows.getVirtualItems();
  const lastShown = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (kept && !kept.caughtUp && lastShown >= shown.length - 60) void loadFrom(lastSeq);
  }, [kept, lastShown, shown.length, lastSeq, loadFrom]);
  useEffect(() => {
    if (stick && shown.length > 0) rows.scrollToIndex(shown.length - 1, { align: "end" });
  }, [stick, shown.length, rows]);

  const first = kept?.events[0]?.seq ?? 0;
  return (
    <div className="stack fills-tab">
      <div className="filters">
        <Search value={text} onChange={(value) => { setText(value); setQuery({ path: value }); }} placeholder="Path or type" />
        <label className="filter-select">
          <span className="unseen">Type</span>
          <select value={type} onChange={(event) => { setType(event.target.value); setQuery({ type: event.target.value }); }}>
            <option value="">All types</option>
            {["loop", "step", "task", "workflow"].map((group) => (
              <option key={group} value={group}>{group}.*</option>
            ))}
            {types.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        {place ? (
          <button type="button" className="chip" aria-pressed title="Show the events of the whole run" onClick={() => setQuery({ place: null, since: null })}>
            only <span className="mono small">{place}</span> <Icon name="close" size={11} />
          </button>
        ) : null}
        <label className="check">
          <input type="checkbox" checked={stick} onChange={(event) => setStick(event.target.checked)} /> Newest
        </label>
        <span className="muted small number grow">
          {shown.length === (kept?.events.length ?? 0) ? `${count(shown.length)} events` : `${count(shown.length)} of ${count(kept?.events.length ?? 0)}`}
          {kept && place === "" && first > 1 ? ` from number ${count(first)}` : ""}
        </span>
        {kept && place === "" && first > 1 ? <Button look="quiet" onClick={() => { setStick(false); setStart(0); }}>From the beginning</Button> : null}
        {hasEnded(run.status) ? null : <Live link={kept?.caughtUp ? link : "connecting"} />}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={() => void loadFrom(lastSeq)} /> : null}
      {kept === null ? problem ? null : <Waiting lines={8} /> : shown.length === 0 ? kept.caughtUp ? <Empty title="No such events" /> : <p className="muted small" role="status">Looked at the first {count(kept.upTo)} events …</p> : null}
      <div className="panel scroll-list" ref={box} onWheel={(event) => { if (event.deltaY < 0) setStick(false); }}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {visible.map((row) => {
            const event = shown[row.index];
            if (!event) return null;
            return (
              <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                <button type="button" className={`log-row event-row ${eventLook(event)}`} aria-expanded={open === event.seq} onClick={() => { setStick(false); setOpen(open === event.seq ? null : event.seq); }}>
                  <span className="number faint">{count(event.seq)}</span>
                  <span className="number faint" title={stamp(event.at)}>{clock(event.at)}</span>
                  <span className="event-type cut">{event.type}</span>
                  <span className="mono small cut">{event.path}</span>
                  <span className="mono small faint cut wide-only">{brief(rest(event), 160)}</span>
                </button>
                {open === event.seq ? (
                  <div className="log-open">
                    <JsonBox value={event as unknown as Json} open={3} />
                  </div>
                ) : null}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function rest(event: Event): unknown {
  const { seq, at, type, path, workflowId, ...more } = event;
  void [seq, at, type, path, workflowId];
  return Object.keys(more).length === 0 ? undefined : more;
}

function eventLook(event: Event): string {
  const status = event["status"];
  if (/failed|refused|exceeded|dropped/.test(event.type) || status === "failed" || status === "timed_out") return "tone-bad";
  if (/retrying|waiting|paused|idle/.test(event.type)) return "tone-warn";
  if (/done|finished|processed|delivered/.test(event.type)) return "tone-good";
  if (/started|requested|running/.test(event.type)) return "tone-live";
  return "tone-calm";
}
