// The live list of runs.

import { useVirtualizer } from "@tanstack/react-virtual";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Problem, type RunSummary, type StatusCount } from "../api";
import { isAborted } from "../api/client";
import { useLoad, useStream, useThrottled } from "../api/hooks";
import { Ago, Button, Elapsed, Empty, Loading, PageHead, ProblemBox, Search, Status } from "../components/common";
import { Icon, Mark } from "../components/icons";
import { brief, count, humanize } from "../lib/format";
import { useKeys } from "../lib/keys";
import { Link, navigate, setQuery, to, useRoute } from "../lib/router";
import { RUN_STATUSES, tone } from "../lib/status";

const StartRun = lazy(() => import("./start").then((module) => ({ default: module.StartRun })));

const PAGE_SIZE = 100;
const ROW_HEIGHT = 40;

interface RunFilter {
  status: string;
  definition: string;
  search: string;
  children: boolean;
  parent: string;
  /** The id of one of TIME_SPANS. */
  since: string;
}

const TIME_SPANS: { id: string; label: string; ms: number }[] = [
  { id: "1h", label: "Last hour", ms: 3_600_000 },
  { id: "24h", label: "Last 24 hours", ms: 86_400_000 },
  { id: "7d", label: "Last 7 days", ms: 604_800_000 },
];

function startOfSpan(id: string): string | null {
  const span = TIME_SPANS.find((one) => one.id === id);
  return span ? new Date(Date.now() - span.ms).toISOString() : null;
}

export function Runs() {
  const { query } = useRoute();
  const filter: RunFilter = {
    status: query.get("status") ?? "",
    definition: query.get("definition") ?? "",
    search: query.get("search") ?? "",
    children: query.get("children") === "true",
    parent: query.get("parent") ?? "",
    since: query.get("since") ?? "",
  };
  const [starting, setStarting] = useState(query.get("start") !== null);
  const [typed, setTyped] = useState(filter.search);
  const list = useRuns(filter);
  const definitions = useLoad("definitions", (signal) => api.definitions({ limit: 500 }, signal));
  useEffect(() => {
    const timer = setTimeout(() => setQuery({ search: typed }), 250);
    return () => clearTimeout(timer);
  }, [typed]);
  useKeys({ n: () => setStarting(true) });
  const names = definitions.value?.items.map((one) => one.name) ?? [];
  const filtered = filter.status !== "" || filter.definition !== "" || filter.search !== "" || filter.parent !== "" || filter.since !== "";
  return (
    <div className="page fills">
      <PageHead title="Runs">
        <StreamStatus state={list.stream} />
        <Button variant="primary" icon="play" onClick={() => setStarting(true)}>
          Start a run
        </Button>
      </PageHead>
      <div className="filters">
        <Search value={typed} onChange={setTyped} placeholder="Run or definition" />
        <label className="filter-select">
          <span className="visually-hidden">Definition</span>
          <select value={filter.definition} onChange={(event) => setQuery({ definition: event.target.value })}>
            <option value="">All definitions</option>
            {filter.definition && !names.includes(filter.definition) ? <option>{filter.definition}</option> : null}
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="filter-select narrow-select">
          <span className="visually-hidden">Started</span>
          <select value={filter.since} onChange={(event) => setQuery({ since: event.target.value })}>
            <option value="">Any time</option>
            {TIME_SPANS.map(({ id, label }) => (
              <option key={id} value={id}>{label}</option>
            ))}
          </select>
        </label>
        <label className="check">
          <input type="checkbox" checked={filter.children} onChange={(event) => setQuery({ children: event.target.checked })} />
          Child runs
        </label>
        {filter.parent ? (
          <button type="button" className="chip" aria-pressed onClick={() => setQuery({ parent: null })}>
            child of <span className="mono small">{filter.parent}</span> <Icon name="close" size={11} />
          </button>
        ) : null}
        <StatusChips chosen={filter.status} counts={list.counts} />
      </div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.items === null ? (
        list.problem ? null : <Loading lines={8} />
      ) : list.items.length === 0 ? (
        <Empty title={filtered ? "No matching runs" : "No runs yet"}>
          {filtered ? (
            <Button onClick={() => { setTyped(""); navigate("/runs"); }}>Show all</Button>
          ) : (
            <p>
              Start one here, or with <code>windlass run FILE</code> in the store of this server.
            </p>
          )}
        </Empty>
      ) : (
        <RunTable items={list.items} more={list.more} onMore={list.loadMore} />
      )}
      <Suspense>
        {starting ? <StartRun names={definitions.value?.items ?? null} initial={filter.definition} onClose={() => setStarting(false)} /> : null}
      </Suspense>
    </div>
  );
}

