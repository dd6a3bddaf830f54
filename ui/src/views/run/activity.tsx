// The current activity of a run: active steps, waits and queued tasks. It explains why a run makes no progress.

import type { ReactNode } from "react";
import type { ActiveNode, Run } from "../../api";
import { Ago, Elapsed, Status } from "../../components/common";
import { Icon } from "../../components/icons";
import { count, humanize, plural } from "../../lib/format";
import { Link, to } from "../../lib/router";
import { hasEnded } from "../../lib/status";

const MAX_SHOWN = 4;

export interface ActiveStep {
  path: string;
  status: string;
  kind: string;
  since: string | null;
  attempt: number;
  /** The time at which it continues by itself. */
  due: string | null;
  /** For a loop between two iterations: the number of ended iterations. */
  iterations: number | null;
}

/** Returns the leaves of the tree of active nodes. */
export function activeSteps(nodes: ActiveNode[], parent = ""): ActiveStep[] {
  return nodes.flatMap((node) => {
    const path = nodePath(parent, node);
    const inside = activeSteps(node.children ?? [], path);
    return inside.length > 0 ? inside : [{ path, status: node.status, kind: node.kind ?? "", since: node.started_at ?? null, attempt: node.attempt ?? 1, due: node.due_at ?? null, iterations: node.loop?.ended ?? null }];
  });
}

/** A node inside a loop carries the number of its iteration. */
function nodePath(parent: string, { name, iteration }: ActiveNode): string {
  const suffix = iteration === undefined || iteration === null ? "" : `[${iteration}]`;
  return [`${parent}${suffix}`, name].filter(Boolean).join(".");
}

export function RunActivity({ run }: { run: Run }) {
  if (hasEnded(run.status)) return null;
  const waits = run.waits ?? [];
  const queued = run.waits_for_worker ?? [];
  const active = activeSteps(run.current ?? []).filter((one) => one.path !== "" && !waits.some((wait) => wait.path === one.path || wait.name === one.path));
  return (
    <>
      {waits.length > 0 ? (
        <Line icon="bell">
          waits for{" "}
          {waits.slice(0, MAX_SHOWN).map((wait, at) => (
            <span key={at}>
              {at > 0 ? ", " : ""}
              <code>{wait.name || wait.kind || "event"}</code>
              {wait.path && wait.path !== wait.name ? <span className="faint"> at {wait.path}</span> : null}
              {wait.since ? <span className="muted"> since <Ago at={wait.since} /></span> : null}
              {wait.deadline ? <span className="warn-text"> · due <Ago at={wait.deadline} /></span> : null}
              {wait.form ? <> · <Link to={to(["approvals"], { run: run.run })}>answer</Link></> : null}
            </span>
          ))}
          {waits.length > MAX_SHOWN ? ` and ${count(waits.length - MAX_SHOWN)} more` : ""}
        </Line>
      ) : null}
      {queued.length > 0 ? (
        <Line icon="workers">
          waits for a worker:{" "}
          {queued.slice(0, MAX_SHOWN).map((one, at) => (
            <span key={at}>
              {at > 0 ? ", " : ""}
              {plural(one.jobs, "task")} for <code>{one.tool}</code>
              {Object.entries(one.labels ?? {}).map(([key, value]) => <span key={key}> with <code>{key}={value}</code></span>)}
              {one.oldest_at ? <span className="muted"> since <Ago at={one.oldest_at} /></span> : null}
            </span>
          ))}
          {" · "}
          <Link to="/workers">view workers</Link>
        </Line>
      ) : null}
      {active.length > 0 ? (
        <p className="activity small">
          <span className="muted">Active</span>
          {active.slice(0, MAX_SHOWN).map((one) => (
            <span key={one.path}>
              <Link to={to(["runs", run.run, "timeline"], { step: one.path })} className="mono">{one.path}</Link>{" "}
              <Status status={one.status} word={false} /> <span className="muted">{humanize(one.status)} {one.iterations !== null ? `after ${plural(one.iterations, "iteration")}` : one.since ? <Elapsed status="running" startedAt={one.since} ms={null} /> : null}{one.attempt > 1 ? `, attempt ${one.attempt}` : ""}{one.due ? <>, {dueText(one)} <Ago at={one.due} /></> : null}</span>
            </span>
          ))}
          {active.length > MAX_SHOWN ? <span className="muted">and {count(active.length - MAX_SHOWN)} more</span> : null}
        </p>
      ) : null}
    </>
  );
}

function dueText(step: ActiveStep): string {
  return step.status === "retrying" ? "retry" : step.iterations !== null ? "next iteration" : "due";
}

function Line({ icon, children }: { icon: "bell" | "workers"; children: ReactNode }) {
  return (
    <div className="waits">
      <Icon name={icon} />
      <span>{children}</span>
    </div>
  );
}
