// What a run that goes on is doing, and what it waits for: the answer to "why does it not move?".

import type { ReactNode } from "react";
import type { Run, Tree } from "../../api";
import { count, many, words } from "../../lib/format";
import { Link, to } from "../../lib/router";
import { hasEnded } from "../../lib/status";
import { Icon } from "../../parts/icons";
import { Ago, Status, Took } from "../../parts/small";

const SHOWN = 4;

export interface Doing {
  path: string;
  status: string;
  kind: string;
  since: string | null;
  attempt: number;
  /** Of a loop between two turns: how many have ended. */
  turns: number | null;
}

/** What has nothing under way inside of itself: the ends of the tree. */
export function doing(trees: Tree[], dots = false, above = ""): Doing[] {
  return trees.flatMap((tree) => {
    const path = pathOf(above, tree, dots);
    const inside = doing(tree.children ?? [], dots, path);
    return inside.length > 0 ? inside : [{ path, status: tree.status, kind: tree.kind ?? "", since: tree.started_at ?? null, attempt: tree.attempt ?? 1, turns: tree.loop?.ended ?? null }];
  });
}

/** What stands in a turn of the loop above says which. */
function pathOf(above: string, { name, turn }: Tree, dots: boolean): string {
  const own = turn === undefined || turn === null ? "" : dots ? `.${turn}` : `[${turn}]`;
  return [`${above}${own}`, name].filter(Boolean).join(".");
}

export function Now({ run }: { run: Run }) {
  if (hasEnded(run.status)) return null;
  const waits = run.waits ?? [];
  const queued = run.waits_for_worker ?? [];
  const now = doing(run.current ?? [], run.dialect === "zenflow").filter((one) => one.path !== "" && !waits.some((wait) => wait.path === one.path || wait.name === one.path));
  return (
    <>
      {waits.length > 0 ? (
        <Line icon="bell">
          waits for{" "}
          {waits.slice(0, SHOWN).map((wait, at) => (
            <span key={at}>
              {at > 0 ? ", " : ""}
              <code>{wait.name || wait.kind || "something"}</code>
              {wait.path && wait.path !== wait.name ? <span className="faint"> at {wait.path}</span> : null}
              {wait.since ? <span className="muted"> since <Ago at={wait.since} /></span> : null}
              {wait.deadline ? <span className="warn-text"> · until <Ago at={wait.deadline} /></span> : null}
              {wait.form ? <> · <Link to={to(["approvals"], { run: run.run })}>answer it</Link></> : null}
            </span>
          ))}
          {waits.length > SHOWN ? ` and ${count(waits.length - SHOWN)} more` : ""}
        </Line>
      ) : null}
      {queued.length > 0 ? (
        <Line icon="workers">
          waits for a worker:{" "}
          {queued.slice(0, SHOWN).map((one, at) => (
            <span key={at}>
              {at > 0 ? ", " : ""}
              {many(one.jobs, "task")} for <code>{one.tool}</code>
              {Object.entries(one.labels ?? {}).map(([key, value]) => <span key={key}> with <code>{key}={value}</code></span>)}
              {one.oldest_at ? <span className="muted"> since <Ago at={one.oldest_at} /></span> : null}
            </span>
          ))}
          {" · "}
          <Link to="/workers">the workers there are</Link>
        </Line>
      ) : null}
      {now.length > 0 ? (
        <p className="doing small">
          <span className="muted">Now</span>
          {now.slice(0, SHOWN).map((one) => (
            <span key={one.path}>
              <Link to={to(["runs", run.run, "timeline"], { step: one.path })} className="mono">{one.path}</Link>{" "}
              <Status status={one.status} word={false} /> <span className="muted">{words(one.status)} {one.turns !== null ? `after ${many(one.turns, "turn")}` : one.since ? <Took status="running" startedAt={one.since} ms={null} /> : null}{one.attempt > 1 ? `, try ${one.attempt}` : ""}</span>
            </span>
          ))}
          {now.length > SHOWN ? <span className="muted">and {count(now.length - SHOWN)} more</span> : null}
        </p>
      ) : null}
    </>
  );
}

function Line({ icon, children }: { icon: "bell" | "workers"; children: ReactNode }) {
  return (
    <div className="waits">
      <Icon name={icon} />
      <span>{children}</span>
    </div>
  );
}