export function StreamStatus({ state }: { state: string }) {
  const open = state === "open";
  const label = open ? "Live" : state === "ended" ? "Ended" : state === "idle" ? "Idle" : state === "broken" ? "Reconnecting" : "Connecting";
  return (
    <span role="status" className={`live ${open ? "tone-good" : "tone-calm"}`} title={open ? "Updates are shown immediately" : "Not connected to the event stream"}>
      <i /> {label}
    </span>
  );
}

function StatusChips({ chosen, counts }: { chosen: string; counts: StatusCount[] | null }) {
  const known = counts ?? [];
  const all: StatusCount | null = counts === null ? null : { status: "", runs: known.reduce((sum, one) => sum + one.runs, 0), more: known.some((one) => one.more) };
  // Rare statuses are shown only if they occur or are selected.
  const shown = RUN_STATUSES.filter((status) => COMMON_STATUSES.has(status) || status === chosen || known.some((one) => one.status === status));
  return (
    <div className="chips" role="group" aria-label="Status">
      <button type="button" className="chip" aria-pressed={chosen === ""} onClick={() => setQuery({ status: "" })}>
        All <RunCount count={all} />
      </button>
      {shown.map((status) => (
        <button key={status} type="button" className={`chip tone-${tone(status)}`} aria-pressed={chosen === status} onClick={() => setQuery({ status: chosen === status ? "" : status })}>
          <Mark status={status} size={14} />
          {humanize(status)} <RunCount count={known.find((one) => one.status === status) ?? null} />
        </button>
      ))}
    </div>
  );
}

const COMMON_STATUSES = new Set<string>(["running", "waiting", "succeeded", "failed", "cancelled"]);

function RunCount({ count: counted }: { count: StatusCount | null }) {
  if (counted === null || counted.runs === 0) return null;
  return <span className="number" title={counted.more ? "at least; older runs were not counted" : undefined}>{count(counted.runs)}{counted.more ? "+" : ""}</span>;
}

interface RunList {
  items: RunSummary[] | null;
  counts: StatusCount[] | null;
  more: boolean;
  problem: Problem | null;
  stream: string;
  reload(): void;
  loadMore(): void;
}

function useRuns(filter: RunFilter): RunList {
  const [items, setItems] = useState<RunSummary[] | null>(null);
  const [next, setNext] = useState<number | string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const key = JSON.stringify(filter);
  const request = useMemo(() => {
    const parsed = JSON.parse(key) as RunFilter;
    return { status: parsed.status, definition: parsed.definition, search: parsed.search, children: parsed.children || null, parent: parsed.parent, since: startOfSpan(parsed.since), limit: PAGE_SIZE };
  }, [key]);
  useEffect(() => {
    const abort = new AbortController();
    busy.current = false;
    api.runs(request, abort.signal).then(
      (page) => {
        setItems(page.items);
        setNext(page.next ?? null);
        setProblem(null);
      },
      (error: unknown) => {
        if (!abort.signal.aborted && !isAborted(error)) setProblem(asProblem(error));
      },
    );
    return () => abort.abort();
  }, [request, round]);
  const counts = useLoad(`counts ${JSON.stringify({ ...request, status: "" })}`, (signal) => {
    const { status, limit, ...rest } = request;
    void [status, limit];
    return api.counts(rest, signal);
  });
  const recount = useThrottled(counts.reload, 1000);
  const reload = useCallback(() => setRound((old) => old + 1), []);
  const loadMore = useCallback(() => {
    if (next === null || busy.current) return;
    busy.current = true;
    api.runs({ ...request, before: next }).then(
      (page) => {
        setItems((old) => appendNew(old ?? [], page.items));
        setNext(page.next ?? null);
        busy.current = false;
      },
      (error: unknown) => {
        setProblem(asProblem(error));
        busy.current = false;
      },
    );
  }, [request, next]);
  const stream = useStream("/runs/changes", {
    onReconnect: () => {
      reload();
      recount();
    },
    onMessages: (messages) => {
      if (messages.some((message) => message.event === "resync")) reload();
      recount();
      const gone = new Set(messages.filter((message) => message.event === "removed").map((message) => (JSON.parse(message.data) as { run: string }).run));
      if (gone.size > 0) setItems((old) => old && old.filter((run) => !gone.has(run.run)));
      const changes = messages.filter((message) => message.event === "run").map((message) => JSON.parse(message.data) as RunSummary);
      if (changes.length > 0) setItems((old) => (old === null ? old : changes.reduce((list, run) => applyChange(list, run, filter, next === null), old)));
    },
  });
  return { items, counts: counts.value?.items ?? null, more: next !== null, problem, stream, reload, loadMore };
}

