// All runs, live.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, asProblem, type Problem, type RunSummary, type StatusCount } from "../api";
import { isAborted } from "../api/client";
import { useFollow, useLoad, useThrottled } from "../api/use";
import { brief, count, words } from "../lib/format";
import { useKeys } from "../lib/keys";
import { Link, navigate, setQuery, to, usePlace } from "../lib/router";
import { RUN_STATUSES, tone } from "../lib/status";
import { Icon, Mark } from "../parts/icons";
import { Ago, Button, Empty, PageHead, ProblemBox, Search, Status, Took, Waiting } from "../parts/small";
import { StartRun } from "./start";

const PAGE = 100;
const ROW = 40;

interface Filter {
  status: string;
  definition: string;
  search: string;
  children: boolean;
  parent: string;
  /** One of SPANS. */
  since: string;
}

const SPANS: { id: string; said: string; ms: number }[] = [
  { id: "1h", said: "Last hour", ms: 3_600_000 },
  { id: "24h", said: "Last 24 hours", ms: 86_400_000 },
  { id: "7d", said: "Last 7 days", ms: 604_800_000 },
];

function sinceOf(id: string): string | null {
  const span = SPANS.find((one) => one.id === id);
  return span ? new Date(Date.now() - span.ms).toISOString() : null;
}

export function Runs() {
  const { query } = usePlace();
  const filter: Filter = {
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
        <Live link={list.link} />
        <Button look="primary" icon="play" onClick={() => setStarting(true)}>
          Start a run
        </Button>
      </PageHead>
      <div className="filters">
        <Search value={typed} onChange={setTyped} placeholder="Run or definition" />
        <label className="filter-select">
          <span className="unseen">Definition</span>
          <select value={filter.definition} onChange={(event) => setQuery({ definition: event.target.value })}>
            <option value="">All definitions</option>
            {filter.definition && !names.includes(filter.definition) ? <option>{filter.definition}</option> : null}
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="filter-select narrow-select">
          <span className="unseen">Started</span>
          <select value={filter.since} onChange={(event) => setQuery({ since: event.target.value })}>
            <option value="">Any time</option>
            {SPANS.map(({ id, said }) => (
              <option key={id} value={id}>{said}</option>
            ))}
          </select>
        </label>
        <label className="check">
          <input type="checkbox" checked={filter.children} onChange={(event) => setQuery({ children: event.target.checked })} />
          Child runs
        </label>
        {filter.parent ? (
          <button type="button" className="chip" aria-pressed onClick={() => setQuery({ parent: null })}>
            called by <span className="mono small">{filter.parent}</span> <Icon name="close" size={11} />
          </button>
        ) : null}
        <StatusChips chosen={filter.status} counts={list.counts} />
      </div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.items === null ? (
        list.problem ? null : <Waiting lines={8} />
      ) : list.items.length === 0 ? (
        <Empty title={filtered ? "No run is like that" : "No runs yet"}>
          {filtered ? (
            <Button onClick={() => { setTyped(""); navigate("/runs"); }}>Show all</Button>
          ) : (
            <p>
              Start one here, or with <code>windlass start NAME</code>.
            </p>
          )}
        </Empty>
      ) : (
        <RunTable items={list.items} more={list.more} onMore={list.loadMore} />
      )}
      {starting ? <StartRun names={definitions.value?.items ?? null} initial={filter.definition} onClose={() => setStarting(false)} /> : null}
    </div>
  );
}

export function Live({ link }: { link: string }) {
  const open = link === "open";
  const said = open ? "Live" : link === "ended" ? "Ended" : link === "resting" ? "Resting" : link === "broken" ? "Reconnecting" : "Connecting";
  return (
    <span role="status" className={`live ${open ? "tone-good" : "tone-calm"}`} title={open ? "What happens is shown at once" : "No connection to the stream at the moment"}>
      <i /> {said}
    </span>
  );
}

function StatusChips({ chosen, counts }: { chosen: string; counts: StatusCount[] | null }) {
  const known = counts ?? [];
  const all: StatusCount | null = counts === null ? null : { status: "", runs: known.reduce((sum, one) => sum + one.runs, 0), more: known.some((one) => one.more) };
  // Where nothing is rare, only what is there or chosen is worth its room.
  const shown = RUN_STATUSES.filter((status) => USUAL.has(status) || status === chosen || known.some((one) => one.status === status));
  return (
    <div className="chips" role="group" aria-label="Status">
      <button type="button" className="chip" aria-pressed={chosen === ""} onClick={() => setQuery({ status: "" })}>
        All <Many count={all} />
      </button>
      {shown.map((status) => (
        <button key={status} type="button" className={`chip tone-${tone(status)}`} aria-pressed={chosen === status} onClick={() => setQuery({ status: chosen === status ? "" : status })}>
          <Mark status={status} size={14} />
          {words(status)} <Many count={known.find((one) => one.status === status) ?? null} />
        </button>
      ))}
    </div>
  );
}

const USUAL = new Set<string>(["running", "waiting", "succeeded", "failed", "cancelled"]);

