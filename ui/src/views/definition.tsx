import { lazy, useEffect, useState } from "react";
import { api, asProblem, type Definition, type DefinitionProblem, type Json, type Problem } from "../api";
import { useInterval, useLoad } from "../api/hooks";
import { ActionDialog, Ago, Button, Copy, Empty, Loading, PageHead, ProblemBox, Tabs } from "../components/common";
import { Mark } from "../components/icons";
import { JsonBox } from "../components/json";
import { Source } from "../components/source";
import { brief } from "../lib/format";
import { Link, navigate, setQuery, to, useRoute } from "../lib/router";
import { StartRun } from "./start";

const PlanTab = lazy(() => import("./definition-graph"));

const TABS = [
  { id: "source", title: "Source" },
  { id: "graph", title: "Graph" },
  { id: "parameters", title: "Parameters" },
  { id: "triggers", title: "Triggers" },
  { id: "versions", title: "Versions" },
];

export default function DefinitionView({ name, tab: requested }: { name: string; tab: string }) {
  const tab = TABS.some((one) => one.id === requested) ? requested : "source";
  const { query } = useRoute();
  const version = query.get("version") ? Number(query.get("version")) : null;
  const definition = useLoad(`definition ${name} ${version ?? ""}`, (signal) => api.definition(name, version, signal));
  // With `windlass dev`, definitions are files; the list reports problems of files that cannot be registered.
  const listed = useLoad(`listed ${name}`, async (signal) => (await api.definitions({ search: name, limit: 100 }, signal)).items.find((one) => one.name === name) ?? null);
  useInterval(5000, listed.reload);
  const newest = listed.value?.version ?? 0;
  useEffect(() => {
    if (version === null && definition.value && newest > definition.value.version) definition.reload();
  }, [newest]); // eslint-disable-line
  const onDisk = listed.value?.problems ?? [];
  const [starting, setStarting] = useState(false);
  const [removing, setRemoving] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const value = definition.value;
  const choose = (next: string) => navigate(to(["definitions", name, next], { version }), true);
  if (!value) {
    return (
      <div className="page">
        <PageHead title={name} />
        {onDisk.length > 0 ? <OnDisk problems={onDisk} registered={false} /> : definition.problem ? <ProblemBox problem={definition.problem} onRetry={definition.reload} /> : <Loading lines={6} />}
        {definition.problem?.status === 404 && version === null ? <Versions name={name} current={0} quiet /> : null}
      </div>
    );
  }
  const toggleTriggers = () => {
    api.enable(name, !value.enabled).then(definition.reload, (error: unknown) => setProblem(asProblem(error)));
  };
  return (
    <div className="page fills">
      <PageHead
        title={<span className="wrap">{value.name} <span className="version">v{value.version}</span></span>}
        note={
          <span className="run-facts">
            <span className="tag">{value.dialect}</span>
            <span>registered <Ago at={value.registered_at} />{value.by ? ` by ${value.by}` : ""}</span>
            <span><code>{value.hash.slice(0, 16)}</code><Copy text={value.hash} label="Copy hash" /></span>
            {Object.entries(value.labels ?? {}).map(([key, one]) => <span key={key} className="tag">{key}: {one}</span>)}
            {version !== null && !value.removed_at ? <Link to={to(["definitions", name, tab])}>latest version</Link> : null}
          </span>
        }
      >
        <Link className="button" to={to(["runs"], { definition: name })}>Runs</Link>
        <Link className="button" to={to(["check"], { from: name, version })}>Edit</Link>
        {value.removed_at ? null : (
          <>
            <Button icon="trash" variant="danger" onClick={() => setRemoving(true)}>Remove</Button>
            <Button variant="primary" icon="play" onClick={() => setStarting(true)}>Start a run</Button>
          </>
        )}
      </PageHead>
      {value.removed_at ? <p className="warn-note">Removed <Ago at={value.removed_at} />. It can no longer be started; existing runs keep this version. To start it, <Link to={to(["check"], { from: name, version: value.version })}>register it again</Link>.</p> : null}
      {problem ? <ProblemBox problem={problem} /> : null}
      {onDisk.length > 0 ? <OnDisk problems={onDisk} registered /> : null}
      <Tabs label="Definition" tabs={TABS} current={tab} onChoose={choose} />
      <div className="run-tab definition-tab" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "graph" ? (
          <PlanTab name={name} version={version} />
        ) : tab === "parameters" ? (
          <Parameters definition={value} />
        ) : tab === "triggers" ? (
          <Triggers definition={value} onToggle={toggleTriggers} />
        ) : tab === "versions" ? (
          <Versions name={name} current={value.version} />
        ) : (
          <Source text={value.source} />
        )}
      </div>
      {removing ? (
        <ActionDialog
          title={`Remove ${value.name}?`}
          confirm="Remove definition"
          danger
          onClose={() => setRemoving(false)}
          action={async () => {
            await api.removeDefinition(name);
            navigate("/definitions");
          }}
        >
          <p className="muted">It can no longer be started: its triggers stop and their settings are deleted. Open runs continue, and ended runs stay unchanged; all keep their version. The name can be registered again.</p>
        </ActionDialog>
      ) : null}
      {starting ? <StartRun names={null} initial={name} version={version ?? value.version} onClose={() => setStarting(false)} /> : null}
    </div>
  );
}

