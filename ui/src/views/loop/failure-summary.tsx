// Summarizes failed iterations by kind of failure.

import { api } from "../../api";
import { useLoad } from "../../api/hooks";
import { Mark } from "../../components/icons";
import { groupFailures } from "../../lib/failures";
import { count, plural } from "../../lib/format";
import { Link, to } from "../../lib/router";

/** The maximum number of failed iterations to examine. */
const MAX_EXAMINED = 1000;
const MAX_KINDS = 5;

/** `failed`: the number of failed iterations. The summary reloads as it grows, up to `MAX_EXAMINED`. */
export function FailureSummary({ id, path, failed }: { id: string; path: string; failed: number }) {
  const key = failed > 0 ? `failures ${id} ${path} ${failed < MAX_EXAMINED ? failed : "many"}` : null;
  const page = useLoad(key, (signal) => api.iterations(id, { loop: path, failed: true, limit: MAX_EXAMINED }, signal));
  const failures = (page.value?.iterations ?? []).filter((record) => record.status !== "cancelled");
  if (failures.length === 0) return null;
  const kinds = groupFailures(failures);
  const shown = kinds.slice(0, MAX_KINDS);
  const complete = page.value?.next === null || page.value?.next === undefined;
  return (
    <section className="failure-summary" aria-label="Failure summary">
      <ul>
        {shown.map((kind) => (
          <li key={kind.key}>
            <Mark status="failed" size={14} />
            <span className="number strong nowrap">{count(kind.iterations)} ×</span>
            <Link to={to(["runs", id, "loop"], { path, failed: true, iteration: kind.first })} className="cut" title={kind.message}>
              <span className="mono small">{kind.code}</span> {kind.message}
            </Link>
            <span className="muted small number nowrap wide-only">
              {kind.iterations === 1 ? `iteration ${count(kind.first)}` : `iterations ${count(kind.first)} … ${count(kind.last)}`}
            </span>
          </li>
        ))}
      </ul>
      {kinds.length > MAX_KINDS || !complete ? (
        <p className="muted small">
          {[kinds.length > MAX_KINDS ? `${plural(kinds.length - MAX_KINDS, "more kind")} of failure` : "", complete ? "" : `of the first ${count(failures.length)} failed iterations`].filter(Boolean).join(" · ")}
        </p>
      ) : null}
    </section>
  );
}
