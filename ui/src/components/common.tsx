// Basic components shared by all views.

import { useEffect, useRef, useState, type ButtonHTMLAttributes, type ReactNode } from "react";
import { asProblem, type Problem } from "../api/client";
import type { DefinitionProblem, FieldProblem } from "../api/types";
import { ago, duration, humanize, stamp } from "../lib/format";
import { useNow } from "../lib/now";
import { hasEnded, tone } from "../lib/status";
import { Icon, Mark, type IconName } from "./icons";

/** A status as an icon and a label; colour is never the only signal. */
export function Status({ status, word = true }: { status: string; word?: boolean }) {
  return (
    <span className={`status tone-${tone(status)}`} title={word ? undefined : humanize(status)}>
      <Mark status={status} />
      <span className={word ? "" : "visually-hidden"}>{humanize(status)}</span>
    </span>
  );
}

export function Pill({ status }: { status: string }) {
  return (
    <span className={`pill tone-${tone(status)}`}>
      <Mark status={status} />
      {humanize(status)}
    </span>
  );
}

export function Ago({ at }: { at: string | null | undefined }) {
  const now = useNow();
  return (
    <time dateTime={at ?? undefined} title={stamp(at)}>
      {ago(at, now)}
    </time>
  );
}

/** The duration, updated every second until the status is final. */
export function Elapsed({ status, startedAt, ms }: { status: string; startedAt: string | null | undefined; ms: number | null | undefined }) {
  const now = useNow();
  const open = !hasEnded(status) && startedAt;
  return <span className="number">{duration(open ? Math.max(ms ?? 0, now - Date.parse(startedAt)) : ms)}</span>;
}

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  icon?: IconName;
  variant?: "plain" | "primary" | "danger" | "quiet";
};

export function Button({ icon, variant = "plain", className = "", children, type = "button", ...rest }: ButtonProps) {
  return (
    <button type={type} className={`button ${variant} ${children ? "" : "only-icon"} ${className}`} {...rest}>
      {icon ? <Icon name={icon} /> : null}
      {children}
    </button>
  );
}

export function Copy({ text, label = "Copy" }: { text: string | (() => string); label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1200);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => {
    const value = typeof text === "string" ? text : text();
    void copyText(value).then(setDone);
  };
  return (
    <button type="button" className="copy" onClick={copy} title={label} aria-label={label}>
      <Icon name={done ? "check" : "copy"} size={14} />
    </button>
  );
}