/** Problems of the file on disk. Line numbers refer to the file, not to the registered source. */
function OnDisk({ problems, registered }: { problems: DefinitionProblem[]; registered: boolean }) {
  return (
    <section className="problem" role="status">
      <Mark status="failed" />
      <div className="problem-text">
        <strong>{registered ? "The file on disk has problems; this is the last valid version." : "The file has problems and is not registered yet."}</strong>
        {problems.map((one, at) => (
          <div key={at}>
            <p><span className="mono small">{one.file ? `${one.file}:` : ""}{one.line}:{one.column}</span> {one.message} <span className="mono small faint">{one.code}</span></p>
            {one.hint ? <p className="hint">{one.hint}</p> : null}
          </div>
        ))}
      </div>
    </section>
  );
}

function Parameters({ definition }: { definition: Definition }) {
  const parameters = definition.parameters ?? [];
  return (
    <div className="stack scrolls">
      {parameters.length === 0 ? (
        <Empty title="No parameters" />
      ) : (
        <div className="panel table-wrap">
          <table className="table">
            <thead><tr><th>Name</th><th>Kind</th><th>Required</th><th>Default</th></tr></thead>
            <tbody>
              {parameters.map((one) => (
                <tr key={one.name}>
                  <td className="strong">{one.name}{one.description ? <p className="muted small">{one.description}</p> : null}</td>
                  <td>{one.kind ?? "any"}</td>
                  <td>{one.required ? "yes" : "no"}</td>
                  <td className="mono small wrap">{one.default === undefined || one.default === null ? "–" : brief(one.default, 200)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {definition.tools && definition.tools.length > 0 ? <p className="muted">Uses the tools {definition.tools.join(", ")}.</p> : null}
    </div>
  );
}

function Triggers({ definition, onToggle }: { definition: Definition; onToggle(): void }) {
  const triggers = definition.triggers ?? [];
  if (triggers.length === 0) return <Empty title="No triggers" />;
  return (
    <div className="stack scrolls">
      <div className="row wraps">
        <span>{definition.enabled ? "Triggers are enabled." : "Triggers are disabled."}</span>
        <Button className="small" onClick={onToggle}>{definition.enabled ? "Disable" : "Enable"}</Button>
        <Link to="/triggers">Schedules and settings</Link>
      </div>
      {triggers.map((trigger) => (
        <section key={trigger.name} className="panel">
          <header><h2>{trigger.name}</h2><span className="tag">{trigger.kind}</span></header>
          <div className="panel-body stack">
            {trigger.url || /webhook|request/i.test(trigger.kind) ? <Address url={trigger.url || `/hooks/${encodeURIComponent(definition.name)}/${encodeURIComponent(trigger.name)}`} /> : null}
            {trigger.settings && Object.keys(trigger.settings).length > 0 ? <JsonBox value={trigger.settings as Json} /> : null}
          </div>
        </section>
      ))}
    </div>
  );
}

export function Address({ url }: { url: string }) {
  const absolute = /^https?:/.test(url) ? url : new URL(url, location.origin).href;
  return (
    <span className="row address">
      <span className="tag">POST</span>
      <code className="wrap">{absolute}</code>
      <Copy text={absolute} label="Copy URL" />
    </span>
  );
}

/** `quiet`: shows nothing if there are no versions or they cannot be loaded. */
function Versions({ name, current, quiet = false }: { name: string; current: number; quiet?: boolean }) {
  const versions = useLoad(`versions ${name}`, (signal) => api.versions(name, signal));
  if (quiet && !versions.value) return null;
  if (!versions.value) return versions.problem ? <ProblemBox problem={versions.problem} onRetry={versions.reload} /> : <Loading />;
  return (
    <div className="panel table-wrap scrolls">
      <table className="table">
        <thead><tr><th>Version</th><th>Hash</th><th>Registered</th><th>By</th></tr></thead>
        <tbody>
          {versions.value.items.map((one) => (
            <tr key={one.version}>
              <td><button type="button" className="more-link flat" aria-current={one.version === current} onClick={() => setQuery({ version: one.version }, false)}>v{one.version}</button>{one.version === current ? <span className="tag">shown</span> : null}</td>
              <td className="mono small">{one.hash.slice(0, 16)}</td>
              <td className="muted nowrap"><Ago at={one.registered_at} /></td>
              <td className="muted">{one.by ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
