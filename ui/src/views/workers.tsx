import { useState } from "react";
import { api, type Worker } from "../api";
import { useInterval, useLoad } from "../api/hooks";
import { ActionDialog, Ago, Button, Empty, Loading, PageHead, ProblemBox } from "../components/common";
import { count, humanize, plural } from "../lib/format";
import { Link, to } from "../lib/router";
import { tone } from "../lib/status";

export default function Workers() {
  const list = useLoad("workers", (signal) => api.workers(signal));
  useInterval(3000, list.reload);
  const queued = list.value?.queued ?? [];
  return (
    <div className="page">
      <PageHead title="Workers" note="Remote workers that execute tasks for this server" />
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {queued.length > 0 ? (
        <section className="warn-note stack tight">
          <strong>Waiting for a worker</strong>
          <ul>
            {queued.map((one, at) => (
              <li key={at}>{plural(one.jobs, "job")} for <code>{one.tool}</code>{labels(one.labels).length > 0 ? <> with {labels(one.labels).map((label) => <span key={label} className="tag">{label}</span>)}</> : null}{one.oldest_at ? <> · oldest since <Ago at={one.oldest_at} /></> : null}</li>
            ))}
          </ul>
        </section>
      ) : null}
      {list.value === null ? (
        list.problem ? null : <Loading />
      ) : list.value.items.length === 0 ? (
        <Empty title="No workers">
          <p>The server executes the tasks it is allowed to run. To add a worker, run <code>windlass worker --server …</code> on another machine.</p>
        </Empty>
      ) : (
        list.value.items.map((one) => <WorkerPanel key={one.worker} worker={one} onChanged={list.reload} />)
      )}
    </div>
  );
}

export function labels(given: Record<string, string> | string[] | undefined): string[] {
  if (!given) return [];
  return Array.isArray(given) ? given : Object.entries(given).map(([key, value]) => `${key}=${value}`);
}

function WorkerPanel({ worker, onChanged }: { worker: Worker; onChanged(): void }) {
  const [draining, setDraining] = useState(false);
  const leases = worker.leases ?? [];
  const shown = worker.state === "active" ? "good" : tone(worker.state);
  return (
    <section className="panel" aria-label={`Worker ${worker.name || worker.worker}`}>
      <header className="wraps">
        <div className="row wraps">
          <h2 className="wrap">{worker.name || worker.worker}</h2>
          <span className={`status tone-${shown}`}>{humanize(worker.state)}</span>
          {worker.tools.map((tool) => <span key={tool} className="tag">{tool}</span>)}
          {labels(worker.labels).map((label) => <span key={label} className="tag outline">{label}</span>)}
          {worker.only_labelled ? <span className="small muted">labelled tasks only</span> : null}
        </div>
        <div className="row wraps">
          <span className="muted small">{count(leases.length)} of {count(worker.slots)} slots · last seen <Ago at={worker.seen_at} />{worker.token ? ` · token ${worker.token}` : ""}</span>
          {worker.state === "active" ? <Button className="small" onClick={() => setDraining(true)}>Drain</Button> : null}
        </div>
      </header>
      {draining ? (
        <ActionDialog
          title={`Drain ${worker.name || worker.worker}?`}
          confirm="Drain"
          onClose={() => setDraining(false)}
          action={async () => {
            await api.drain(worker.worker);
            onChanged();
          }}
        >
          <p className="muted">It leases no more tasks, finishes its current ones and exits. No work is lost. To use it again, restart it on its machine.</p>
        </ActionDialog>
      ) : null}
      {leases.length === 0 ? (
        <p className="panel-body muted">No leases.</p>
      ) : (
        <div className="table-wrap">
          <table className="table">
            <thead><tr><th>Task</th><th>Tool</th><th>Run</th><th>Since</th><th>Lease expires</th></tr></thead>
            <tbody>
              {leases.map((job) => (
                <tr key={`${job.run} ${job.job}`}>
                  <td className="mono small wrap">{job.path}</td>
                  <td>{job.tool}</td>
                  <td className="mono small"><Link to={to(["runs", job.run], { step: job.path })}>{job.run}</Link></td>
                  <td className="muted nowrap"><Ago at={job.since} /></td>
                  <td className="muted nowrap">{job.expires_at ? <Ago at={job.expires_at} /> : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