async function copyText(value: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(value);
    return true;
  } catch {
    // The clipboard API needs a secure context; fall back to execCommand.
    const area = document.createElement("textarea");
    area.value = value;
    area.className = "visually-hidden";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

export function isDefinitionProblem(problem: DefinitionProblem | FieldProblem): problem is DefinitionProblem {
  return "line" in problem;
}

/** An error with its details and the hint how to fix it. */
/** Links the page of an error code, such as `WND-2001`. */
export function ErrorPageLink({ code }: { code?: string | null | undefined }) {
  return code ? <a className="mono" href={`/errors/${encodeURIComponent(code)}`} target="_blank" rel="noreferrer">{code}</a> : null;
}

export function ProblemBox({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return (
    <div className="problem" role="alert">
      <Mark status="failed" />
      <div className="problem-text">
        <strong>{problem.detail || problem.message}</strong>
        {problem.where ? <p className="mono small">{problem.where}</p> : null}
        {problem.problems.map((one, at) => (
          <p key={at}>
            {isDefinitionProblem(one) ? <span className="mono small">{`${one.line}:${one.column} `}</span> : <span className="mono small">{one.pointer || "/"} </span>}
            {one.message}
          </p>
        ))}
        {problem.hint ? <p className="hint">{problem.hint}</p> : null}
        {problem.code || problem.status ? (
          <p className="faint small mono"><ErrorPageLink code={problem.code} /> {[problem.detail ? problem.message : "", problem.status || ""].filter(Boolean).join(" · ")}</p>
        ) : null}
      </div>
      {onRetry ? (
        <Button onClick={onRetry} icon="retry">
          Try again
        </Button>
      ) : null}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Loading({ lines = 3 }: { lines?: number }) {
  return (
    <div className="skeleton" aria-label="Loading" role="status">
      {Array.from({ length: lines }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

interface DialogProps {
  title: string;
  onClose(): void;
  children: ReactNode;
  wide?: boolean;
}

/** A native modal dialog: the browser traps the focus and restores it on close. */
export function Dialog({ title, onClose, children, wide = false }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (dialog && !dialog.open) dialog.showModal();
    dialog?.querySelector<HTMLElement>("select, input, textarea")?.focus();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      className={wide ? "dialog wide" : "dialog"}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div className="dialog-in">
        <header>
          <h2>{title}</h2>
          <Button variant="quiet" icon="close" onClick={onClose} aria-label="Close" />
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function Field({ label, hint, problem, children }: { label: string; hint?: ReactNode; problem?: string | null; children: ReactNode }) {
  return (
    <label className={problem ? "field wrong" : "field"}>
      <span className="field-label">{label}</span>
      {children}
      {problem ? <span className="field-problem">{problem}</span> : hint ? <span className="field-hint">{hint}</span> : null}
    </label>
  );
}

interface TabsProps {
  label: string;
  tabs: { id: string; title: ReactNode }[];
  current: string;
  onChoose(id: string): void;
}

export function Tabs({ label, tabs, current, onChoose }: TabsProps) {
  const bar = useRef<HTMLDivElement>(null);
  // Scroll the selected tab into view if the tabs overflow.
  useEffect(() => {
    const [box, chosen] = [bar.current, bar.current?.querySelector<HTMLElement>('[aria-selected="true"]')];
    if (!box || !chosen) return;
    const left = chosen.offsetLeft - box.offsetLeft;
    if (left < box.scrollLeft || left + chosen.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = left - (box.clientWidth - chosen.offsetWidth) / 2;
  }, [current]);
  const move = (by: number) => {
    const at = tabs.findIndex((tab) => tab.id === current);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    onChoose(next.id);
    bar.current?.querySelector<HTMLElement>(`[data-tab="${CSS.escape(next.id)}"]`)?.focus();
  };
  return (
    <div
      ref={bar}
      className="tabs"
      role="tablist"
      aria-label={label}
      onKeyDown={(event) => {
        const at = tabs.findIndex((tab) => tab.id === current);
        if (event.key === "ArrowRight") move(1);
        else if (event.key === "ArrowLeft") move(-1);
        else if (event.key === "Home") move(-at);
        else if (event.key === "End") move(tabs.length - 1 - at);
        else return;
        event.preventDefault();
      }}
    >
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          id={`tab-${tab.id}`}
          data-tab={tab.id}
          aria-selected={tab.id === current}
          tabIndex={tab.id === current ? 0 : -1}
          onClick={() => onChoose(tab.id)}
        >
          {tab.title}
        </button>
      ))}
    </div>
  );
}

export function PageHead({ title, children, note }: { title: ReactNode; children?: ReactNode; note?: ReactNode }) {
  return (
    <header className="page-head">
      <div>
        <h1>{title}</h1>
        {note ? <p className="muted">{note}</p> : null}
      </div>
      {children ? <div className="page-actions">{children}</div> : null}
    </header>
  );
}

export function Search({ value, onChange, placeholder, id = "search" }: { value: string; onChange(value: string): void; placeholder: string; id?: string }) {
  return (
    <label className="search">
      <Icon name="search" />
      <span className="visually-hidden">{placeholder}</span>
      <input
        id={id}
        type="search"
        value={value}
        placeholder={placeholder}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
      />
      <kbd>/</kbd>
    </label>
  );
}

interface ActionDialogProps {
  title: string;
  confirm: string;
  danger?: boolean;
  children: ReactNode;
  onClose(): void;
  /** The dialog closes when the action succeeds and shows the error when it fails. */
  action(): Promise<void>;
}

/** A dialog that asks for confirmation or input before an action. */
export function ActionDialog({ title, confirm, danger = false, children, onClose, action }: ActionDialogProps) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          setBusy(true);
          setProblem(null);
          action().then(onClose, (error: unknown) => {
            setProblem(asProblem(error));
            setBusy(false);
          });
        }}
      >
        {children}
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer>
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" variant={danger ? "danger" : "primary"} disabled={busy}>
            {confirm}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
