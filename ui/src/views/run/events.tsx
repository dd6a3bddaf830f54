// The events of a run, oldest first, followed live. Long runs are read page by page; only a window is kept in memory.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Event, type Json, type Problem, type Run } from "../../api";
import { useStream } from "../../api/hooks";
import { Button, Empty, Loading, ProblemBox, Search } from "../../components/common";
import { Icon } from "../../components/icons";
import { JsonBox } from "../../components/json";
import { brief, clock, count, stamp } from "../../lib/format";
import { isPattern, patternMatcher } from "../../lib/loops";
import { setQuery, useRoute } from "../../lib/router";
import { hasEnded } from "../../lib/status";
import { StreamStatus } from "../runs";
import { newestSeq } from "./newest";

const PAGE_SIZE = 500;
/** The maximum number of events in memory; the oldest are dropped first. */
const MAX_EVENTS = 40_000;
/** A run in progress is opened this many events before its end. */
const TAIL_EVENTS = 2000;

interface EventWindow {
  events: Event[];
  /** No newer events are known. */
  caughtUp: boolean;
  /** The highest sequence number examined. */
  upTo: number;
}

export function RunEvents({ run }: { run: Run }) {
  const { query } = useRoute();
  const [type, setType] = useState(query.get("type") ?? "");
  const [text, setText] = useState(query.get("search") ?? "");
  /** The server filters by this path; type and text filters apply here to the loaded events. */
  const path = query.get("path") ?? "";
  const since = path === "" ? null : query.get("since");
  const [loaded, setLoaded] = useState<EventWindow | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [start, setStart] = useState<number | null>(null);
  const [stick, setStick] = useState(!hasEnded(run.status));
  const [open, setOpen] = useState<number | null>(null);
  const busy = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const id = run.run;

  // A run in progress is opened near its end; an ended run, or the events of one path, at the beginning.
  useEffect(() => {
    const abort = new AbortController();
    const from = hasEnded(run.status) || path !== "" ? Promise.resolve(0) : newestSeq(id, run, abort.signal).then((newest) => Math.max(0, newest - TAIL_EVENTS));
    from.then(setStart, (error: unknown) => {
      if (!abort.signal.aborted) setProblem(asProblem(error));
    });
    return () => abort.abort();
  }, [id]); // eslint-disable-line

  const add = useCallback((more: Event[], caughtUp: boolean, examined: number) => {
    setLoaded((old) => {
      const last = old?.events.at(-1)?.seq ?? -1;
      const fresh = more.filter((event) => event.seq > last);
      const all = [...(old?.events ?? []), ...fresh];
      return { events: all.length > MAX_EVENTS ? all.slice(-MAX_EVENTS) : all, caughtUp, upTo: Math.max(examined, old?.upTo ?? 0, all.at(-1)?.seq ?? 0) };
    });
  }, []);

  const loadFrom = useCallback(
    async (after: number) => {
      if (busy.current) return;
      busy.current = true;
      try {
        const page = await api.events(id, { after, limit: PAGE_SIZE, path, since });
        add(page.items, page.next === null || page.next === undefined, Number(page.next ?? after));
        setProblem(null);
      } catch (error) {
        setProblem(asProblem(error));
      } finally {
        busy.current = false;
      }
    },
    [id, add, path, since],
  );
  useEffect(() => {
    if (start === null) return;
    setLoaded(null);
    void loadFrom(start);
  }, [start, loadFrom]);

  const lastSeq = loaded?.upTo ?? start ?? 0;
  const isSelected = useMemo(() => (path === "" ? () => true : patternMatcher(path)), [path]);
  const following = loaded !== null && loaded.caughtUp && !hasEnded(run.status);
  const stream = useStream(following ? api.eventsPath(id) : null, {
    query: { follow: true },
    lastId: () => String(lastSeq),
    onMessages: (messages) => add(messages.filter((message) => message.data !== "").map((message) => JSON.parse(message.data) as Event).filter((event) => typeof event.seq === "number" && isSelected(event.path)), true, 0),
  });

  const types = useMemo(() => [...new Set(loaded?.events.map((event) => event.type) ?? [])].sort(), [loaded]);
  const shown = useMemo(() => {
    const needle = text.trim().toLowerCase();
    const matches = isPattern(needle) ? patternMatcher(needle) : null;
    return (loaded?.events ?? []).filter((event) => (type === "" || event.type === type || event.type.startsWith(`${type}.`)) && (needle === "" || (matches?.(event.path.toLowerCase()) ?? event.path.toLowerCase().includes(needle)) || event.type.includes(needle)));
  }, [loaded, type, text]);

  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => box.current, estimateSize: () => 28, overscan: 14, getItemKey: (at) => shown[at]?.seq ?? at });
  const visible = rows.getVirtualItems();
  const lastShown = visible.at(-1)?.index ?? -1;
  useEffect(() => {
    if (loaded && !loaded.caughtUp && lastShown >= shown.length - 60) void loadFrom(lastSeq);
  }, [loaded, lastShown, shown.length, lastSeq, loadFrom]);
  useEffect(() => {
    if (stick && shown.length > 0) rows.scrollToIndex(shown.length - 1, { align: "end" });
  }, [stick, shown.length, rows]);

  const first = loaded?.events[0]?.seq ?? 0;
  return (
    <div className="stack fills-tab">
      <div className="filters">
        <Search value={text} onChange={(value) => { setText(value); setQuery({ search: value }); }} placeholder="Path or type" />
        <label className="filter-select">
          <span className="visually-hidden">Type</span>
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
        {path ? (
          <button type="button" className="chip" aria-pressed title="Show all events of the run" onClick={() => setQuery({ path: null, since: null })}>
            only <span className="mono small">{path}</span> <Icon name="close" size={11} />
          </button>
        ) : null}
        <label className="check">
          <input type="checkbox" checked={stick} onChange={(event) => setStick(event.target.checked)} /> Follow newest
        </label>
        <span className="muted small number grow">
          {shown.length === (loaded?.events.length ?? 0) ? `${count(shown.length)} events` : `${count(shown.length)} of ${count(loaded?.events.length ?? 0)}`}
          {loaded && path === "" && first > 1 ? ` from event ${count(first)}` : ""}
        </span>
        {loaded && path === "" && first > 1 ? <Button variant="quiet" onClick={() => { setStick(false); setStart(0); }}>From the beginning</Button> : null}
        {hasEnded(run.status) ? null : <StreamStatus state={loaded?.caughtUp ? stream : "connecting"} />}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={() => void loadFrom(lastSeq)} /> : null}
      {loaded === null ? problem ? null : <Loading lines={8} /> : shown.length === 0 ? loaded.caughtUp ? <Empty title="No matching events" /> : <p className="muted small" role="status">Searched the first {count(loaded.upTo)} events …</p> : null}
      <div className="panel scroll-list" ref={box} onWheel={(event) => { if (event.deltaY < 0) setStick(false); }}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {visible.map((row) => {
            const event = shown[row.index];
            if (!event) return null;
            return (
              <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                <button type="button" className={`log-row event-row ${eventTone(event)}`} aria-expanded={open === event.seq} onClick={() => { setStick(false); setOpen(open === event.seq ? null : event.seq); }}>
                  <span className="number faint">{count(event.seq)}</span>
                  <span className="number faint" title={stamp(event.at)}>{clock(event.at)}</span>
                  <span className="event-type cut">{event.type}</span>
                  <span className="mono small cut">{event.path}</span>
                  <span className="mono small faint cut wide-only">{brief(otherFields(event), 160)}</span>
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

function otherFields(event: Event): unknown {
  const { seq, at, type, path, workflowId, ...more } = event;
  void [seq, at, type, path, workflowId];
  return Object.keys(more).length === 0 ? undefined : more;
}

function eventTone(event: Event): string {
  const status = event["status"];
  if (/failed|refused|exceeded|dropped/.test(event.type) || status === "failed" || status === "timed_out") return "tone-bad";
  if (/retrying|waiting|paused|idle/.test(event.type)) return "tone-warn";
  if (/done|finished|processed|delivered/.test(event.type)) return "tone-good";
  if (/started|requested|running/.test(event.type)) return "tone-live";
  return "tone-calm";
}
