import { useState } from "react";
import { api, type Worker } from "../api";
import { useEvery, useLoad } from "../api/use";
import { count, many, words } from "../lib/format";
import { Link, to } from "../lib/router";
import { tone } from "../lib/status";
import { Ago, Button, DeedDialog, Empty, PageHead, ProblemBox, Waiting } from "../parts/small";

export default function Workers() {
  const list = useLoad("workers", (signal) => api.workers(signal));
  useEvery(3000, list.reload);
  const queued = list.value?.queued ?? [];
  return (
    <div className="page">
      <PageHead title="Workers" note="Machines that do tasks for this server" />
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {queued.length > 0 ? (
        <section className="warn-note stack tight">
          <strong>Waiting for a worker</strong>
          <ul>
            {queued.map((one, at) => (
              <li key={at}>{many(one.jobs, "job")} for <code>{one.tool}</code>{labels(one.labels).length > 0 ? <> with {labels(one.labels).map((label) => <span key={label} className="tag">{label}</span>)}</> : null}{one.oldest_at ? <> · the oldest since <Ago at={one.oldest_at} /></> : null}</li>
            ))}
          </ul>
        </section>
      ) : null}
      {list.value === null ? (
        list.problem ? null : <Waiting />
      ) : list.value.items.length === 0 ? (
        <Empty title="No workers">
          <p>The server does what it is allowed to do itself. <code>windlass worker --server …</code> on another machine adds one.</p>
        </Empty>
      ) : (
        list.value.items.map((one) => <WorkerBox key={one.worker} worker={one} onChanged={list.reload} />)
      )}
    </div>
  );
}

export function labels(given: Record<string, string> | string[] | undefined): string[] {
  if (!given) return [];
  return Array.isArray(given) ? given : Object.entries(given).map(([key, value]) => `${key}=${value}`);
}

function WorkerBox({ worker, onChanged }: { worker: Worker; onChanged(): void }) {
  const [draining, setDraining] = useState(false);
  const held = worker.held ?? [];
  const shown = worker.state === "active" ? "good" : tone(worker.state);
  return (
    <section className="panel" aria-label={`Worker ${worker.name || worker.worker}`}>
      <header className="wraps">
        <div className="row wraps">
          <h2 className="wrap">{worker.name || worker.worker}</h2>
          <span className={`status tone-${shown}`}>{words(worker.state)}</span>
          {worker.tools.map((tool) => <span key={tool} className="tag">{tool}</span>)}
          {labels(worker.labels).map((label) => <span key={label} className="tag outline">{label}</span>)}
          {worker.only_labelled ? <span className="small muted">only tasks with labels</span> : null}
        </div>
        <div className="row wraps">
          <span className="muted small">{count(held.length)} of {count(worker.slots)} slots · seen <Ago at={worker.seen_at} />{worker.token ? ` · token ${worker.token}` : ""}</span>
          {worker.state === "active" ? <Button className="small" onClick={() => setDraining(true)}>Drain</Button> : null}
        </div>
      </header>
      {draining ? (
        <DeedDialog
          title={`Drain ${worker.name || worker.worker}?`}
          verb="Drain it"
          onClose={() => setDraining(false)}
          deed={async () => {
            await api.drain(worker.worker);
            onChanged();
          }}
        >
          <p className="muted">It takes no more tasks, does what it has, and ends. Nothing is lost. To have it again, start it again on its machine.</p>
        </DeedDialog>
      ) : null}
      {held.length === 0 ? (
        <p className="panel-body muted">Holds nothing now.</p>
      ) : (
        <div className="table-wrap">
          <table className="table">
            <thead><tr><th>Task</th><th>Tool</th><th>Run</th><th>Since</th><th>Lease until</th></tr></thead>
            <tbody>
              {held.map((job) => (
                <tr key={`${job.run} ${job.job}`}>
                  <td className="mono small wrap">{job.path}</td>
                  <td>{job.tool}</td>
                  <td className="mono small"><Link to={to(["runs", job.run], { step: job.path })}>{job.run}</Link></td>
                  <td className="muted nowrap"><Ago at={job.since} /></td>
                  <td className="muted nowrap">{job.until ? <Ago at={job.until} /> : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
