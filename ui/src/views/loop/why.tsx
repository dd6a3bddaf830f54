// Why turns failed: many failures are few kinds, and the kinds are what somebody can mend.

import { api } from "../../api";
import { useLoad } from "../../api/use";
import { count, many } from "../../lib/format";
import { kindsOf } from "../../lib/failures";
import { Link, to } from "../../lib/router";
import { Mark } from "../../parts/icons";

/** Failed turns that are looked at. */
const LOOKED_AT = 1000;
const SHOWN = 5;

/** `failed`: how many there are; each thousandth more of a loop that goes on is looked at again. */
export function WhyFailed({ id, path, failed }: { id: string; path: string; failed: number }) {
  const key = failed > 0 ? `why ${id} ${path} ${failed < LOOKED_AT ? failed : "many"}` : null;
  const turns = useLoad(key, (signal) => api.turns(id, { loop: path, failed: true, limit: LOOKED_AT }, signal));
  const failures = (turns.value?.turns ?? []).filter((turn) => turn.status !== "cancelled");
  if (failures.length === 0) return null;
  const kinds = kindsOf(failures);
  const shown = kinds.slice(0, SHOWN);
  const whole = turns.value?.next === null || turns.value?.next === undefined;
  return (
    <section className="why" aria-label="Why turns failed">
      <ul>
        {shown.map((kind) => (
          <li key={kind.key}>
            <Mark status="failed" size={14} />
            <span className="number strong nowrap">{count(kind.turns)} ×</span>
            <Link to={to(["runs", id, "loop"], { path, failed: true, turn: kind.first })} className="cut" title={kind.message}>
              <span className="mono small">{kind.code}</span> {kind.message}
            </Link>
            <span className="muted small number nowrap wide-only">
              {kind.turns === 1 ? `turn ${count(kind.first)}` : `turns ${count(kind.first)} … ${count(kind.last)}`}
            </span>
          </li>
        ))}
      </ul>
      {kinds.length > SHOWN || !whole ? (
        <p className="muted small">
          {[kinds.length > SHOWN ? `${many(kinds.length - SHOWN, "more kind")} of failure` : "", whole ? "" : `of the first ${count(failures.length)} failed turns`].filter(Boolean).join(" · ")}
        </p>
      ) : null}
    </section>
  );
}
