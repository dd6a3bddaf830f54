// A progress strip of a loop: one cell per iteration, or per bucket of iterations if they do not fit.

import { useState } from "react";
import type { Strip, StripCell } from "../api/types";
import { count, plural } from "../lib/format";

interface StripProps {
  strip: Strip;
  /** The maximum number of iterations, if known; remaining iterations are drawn pale. */
  max?: number | null;
  open?: boolean;
  mini?: boolean;
  current?: number;
  onChoose?(iteration: number): void;
}

export function ProgressStrip({ strip, max = null, open = false, mini = false, current, onChoose }: StripProps) {
  const [at, setAt] = useState<number | null>(null);
  const cells = strip.cells;
  const done = cells.length;
  const first = cells[0];
  const perCell = first ? first.to - first.from + 1 : 1;
  // Everything is drawn to scale: the last cell may stand for fewer iterations, the remaining part for many more.
  const ahead = open && max !== null && max > strip.iterations ? (max - strip.iterations) / perCell : 0;
  const few = done + ahead <= 40;
  const shown = at !== null ? cells[at] : undefined;
  const choose = (index: number) => {
    const cell = cells[index];
    if (cell && onChoose) onChoose(cell.from);
  };
  const label = `${plural(strip.iterations, "iteration")}${max ? ` of ${count(max)}` : ""}, ${count(cells.reduce((sum, cell) => sum + cell.failed, 0))} failed`;
  return (
    <div className="strip-box">
      <div
        className={mini ? "strip mini" : "strip"}
        role={onChoose ? "slider" : "img"}
        aria-label={label}
        {...(onChoose
          ? { tabIndex: 0, "aria-valuemin": 0, "aria-valuemax": Math.max(0, strip.iterations - 1), "aria-valuenow": shown?.from ?? current ?? 0, "aria-valuetext": shown ? describeCell(shown) : label }
          : {})}
        onMouseLeave={() => setAt(null)}
        onKeyDown={(event) => {
          if (!onChoose) return;
          const move = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
          if (move !== undefined) setAt(Math.max(0, Math.min(done - 1, (at ?? 0) + move)));
          else if (event.key === "Home") setAt(0);
          else if (event.key === "End") setAt(done - 1);
          else if (event.key === "Enter" && at !== null) choose(at);
          else return;
          event.preventDefault();
        }}
      >
        {cells.map((cell, index) => {
          const here = current !== undefined && cell.from <= current && current <= cell.to;
          return (
            <span
              key={cell.from}
              className={`strip-cell${few ? " whole" : ""}${here || index === at ? " at" : ""}`}
              style={{ flexGrow: cellShare(cell, perCell) }}
              title={mini ? undefined : describeCell(cell)}
              onMouseEnter={mini ? undefined : () => setAt(index)}
              onClick={onChoose ? () => choose(index) : undefined}
            >
              <Segment kind="failed" amount={cell.failed} cell={cell} minPercent={mini ? 50 : 22} />
              <Segment kind="other" amount={cell.other} cell={cell} minPercent={mini ? 50 : 22} />
            </span>
          );
        })}
        {ahead > 0 ? <span className="strip-cell ahead" style={{ flexGrow: ahead, ...(few ? { maxWidth: ahead * 27 } : {}) }} /> : null}
      </div>
      {mini ? null : <p className="strip-caption small muted">{shown ? describeCell(shown) : label}</p>}
    </div>
  );
}

/** The width of a cell, in cells: the last one may be a part of a cell. */
export function cellShare(cell: StripCell, perCell: number): number {
  return (cell.to - cell.from + 1) / Math.max(1, perCell);
}

/** A segment of a cell, with a minimum height so that one failure among thousands is visible: a fifth of the cell, or half of a mini cell. */
function Segment({ kind, amount, cell, minPercent }: { kind: "failed" | "other"; amount: number; cell: StripCell; minPercent: number }) {
  if (amount === 0) return null;
  const all = Math.max(1, cell.succeeded + cell.failed + cell.other);
  return <i className={kind} style={{ height: `${Math.max(minPercent, (amount / all) * 100)}%` }} />;
}

function describeCell(cell: StripCell): string {
  const which = cell.from === cell.to ? `iteration ${count(cell.from)}` : `iterations ${count(cell.from)} to ${count(cell.to)}`;
  const parts = [cell.succeeded ? `${count(cell.succeeded)} succeeded` : "", cell.failed ? `${count(cell.failed)} failed` : "", cell.other ? `${count(cell.other)} cancelled, not retained or not ended` : ""];
  return `${which}: ${parts.filter(Boolean).join(", ") || "none retained"}`;
}
