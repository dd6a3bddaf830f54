// A loop at a glance: one cell a turn, or a bucket of turns where there are more than fit.

import { useState } from "react";
import type { Strip, StripCell } from "../api/types";
import { count, many } from "../lib/format";

interface StripProps {
  strip: Strip;
  /** The most turns there can be, if that is known: what is still ahead is drawn pale. */
  most?: number | null;
  open?: boolean;
  mini?: boolean;
  current?: number;
  onChoose?(turn: number): void;
}

export function ProgressStrip({ strip, most = null, open = false, mini = false, current, onChoose }: StripProps) {
  const [at, setAt] = useState<number | null>(null);
  const cells = strip.cells;
  const done = cells.length;
  const perCell = done > 0 ? strip.turns / done : 1;
  // What is ahead takes its share, but leaves a quarter at least to what has been.
  const ahead = open && most !== null && most > strip.turns ? Math.min((most - strip.turns) / perCell, Math.max(1, done) * 3) : 0;
  const few = done + ahead <= 40;
  const shown = at !== null ? cells[at] : undefined;
  const choose = (index: number) => {
    const cell = cells[index];
    if (cell && onChoose) onChoose(cell.from);
  };
  const label = `${many(strip.turns, "turn")}${most ? ` of ${count(most)}` : ""}, ${count(cells.reduce((sum, cell) => sum + cell.failed, 0))} failed`;
  return (
    <div className="strip-box">
      <div
        className={mini ? "strip mini" : "strip"}
        role={onChoose ? "slider" : "img"}
        aria-label={label}
        {...(onChoose
          ? { tabIndex: 0, "aria-valuemin": 0, "aria-valuemax": Math.max(0, strip.turns - 1), "aria-valuenow": shown?.from ?? current ?? 0, "aria-valuetext": shown ? cellWords(shown) : label }
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
              title={mini ? undefined : cellWords(cell)}
              onMouseEnter={mini ? undefined : () => setAt(index)}
              onClick={onChoose ? () => choose(index) : undefined}
            >
              <Part kind="failed" part={cell.failed} cell={cell} least={mini ? 50 : 22} />
              <Part kind="other" part={cell.other} cell={cell} least={mini ? 50 : 22} />
            </span>
          );
        })}
        {ahead > 0 ? <span className="strip-cell ahead" style={{ flexGrow: ahead, ...(few ? { maxWidth: ahead * 27 } : {}) }} /> : null}
      </div>
      {mini ? null : <p className="strip-said small muted">{shown ? cellWords(shown) : label}</p>}
    </div>
  );
}

/** A failure among thousands must still be seen: never less than a fifth of the cell, and half of a small one. */
function Part({ kind, part, cell, least }: { kind: "failed" | "other"; part: number; cell: StripCell; least: number }) {
  if (part === 0) return null;
  const all = Math.max(1, cell.succeeded + cell.failed + cell.other);
  return <i className={kind} style={{ height: `${Math.max(least, (part / all) * 100)}%` }} />;
}

function cellWords(cell: StripCell): string {
  const which = cell.from === cell.to ? `turn ${count(cell.from)}` : `turns ${count(cell.from)} to ${count(cell.to)}`;
  const parts = [cell.succeeded ? `${count(cell.succeeded)} succeeded` : "", cell.failed ? `${count(cell.failed)} failed` : "", cell.other ? `${count(cell.other)} cut off, not kept or not ended` : ""];
  return `${which}: ${parts.filter(Boolean).join(", ") || "none kept"}`;
}