function Many({ count: told }: { count: StatusCount | null }) {
  if (told === null || told.runs === 0) return null;
  return <span className="number" title={told.more ? "at least: older runs were not counted" : undefined}>{count(told.runs)}{told.more ? "+" : ""}</span>;
}

interface RunList {
  items: RunSummary[] | null;
  counts: StatusCount[] | null;
  more: boolean;
  problem: Problem | null;
  link: string;
  reload(): void;
  loadMore(): void;
}

function useRuns(filter: Filter): RunList {
  const [items, setItems] = useState<RunSummary[] | null>(null);
  const [next, setNext] = useState<number | string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  const busy = useRef(false);
  const key = JSON.stringify(filter);
  const ask = useMemo(() => {
    const wanted = JSON.parse(key) as Filter;
    return { status: wanted.status, definition: wanted.definition, search: wanted.search, children: wanted.children || null, parent: wanted.parent, since: sinceOf(wanted.since), limit: PAGE };
  }, [key]);
  useEffect(() => {
    const abort = new AbortController();
    busy.current = false;
    api.runs(ask, abort.signal).then(
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
  }, [ask, round]);
  const counts = useLoad(`counts ${JSON.stringify({ ...ask, status: "" })}`, (signal) => {
    const { status, limit, ...rest } = ask;
    void [status, limit];
    return api.counts(rest, signal);
  });
  const recount = useThrottled(counts.reload, 1000);
  const reload = useCallback(() => setRound((old) => old + 1), []);
  const loadMore = useCallback(() => {
    if (next === null || busy.current) return;
    busy.current = true;
    api.runs({ ...ask, before: next }).then(
      (page) => {
        setItems((old) => merged(old ?? [], page.items));
        setNext(page.next ?? null);
        busy.current = false;
      },
      (error: unknown) => {
        setProblem(asProblem(error));
        busy.current = false;
      },
    );
  }, [ask, next]);
  const link = useFollow("/runs/changes", {
    onAgain: () => {
      reload();
      recount();
    },
    onMessages: (messages) => {
      if (messages.some((message) => message.event === "resync")) reload();
      recount();
      const gone = new Set(messages.filter((message) => message.event === "removed").map((message) => (JSON.parse(message.data) as { run: string }).run));
      if (gone.size > 0) setItems((old) => old && old.filter((run) => !gone.has(run.run)));
      const changes = messages.filter((message) => message.event === "run").map((message) => JSON.parse(message.data) as RunSummary);
      if (changes.length > 0) setItems((old) => (old === null ? old : changes.reduce((list, run) => placed(list, run, filter, next === null), old)));
    },
  });
  return { items, counts: counts.value?.items ?? null, more: next !== null, problem, link, reload, loadMore };
}

function merged(old: RunSummary[], more: RunSummary[]): RunSummary[] {
  const known = new Set(old.map((run) => run.run));
  return [...old, ...more.filter((run) => !known.has(run.run))];
}

/** A run that has changed, where it belongs under this filter. */
export function placed(list: RunSummary[], run: RunSummary, filter: Filter, whole = true): RunSummary[] {
  const at = list.findIndex((one) => one.run === run.run);
  const wanted =
    (filter.status === "" || filter.status === run.status) &&
    (filter.definition === "" || filter.definition === run.definition) &&
    (filter.parent === "" ? filter.children || !run.parent : filter.parent === run.parent);
  if (at >= 0) {
    // What no longer fits stays until the list is loaded again, if it fitted when it was: rows must not jump away under the pointer.
    return list.map((one, index) => (index === at ? { ...one, ...run } : one));
  }
  if (!wanted || filter.search !== "") return list;
  const newer = list.findIndex((one) => (one.number ?? 0) < (run.number ?? Number.MAX_SAFE_INTEGER));
  // Older than all that is shown: it is on a later page, if there are any.
  if (newer === -1) return whole ? [...list, run] : list;
  return [...list.slice(0, newer), run, ...list.slice(newer)];
}

function RunTable({ items, more, onMore }: { items: RunSummary[]; more: boolean; onMore(): void }) {
  const box = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState(-1);
  const rows = useVirtualizer({ count: items.length, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 12 });
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
        <span>Took</span>
      </div>
      <div className="run-rows" ref={box}>
        <div role="list" aria-label="Runs" style={{ height: rows.getTotalSize(), position: "relative" }}>
          {visible.map((row) => {
            const run = items[row.index];
            if (!run) return null;
            return (
              <div key={run.run} role="listitem" aria-posinset={row.index + 1} aria-setsize={more ? -1 : items.length} className="run-place" style={{ height: ROW, transform: `translateY(${row.start}px)` }}>
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
                    {run.error ? <span className={tone(run.status) === "bad" ? "bad-text" : "muted"}> {brief(run.error.path ? `${run.error.path}: ${run.error.message}` : run.error.message, 160)}</span> : null}
                  </span>
                  <span className="mono small muted cut wide-only">{run.run}</span>
                  <span className="muted">
                    <Ago at={run.created_at} />
                  </span>
                  <span className="muted">
                    <Took status={run.status} startedAt={run.created_at} ms={run.duration_ms} />
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
