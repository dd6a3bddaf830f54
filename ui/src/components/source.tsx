// The source of a definition with line numbers and inline problem annotations.

import { Fragment, useEffect, useMemo, useRef } from "react";
import { language, markRange, tokenize } from "../lib/highlight";

/** A message at a source range. Lines and columns count from 1. */
export interface Annotation {
  line: number;
  column: number;
  end_line?: number;
  end_column?: number;
  message: string;
  hint?: string | null;
  code?: string;
  severity?: "error" | "warning";
}

export function Source({ text, annotations = [], height }: { text: string; annotations?: Annotation[]; height?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => text.split(/\r?\n/), [text]);
  const kind = useMemo(() => language(text), [text]);
  const first = annotations[0]?.line;
  useEffect(() => {
    if (first === undefined) return;
    const line = box.current?.querySelector<HTMLElement>(`[data-line="${first}"]`);
    if (line && box.current) box.current.scrollTop = Math.max(0, line.offsetTop - box.current.clientHeight / 3);
  }, [first, text]);
  return (
    <div className="code-view" ref={box} tabIndex={0} style={height ? { maxHeight: height } : undefined}>
      <ol>
        {lines.map((line, at) => {
          const here = annotations.filter((annotation) => annotation.line === at + 1);
          return <Line key={at} number={at + 1} text={line} kind={kind} annotations={here} />;
        })}
      </ol>
    </div>
  );
}

function Line({ number, text, kind, annotations }: { number: number; text: string; kind: "json" | "yaml"; annotations: Annotation[] }) {
  const first = annotations[0];
  const plain = tokenize(text, kind);
  const end = first ? endColumn(first, text) : 0;
  const shown = first ? markRange(plain, first.column - 1, end) : plain.map((token) => ({ ...token, marked: false }));
  const className = first ? `marked ${first.severity ?? "error"}` : undefined;
  return (
    <li className={className} data-line={number}>
      <span className="at">{number}</span>
      <span className="code">
        {shown.map((token, at) => (
          <span key={at} className={[token.kind, token.marked ? "highlight" : ""].join(" ").trim() || undefined}>
            {token.text}
          </span>
        ))}
        {text === "" ? " " : ""}
      </span>
      {annotations.map((annotation, at) => (
        <Fragment key={at}>
          <span className="annotation">
            {" ".repeat(Math.max(0, annotation.column - 1))}
            {"^".repeat(Math.max(1, endColumn(annotation, text) - annotation.column + 1))} {annotation.code ? `${annotation.code}: ` : ""}
            {annotation.message}
            {annotation.hint ? <span className="help">{`\n${" ".repeat(Math.max(0, annotation.column - 1))}→ ${annotation.hint}`}</span> : null}
          </span>
        </Fragment>
      ))}
    </li>
  );
}

/** The end column of the carets: the end of the range if it is on this line, else the end of the line. */
function endColumn(annotation: Annotation, text: string): number {
  const sameLine = annotation.end_line === undefined || annotation.end_line === annotation.line;
  const end = sameLine && annotation.end_column ? annotation.end_column - 1 : Array.from(text).length;
  return Math.max(annotation.column, end);
}
