// The log lines of a run's tasks: output of programs and code, and a worker's own lines. New lines are loaded while the run is open.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { api, asProblem, type LogLine, type Problem, type Run } from "../../api";
import { Button, Empty, Field, Loading, ProblemBox } from "../../components/common";
import { clock, count, plural, stamp } from "../../lib/format";
import { Link, setQuery, to, useRoute } from "../../lib/router";
import { hasEnded } from "../../lib/status";

const PAGE_SIZE = 1000;
/** The list holds at most this many lines; a narrower path shows others. */
const MAX_LINES = 50_000;

export function RunLogs({ run, round }: { run: Run; round: number }) {
  const { query } = useRoute();
  const path = query.get("path") ?? "";
  return <Lines key={`${run.run} ${path}`} run={run} path={path} round={round} />;
}

function Lines({ run, path, round }: { run: Run; path: string; round: number }) {
  const [lines, setLines] = useState<LogLine[] | null>(null);
  const [removed, setRemoved] = useState(0);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [typed, setTyped] = useState(path);
  const after = useRef(0);
  const busy = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const load = useCallback(async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      for (;;) {
        const page = await api.logs(run.run, { path: path || null, after: after.current, limit: PAGE_SIZE });
        after.current = page.lines.at(-1)?.position ?? after.current;
        setLines((old) => [...(old ?? []), ...page.lines].slice(0, MAX_LINES));
        setRemoved(page.removed);
        setProblem(null);
        if (page.next === null || page.next === undefined) break;
      }
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      busy.current = false;
    }
  }, [run.run, path]);
  // `round` rises when the run has published events.
  useEffect(() => void load(), [load, round, run.status]);
  const size = lines?.length ?? 0;
  const rows = useVirtualizer({ count: size, getScrollElement: () => box.current, estimateSize: () => 26, overscan: 20, getItemKey: (at) => lines?.[at]?.position ?? at });
  return (
    <div className="stack fills-tab">
      <form className="row wraps" onSubmit={(event) => { event.preventDefault(); setQuery({ path: typed.trim() || null }); }}>
        <Field label="Step, loop or iteration">
          <input type="text" value={typed} placeholder="pages[3].save" onChange={(event) => setTyped(event.target.value)} />
        </Field>
        <Button type="submit" className="below-label">Show</Button>
        <span className="muted small below-label">{lines ? plural(size, "line") : ""}{removed > 0 ? ` · ${count(removed)} older lines are no longer stored` : ""}</span>
      </form>
      {problem ? <ProblemBox problem={problem} onRetry={() => void load()} /> : null}
      {lines === null ? (problem ? null : <Loading lines={6} />) : size === 0 ? <Empty title={hasEnded(run.status) ? "No log lines" : "No log lines yet"} /> : null}
      {size > 0 && lines ? (
        <div className="panel scroll-list" ref={box} data-testid="logs">
          <div style={{ height: rows.getTotalSize(), position: "relative" }}>
            {rows.getVirtualItems().map((row) => {
              const line = lines[row.index];
              if (!line) return null;
              return (
                <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                  <LogRow run={run.run} line={line} />
                </div>
              );
            })}
          </div>
        </div>
      ) : null}
    </div>
  );
}

function LogRow({ run, line }: { run: string; line: LogLine }) {
  const lost = line.stream === "lost";
  return (
    <div className="log-line small">
      <span className="number faint" title={stamp(line.at)}>{clock(line.at)}</span>
      <Link to={to(["runs", run, "logs"], { path: line.path })} className="mono cut">{line.path}{line.attempt > 1 ? ` (attempt ${line.attempt})` : ""}</Link>
      <span className={line.stream === "stderr" || lost ? "warn-text" : "faint"}>{line.stream}</span>
      <span className="mono wrap">{lost ? `${line.text} lines of this attempt were not stored` : line.text}</span>
    </div>
  );
}
