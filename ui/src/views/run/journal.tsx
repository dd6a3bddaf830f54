// The journal of a run, page by page. The engine replays it to rebuild the run's state.

import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { api, asProblem, type JournalEntry, type Problem } from "../../api";
import { Button, Empty, Field, Loading, ProblemBox } from "../../components/common";
import { JsonBox } from "../../components/json";
import { brief, clock, count as formatCount, plural, stamp } from "../../lib/format";

const PAGE_SIZE = 200;

export function RunJournal({ id, ticks }: { id: string; ticks: number | null }) {
  const [items, setItems] = useState<JournalEntry[] | null>(null);
  const [next, setNext] = useState<number | string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [open, setOpen] = useState<number | null>(null);
  const [from, setFrom] = useState("");
  const busy = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const load = useCallback(
    (start: number | string | null, fresh: boolean) => {
      if (busy.current) return;
      busy.current = true;
      api.journal(id, { from: start, limit: PAGE_SIZE }).then(
        (page) => {
          setItems((old) => (fresh ? page.items : [...(old ?? []), ...page.items]));
          setNext(page.next ?? null);
          setProblem(null);
          busy.current = false;
        },
        (error: unknown) => {
          setProblem(asProblem(error));
          busy.current = false;
        },
      );
    },
    [id],
  );
  useEffect(() => load(null, true), [load]);
  const count = items?.length ?? 0;
  const rows = useVirtualizer({ count, getScrollElement: () => box.current, estimateSize: () => 32, overscan: 10, getItemKey: (at) => items?.[at]?.tick ?? at });
  const visible = rows.getVirtualItems();
  const last = visible.at(-1)?.index ?? 0;
  useEffect(() => {
    if (next !== null && count > 0 && last >= count - 20) load(next, false);
  }, [next, last, count, load]);
  if (items === null) return problem ? <ProblemBox problem={problem} onRetry={() => load(null, true)} /> : <Loading lines={6} />;
  return (
    <div className="stack fills-tab">
      <form
        className="row wraps"
        onSubmit={(event) => {
          event.preventDefault();
          setOpen(null);
          load(from.trim() === "" ? null : Number(from), true);
          box.current?.scrollTo({ top: 0 });
        }}
      >
        <Field label="From tick">
          <input type="number" min={0} className="narrow" value={from} onChange={(event) => setFrom(event.target.value)} />
        </Field>
        <Button type="submit" className="below-label">Go</Button>
        <span className="muted small below-label">{ticks === null ? "" : plural(ticks, "tick")}</span>
      </form>
      {problem ? <ProblemBox problem={problem} /> : null}
      {count === 0 ? <Empty title="No entries from this tick on" /> : null}
      <div className="panel scroll-list" ref={box}>
        <div style={{ height: rows.getTotalSize(), position: "relative" }}>
          {visible.map((row) => {
            const entry = items[row.index];
            if (!entry) return null;
            return (
              <div key={row.key} ref={rows.measureElement} data-index={row.index} className="log-item" style={{ transform: `translateY(${row.start}px)` }}>
                <button type="button" className="log-row journal-row" aria-expanded={open === entry.tick} onClick={() => setOpen(open === entry.tick ? null : entry.tick)}>
                  <span className="number faint">{formatCount(entry.tick)}</span>
                  <span className="number faint" title={stamp(entry.at)}>{clock(entry.at)}</span>
                  <span className="strong cut">{entry.kind}</span>
                  <span className="mono small muted cut">{brief(entry.body, 140)}</span>
                  <span className="mono small faint cut wide-only">{entry.digest}</span>
                </button>
                {open === entry.tick ? (
                  <div className="log-open">
                    <JsonBox value={{ body: entry.body ?? null, events: entry.events ?? [], digest: entry.digest ?? null }} open={3} />
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
