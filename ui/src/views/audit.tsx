// What was changed, by whom.

import { useCallback, useEffect, useState } from "react";
import { api, asProblem, type AuditLine, type Json, type Problem } from "../api";
import { deed, pageBefore, told } from "../lib/audit";
import { count, moment, stamp } from "../lib/format";
import { JsonBox } from "../parts/json";
import { Button, Empty, PageHead, ProblemBox, Search, Waiting } from "../parts/small";

const PAGE = 200;

export default function Audit() {
  const [lines, setLines] = useState<AuditLine[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [search, setSearch] = useState("");
  const [open, setOpen] = useState<number | null>(null);
  const [busy, setBusy] = useState(false);

  const newest = useCallback(async () => {
    setBusy(true);
    try {
      // The number of the newest line first: pages are counted from the oldest.
      const { last } = await api.audit({ limit: 1 });
      const page = await api.audit({ after: pageBefore(last + 1, PAGE), limit: PAGE });
      setLines(page.items);
      setProblem(null);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  }, []);
  useEffect(() => void newest(), [newest]);

  const oldest = lines?.reduce((least, line) => Math.min(least, line.n), Number.MAX_SAFE_INTEGER) ?? 0;
  const older = async () => {
    setBusy(true);
    try {
      const after = pageBefore(oldest, PAGE);
      const page = await api.audit({ after, limit: oldest - 1 - after });
      setLines((old) => [...page.items, ...(old ?? [])]);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const wanted = search.trim().toLowerCase();
  const shown = told(lines ?? []).filter((line) => wanted === "" || `${deed(line)} ${line.who?.name ?? ""} ${line.outcome ?? ""}`.toLowerCase().includes(wanted));
  return (
    <div className="page">
      <PageHead title="Audit log" note="What was changed or refused, by whom, newest first">
        <Button icon="retry" disabled={busy} onClick={() => void newest()}>Newest</Button>
      </PageHead>
      <div className="filters">
        <Search value={search} onChange={setSearch} placeholder="Who or what, in these lines" />
        {lines ? <span className="muted small number">{shown.length === lines.length ? `${count(lines.length)} lines` : `${count(shown.length)} of ${count(lines.length)} lines`}</span> : null}
      </div>
      {problem ? <ProblemBox problem={problem} onRetry={() => void newest()} /> : null}
      {lines === null ? (
        problem ? null : <Waiting lines={6} />
      ) : shown.length === 0 ? (
        <Empty title={wanted ? "No such line here" : "Nothing was changed yet"} />
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Number</th><th>When</th><th>Who</th><th>What</th><th>How it ended</th><th className="wide-only">From</th></tr></thead>
            <tbody>
              {shown.flatMap((line) => [
                <tr key={line.n}>
                  <td className="number faint wide-only">{count(line.n)}</td>
                  <td data-label="When" className="muted nowrap number" title={stamp(line.at)}>{moment(line.at)}</td>
                  <td data-label="Who" className="wrap">{line.who?.name ?? (line.event ? "–" : "nobody known")}</td>
                  <td className="wrap"><button type="button" className="more-link flat mono small" aria-expanded={open === line.n} onClick={() => setOpen(open === line.n ? null : line.n)}>{deed(line)}</button></td>
                  <td data-label="Ended" className="nowrap">{line.event ? "–" : <Outcome status={line.outcome} />}</td>
                  <td className="muted mono small wide-only">{line.from ?? "–"}</td>
                </tr>,
                open === line.n ? (
                  <tr key={`${line.n} open`}><td colSpan={6}><JsonBox value={line as unknown as Json} open={2} /></td></tr>
                ) : null,
              ])}
            </tbody>
          </table>
        </div>
      )}
      {lines && oldest > 1 ? <div><Button disabled={busy} onClick={() => void older()}>Older lines</Button></div> : null}
    </div>
  );
}

function Outcome({ status }: { status: number | null }) {
  if (status === null || status < 400) return <span className="status tone-good">done</span>;
  return <span className={`status ${status < 500 ? "tone-warn" : "tone-bad"}`}>{status < 500 ? "refused" : "failed"} {status}</span>;
}
