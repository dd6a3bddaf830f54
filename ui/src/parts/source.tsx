// A definition's text with its lines counted, and what is wrong where it is wrong.

import { Fragment, useEffect, useMemo, useRef } from "react";
import { language, pieces, spotted } from "../lib/highlight";

/** Lines and columns count from 1. */
export interface Remark {
  line: number;
  column: number;
  end_line?: number;
  end_column?: number;
  message: string;
  hint?: string | null;
  code?: string;
  severity?: "error" | "warning";
}

export function Source({ text, remarks = [], height }: { text: string; remarks?: Remark[]; height?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => text.split(/\r?\n/), [text]);
  const kind = useMemo(() => language(text), [text]);
  const first = remarks[0]?.line;
  useEffect(() => {
    if (first === undefined) return;
    const line = box.current?.querySelector<HTMLElement>(`[data-line="${first}"]`);
    if (line && box.current) box.current.scrollTop = Math.max(0, line.offsetTop - box.current.clientHeight / 3);
  }, [first, text]);
  return (
    <div className="code-view" ref={box} tabIndex={0} style={height ? { maxHeight: height } : undefined}>
      <ol>
        {lines.map((line, at) => {
          const here = remarks.filter((remark) => remark.line === at + 1);
          return <Line key={at} number={at + 1} text={line} kind={kind} remarks={here} />;
        })}
      </ol>
    </div>
  );
}

function Line({ number, text, kind, remarks }: { number: number; text: string; kind: "json" | "yaml"; remarks: Remark[] }) {
  const first = remarks[0];
  const plain = pieces(text, kind);
  const ends = first ? endOf(first, text) : 0;
  const shown = first ? spotted(plain, first.column - 1, ends) : plain.map((piece) => ({ ...piece, spot: false }));
  const looks = first ? `marked ${first.severity ?? "error"}` : undefined;
  return (
    <li className={looks} data-line={number}>
      <span className="at">{number}</span>
      <span className="code">
        {shown.map((piece, at) => (
          <span key={at} className={[piece.kind, piece.spot ? "spot" : ""].join(" ").trim() || undefined}>
            {piece.text}
          </span>
        ))}
        {text === "" ? " " : ""}
      </span>
      {remarks.map((remark, at) => (
        <Fragment key={at}>
          <span className="said">
            {" ".repeat(Math.max(0, remark.column - 1))}
            {"^".repeat(Math.max(1, endOf(remark, text) - remark.column + 1))} {remark.code ? `${remark.code}: ` : ""}
            {remark.message}
            {remark.hint ? <span className="help">{`\n${" ".repeat(Math.max(0, remark.column - 1))}→ ${remark.hint}`}</span> : null}
          </span>
        </Fragment>
      ))}
    </li>
  );
}

/** Where the caret line ends: the mark's end if it is on this line, else the line's. */
function endOf(remark: Remark, text: string): number {
  const sameLine = remark.end_line === undefined || remark.end_line === remark.line;
  const end = sameLine && remark.end_column ? remark.end_column - 1 : Array.from(text).length;
  return Math.max(remark.column, end);
}