function appendNew(old: RunSummary[], more: RunSummary[]): RunSummary[] {
  const known = new Set(old.map((run) => run.run));
  return [...old, ...more.filter((run) => !known.has(run.run))];
}

/** Applies a changed run to the list under a filter. `complete`: all pages are loaded. */
export function applyChange(list: RunSummary[], run: RunSummary, filter: RunFilter, complete = true): RunSummary[] {
  const at = list.findIndex((one) => one.run === run.run);
  const matches =
    (filter.status === "" || filter.status === run.status) &&
    (filter.definition === "" || filter.definition === run.definition) &&
    (filter.parent === "" ? filter.children || !run.parent : filter.parent === run.parent);
  if (at >= 0) {
    // A run that no longer matches stays until the list is reloaded, so that rows do not disappear under the pointer.
    return list.map((one, index) => (index === at ? { ...one, ...run } : one));
  }
  if (!matches || filter.search !== "") return list;
  const position = list.findIndex((one) => (one.number ?? 0) < (run.number ?? Number.MAX_SAFE_INTEGER));
  // Older than every loaded run: it belongs to a later page, if there is one.
  if (position === -1) return complete ? [...list, run] : list;
  return [...list.slice(0, position), run, ...list.slice(position)];
}

function RunTable({ items, more, onMore }: { items: RunSummary[]; more: boolean; onMore(): void }) {
  const box = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(-1);
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => box.current, estimateSize: () => ROW_HEIGHT, overscan: 12 });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (more && last >= items.length - 20) onMore();
  }, [more, last, items.length, onMore]);
  const go = (at: number) => {
    const next = Math.max(0, Math.min(items.length - 1, at));
    setChosen(next);
    rows.scrollToIndex(next, { align: "auto" });
    requestAnimationFrame(() => box.current?.querySelector<HTMLElement>(`[data-row="${next}"]`)?.focus({ preventScroll: true }));
  };
  useKeys({
    j: () => go(chosen + 1),
    k: () => go(chosen - 1),
    Enter: () => {
      const run = items[chosen];
      if (run) navigate(to(["runs", run.run]));
    },
  });
  return (
    <div className="run-list panel">
      <div className="run-row head" aria-hidden="true">
        <span>Status</span>
        <span>Definition</span>
        <span className="wide-only">Run</span>
        <span>Started</span>
        <span>Duration</span>
      </div>
      <div className="run-rows" ref={box}>
        <div role="list" aria-label="Runs" style={{ height: rows.getTotalSize(), position: "relative" }}>
          {visible.map((row) => {
            const run = items[row.index];
            if (!run) return null;
            return (
              <div key={run.run} role="listitem" aria-posinset={row.index + 1} aria-setsize={more ? -1 : items.length} className="run-item" style={{ height: ROW_HEIGHT, transform: `translateY(${row.start}px)` }}>
                <Link
                  data-row={row.index}
                  to={to(["runs", run.run])}
                  className={row.index === chosen ? "run-row chosen" : "run-row"}
                  onFocus={() => setChosen(row.index)}
                >
                  <span>
                    <Status status={run.status} />
                  </span>
                  <span className="cut">
                    <span className="strong">{run.definition}</span>
                    {run.version ? <span className="faint"> v{run.version}</span> : null}
                    {run.labels ? <span className="small muted"> {Object.entries(run.labels).map(([name, value]) => `${name}=${value}`).join(" ")}</span> : null}
                    {run.error ? <span className={tone(run.status) === "bad" ? "bad-text" : "muted"}> {brief(run.error.path ? `${run.error.path}: ${run.error.message}` : run.error.message, 160)}</span> : null}
                  </span>
                  <span className="mono small muted cut wide-only">{run.run}</span>
                  <span className="muted">
                    <Ago at={run.created_at} />
                  </span>
                  <span className="muted">
                    <Elapsed status={run.status} startedAt={run.created_at} ms={run.duration_ms} />
                  </span>
                </Link>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
