// The audit log.

import { useCallback, useEffect, useState } from "react";
import { api, asProblem, type AuditEntry, type Json, type Problem } from "../api";
import { Button, Empty, Loading, PageHead, ProblemBox, Search } from "../components/common";
import { JsonBox } from "../components/json";
import { auditRows, describeAction, pageBefore } from "../lib/audit";
import { count, moment, stamp } from "../lib/format";

const PAGE_SIZE = 200;

export default function Audit() {
  const [entries, setEntries] = useState<AuditEntry[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState<number | null>(null);
  const [busy, setBusy] = useState(false);

  const loadNewest = useCallback(async () => {
    setBusy(true);
    try {
      // Fetch the number of the newest entry first: pages are counted from the oldest.
      const { last } = await api.audit({ limit: 1 });
      const page = await api.audit({ after: pageBefore(last + 1, PAGE_SIZE), limit: PAGE_SIZE });
      setEntries(page.items);
      setProblem(null);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  }, []);
  useEffect(() => void loadNewest(), [loadNewest]);

  const oldest = entries?.reduce((least, entry) => Math.min(least, entry.n), Number.MAX_SAFE_INTEGER) ?? 0;
  const loadOlder = async () => {
    setBusy(true);
    try {
      const after = pageBefore(oldest, PAGE_SIZE);
      const page = await api.audit({ after, limit: oldest - 1 - after });
      setEntries((old) => [...page.items, ...(old ?? [])]);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const needle = search.trim().toLowerCase();
  const shown = auditRows(entries ?? []).filter((row) => needle === "" || `${describeAction(row)} ${row.actor?.name ?? ""} ${row.outcome ?? ""}`.toLowerCase().includes(needle));
  return (
    <div className="page">
      <PageHead title="Audit log" note="Changes and rejected requests, newest first">
        <Button icon="retry" disabled={busy} onClick={() => void loadNewest()}>Refresh</Button>
      </PageHead>
      <div className="filters">
        <Search value={search} onChange={setSearch} placeholder="Actor or action" />
        {entries ? <span className="muted small number">{shown.length === entries.length ? `${count(entries.length)} entries` : `${count(shown.length)} of ${count(entries.length)} entries`}</span> : null}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={() => void loadNewest()} /> : null}
      {entries === null ? (
        problem ? null : <Loading lines={6} />
      ) : shown.length === 0 ? (
        <Empty title={needle ? "No matching entries" : "No entries yet"} />
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Number</th><th>Time</th><th>Actor</th><th>Action</th><th>Outcome</th><th className="wide-only">Source</th></tr></thead>
            <tbody>
              {shown.flatMap((row) => [
                <tr key={row.n}>
                  <td className="number faint wide-only">{count(row.n)}</td>
                  <td data-label="Time" className="muted nowrap number" title={stamp(row.at)}>{moment(row.at)}</td>
                  <td data-label="Actor" className="wrap">{row.actor?.name ?? (row.event ? "–" : "unknown")}</td>
                  <td className="wrap"><button type="button" className="more-link flat mono small" aria-expanded={open === row.n} onClick={() => setOpen(open === row.n ? null : row.n)}>{describeAction(row)}</button></td>
                  <td data-label="Outcome" className="nowrap">{row.event ? "–" : <Outcome status={row.outcome} />}</td>
                  <td className="muted mono small wide-only">{row.from ?? "–"}</td>
                </tr>,
                open === row.n ? (
                  <tr key={`${row.n} open`}><td colSpan={6}><JsonBox value={row as unknown as Json} open={2} /></td></tr>
                ) : null,
              ])}
            </tbody>
          </table>
        </div>
      )}
      {entries && oldest > 1 ? <div><Button disabled={busy} onClick={() => void loadOlder()}>Older entries</Button></div> : null}
    </div>
  );
}

function Outcome({ status }: { status: number | null }) {
  if (status === null || status < 400) return <span className="status tone-good">succeeded</span>;
  return <span className={`status ${status < 500 ? "tone-warn" : "tone-bad"}`}>{status < 500 ? "rejected" : "failed"} {status}</span>;
}
