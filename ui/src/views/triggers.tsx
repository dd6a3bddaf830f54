import { useState } from "react";
import { api, type Json } from "../api";
import { useEvery, useLoad } from "../api/use";
import { brief } from "../lib/format";
import { Link, to } from "../lib/router";
import { Ago, Empty, PageHead, ProblemBox, Search, Status, Waiting } from "../parts/small";
import { Address } from "./definition";

export default function Triggers() {
  const list = useLoad("triggers", (signal) => api.triggers(signal));
  const [search, setSearch] = useState("");
  useEvery(10_000, list.reload);
  const items = (list.value?.items ?? []).filter((one) => `${one.definition} ${one.trigger} ${one.kind}`.toLowerCase().includes(search.toLowerCase()));
  return (
    <div className="page">
      <PageHead title="Triggers" note="What starts runs by itself" />
      <div className="filters"><Search value={search} onChange={setSearch} placeholder="Definition, trigger or kind" /></div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Waiting />
      ) : items.length === 0 ? (
        <Empty title="No triggers">
          <p>Definitions that name a webhook, a schedule or a poll have them.</p>
        </Empty>
      ) : (
        <div className="panel table-wrap">
          <table className="table">
            <thead><tr><th>Definition</th><th>Trigger</th><th>Kind</th><th>State</th><th>Next</th><th>Last</th></tr></thead>
            <tbody>
              {items.map((one) => (
                <tr key={`${one.definition} ${one.trigger}`}>
                  <td className="wrap"><Link to={to(["definitions", one.definition, "triggers"])} className="strong">{one.definition}</Link> <span className="faint">v{one.version}</span></td>
                  <td className="wrap">
                    {one.trigger}
                    {one.url ? <Address url={one.url} /> : null}
                    {one.schedule ? <p className="mono small muted wrap">{typeof one.schedule === "string" ? one.schedule : brief(one.schedule, 200)}</p> : null}
                    {one.last_error ? <p className="bad-text small wrap">{errorText(one.last_error)}</p> : null}
                  </td>
                  <td><span className="tag">{one.kind}</span>{one.proof ? <p className="small muted">{one.proof === "nothing" ? "anybody may call it" : `by ${one.proof}`}</p> : null}{one.catch_up ? <p className="small muted">missed: {one.catch_up}</p> : null}</td>
                  <td>{one.last_error ? <Status status="failed" /> : one.enabled ? <span className="status tone-good">on</span> : <span className="status tone-calm">off</span>}</td>
                  <td className="muted nowrap">{one.next_at ? <Ago at={one.next_at} /> : "–"}</td>
                  <td className="muted nowrap">{one.last_at ? <Ago at={one.last_at} /> : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}

function errorText(error: Json): string {
  if (typeof error === "string") return error;
  if (error !== null && typeof error === "object" && !Array.isArray(error)) {
    const said = error["message"] ?? error["detail"];
    if (typeof said === "string") return said;
  }
  return brief(error, 300);
}
