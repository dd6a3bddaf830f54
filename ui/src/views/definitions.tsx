import { useEffect, useState } from "react";
import { api } from "../api";
import { useInterval, useLoad } from "../api/hooks";
import { Ago, Button, Empty, Loading, PageHead, ProblemBox, Search } from "../components/common";
import { Mark } from "../components/icons";
import { plural } from "../lib/format";
import { Link, navigate, to } from "../lib/router";

export default function Definitions() {
  const [typed, setTyped] = useState("");
  const [search, setSearch] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setSearch(typed), 200);
    return () => clearTimeout(timer);
  }, [typed]);
  const list = useLoad(`definitions ${search}`, (signal) => api.definitions({ search, limit: 500 }, signal));
  // Definitions with problems come first.
  const items = [...(list.value?.items ?? [])].sort((one, other) => Number((other.problems ?? []).length > 0) - Number((one.problems ?? []).length > 0));
  // `windlass dev` registers files when they change on disk.
  useInterval(5000, list.reload);
  return (
    <div className="page">
      <PageHead title="Definitions">
        <Button icon="check" onClick={() => navigate("/check")}>
          Check or register
        </Button>
      </PageHead>
      <div className="filters">
        <Search value={typed} onChange={setTyped} placeholder="Name" />
      </div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Loading lines={5} />
      ) : list.value.items.length === 0 ? (
        <Empty title={search ? "No matching definitions" : "No definitions yet"}>
          {search ? null : (
            <p>
              <Link to="/check">Register one here</Link>, or watch a folder with <code>windlass dev</code>.
            </p>
          )}
        </Empty>
      ) : (
        <div className="panel table-wrap">
          <table className="table">
            <thead>
              <tr><th>Name</th><th className="wide-only">Dialect</th><th className="wide-only">Triggers</th><th>Registered</th><th><span className="visually-hidden">Runs</span></th></tr>
            </thead>
            <tbody>
              {items.map((one) => (
                <tr key={one.name}>
                  <td className="wrap">
                    <Link to={to(["definitions", one.name])} className="strong">{one.name}</Link> {one.version > 0 ? <span className="faint nowrap">v{one.version}</span> : null}
                    {one.problems && one.problems.length > 0 ? (
                      <Link to={to(["definitions", one.name])} className="status tone-bad small problem-flag"><Mark status="failed" size={13} /> {plural(one.problems.length, "problem")} on disk</Link>
                    ) : null}
                    {one.enabled || one.version === 0 ? null : <span className="tag">triggers disabled</span>}
                  </td>
                  <td className="wide-only">{one.dialect ? <span className="tag">{one.dialect}</span> : "–"}</td>
                  <td className="muted wide-only">{one.triggers.length === 0 ? "–" : one.triggers.map((trigger) => `${trigger.name} (${trigger.kind})`).join(", ")}</td>
                  <td className="muted nowrap">{one.registered_at ? <Ago at={one.registered_at} /> : "not yet"}</td>
                  <td className="nowrap end"><Link to={to(["runs"], { definition: one.name })}>Runs</Link></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </div>
  );
}
