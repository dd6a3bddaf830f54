// The details of one iteration: its item, its error with the source position, its steps with input and output, and a comparison.

import { useState } from "react";
import { api, type Event, type Json, type IterationRecord, type RunError, type Step } from "../../api";
import { useLoad } from "../../api/hooks";
import { childSteps, eventsAt, stepValues } from "../../api/step-events";
import { Button, ErrorPageLink, Loading, ProblemBox, Status } from "../../components/common";
import { JsonBox } from "../../components/json";
import { rankDifferences } from "../../lib/differences";
import { brief, count, duration, plural, stamp } from "../../lib/format";
import { endReasonText, iterationPath } from "../../lib/loops";
import { isWithin } from "../../lib/paths";
import { Link, to } from "../../lib/router";
import { isFailure } from "../../lib/status";

const MAX_STEPS = 50;
const LOOP_KIND = /foreach|until|while|repeat|loop/i;

/** Fetches the direct steps of an iteration. The server buffers only recent ones; those of early iterations come from the events. */
async function fetchSteps(id: string, here: string, since: string | null | undefined, signal: AbortSignal): Promise<Step[]> {
  const page = await api.steps(id, { parent: here, limit: MAX_STEPS }, signal);
  if (page.items.length > 0 || !(page.dropped || page.partial)) return page.items;
  return childSteps(await eventsAt(id, here, since, signal), here).slice(0, MAX_STEPS);
}

export function IterationDetails({ id, path, record, onRestart }: { id: string; path: string; record: IterationRecord; onRestart(): void }) {
  const here = iterationPath(path, record);
  const inner = useLoad(`inner ${id} ${here}`, (signal) => fetchSteps(id, here, record.started_at, signal));
  const steps = inner.value ?? [];
  const bad = isFailure(record.status);
  const [comparing, setComparing] = useState(false);
  const firstFailed = steps.find((step) => isFailure(step.status))?.path;
  return (
    <div className="log-open stack iteration-details">
      <div className="row wraps">
        <code className="wrap">{here}</code>
        <Button className="small" icon="restart" onClick={onRestart}>Restart from this iteration</Button>
        {bad ? <Button className="small" aria-pressed={comparing} onClick={() => setComparing(!comparing)}>Compare with a successful iteration</Button> : null}
        <Link className="button small" to={to(["runs", id, "events"], { path: here, since: record.started_at ?? null })}>Events</Link>
        <Link className="button small" to={to(["runs", id, "timeline"], { step: here })}>Timeline</Link>
      </div>
      {record.error ? <IterationError id={id} here={here} error={record.error} /> : null}
      <dl className="facts iteration-facts">
        {record.item === undefined ? null : (<><dt>Item</dt><dd>{isScalar(record.item) ? <code>{brief(record.item, 2000)}</code> : <JsonBox value={record.item} />}</dd></>)}
        {record.condition_result === undefined || record.condition_result === null ? null : (<><dt>Condition</dt><dd><code>{brief(record.condition_result, 200)}</code></dd></>)}
        <dt>Started</dt>
        <dd className="number">{stamp(record.started_at)}, took {duration(record.duration_ms)}</dd>
        {record.reason ? (<><dt>Loop end</dt><dd>last iteration; the loop ended by {endReasonText(record.reason)}</dd></>) : null}
      </dl>
      {comparing ? <Comparison id={id} path={path} record={record} steps={steps} /> : null}
      {record.verdict !== undefined && record.verdict !== null ? <section className="stack tight"><h3>Judge</h3><JsonBox value={record.verdict} /></section> : null}
      {inner.loading && inner.value === null ? <Loading lines={1} /> : null}
      {steps.length > 0 ? (
        <section className="stack tight">
          <h3>Steps</h3>
          <div className="panel">
            {steps.map((step) => <InnerStep key={step.path} id={id} step={step} open={step.path === firstFailed} />)}
          </div>
        </section>
      ) : null}
      {record.result !== undefined && record.result !== null ? <section className="stack tight"><h3>Result</h3><JsonBox value={record.result} /></section> : null}
      {record.usage ? <section className="stack tight"><h3>Usage</h3><JsonBox value={record.usage as Json} /></section> : null}
    </div>
  );
}

function isScalar(value: Json): boolean {
  return value === null || typeof value !== "object";
}

export function IterationError({ id, here, error }: { id: string; here: string; error: RunError }) {
  const { position } = error;
  return (
    <div className="problem">
      <div className="problem-text">
        <strong>{error.message}</strong>
        {error.hint ? <p className="hint">{error.hint}</p> : null}
        <p className="row wraps small">
          <span className="mono faint">{[error.code, error.path].filter(Boolean).join(" · ")}</span>
          <ErrorPageLink code={error.reference} />
          {position ? <Link to={to(["runs", id, "definition"], { iteration: here })}>line {position.line}, column {position.column} of the definition</Link> : null}
        </p>
      </div>
    </div>
  );
}

/** A step of the iteration; its values are fetched when it is expanded. */
function InnerStep({ id, step, open }: { id: string; step: Step; open: boolean }) {
  const [shown, setShown] = useState(open);
  const values = useLoad(shown ? `inner values ${id} ${step.path}` : null, async (signal) => stepValues(await eventsAt(id, step.path, step.started_at, signal), step.path));
  return (
    <details className="fold-row" open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>
        <Status status={step.status} word={false} />
        <strong>{step.name}</strong> <span className="faint">{step.kind}</span>
        <span className="muted number nowrap">{duration(step.duration_ms)}{(step.attempts ?? 1) > 1 ? `, ${step.attempts} attempts` : ""}</span>
        <span className="bad-text cut">{step.error?.message}</span>
      </summary>
      {shown ? (
        <div className="fold-in stack tight">
          {LOOP_KIND.test(step.kind) ? <Link to={to(["runs", id, "loop"], { path: step.path })}>iterations</Link> : null}
          {values.problem ? <ProblemBox problem={values.problem} onRetry={values.reload} /> : null}
          {values.loading && values.value === null ? <Loading lines={1} /> : null}
          {values.value?.input === undefined ? null : (<><h4>Input</h4><JsonBox value={values.value.input} /></>)}
          {values.value?.output === undefined ? null : (<><h4>Output</h4><JsonBox value={values.value.output} /></>)}
          {values.value && values.value.input === undefined && values.value.output === undefined ? <p className="faint small">Input and output are not retained.</p> : null}
        </div>
      ) : null}
    </details>
  );
}

/** The distance in which successful iterations are searched for, and the maximum number to compare with. */
const SEARCH_DISTANCE = 50;
const MAX_COMPARED = 3;

/** Finds the nearest successful iterations, else successful ones at the start of the loop. */
async function nearestSuccesses(id: string, path: string, iteration: number, signal: AbortSignal): Promise<IterationRecord[]> {
  for (const [from, limit] of [[Math.max(0, iteration - SEARCH_DISTANCE), SEARCH_DISTANCE * 2], [0, 200]] as const) {
    const { iterations } = await api.iterations(id, { loop: path, from, limit }, signal);
    const good = iterations.filter((one) => one.status === "succeeded" && one.iteration !== iteration);
    const near = good.sort((one, other) => Math.abs(one.iteration - iteration) - Math.abs(other.iteration - iteration));
    if (near.length > 0) return near.slice(0, MAX_COMPARED);
  }
  return [];
}

/** Combines the data of an iteration into one value that can be compared with that of another. */
function comparableValue(record: IterationRecord, here: string, steps: Step[], events: Event[]): Json {
  const value: { [name: string]: Json } = { condition: record.condition_result ?? null };
  if (record.item !== undefined) value["item"] = record.item;
  if (steps.length === 0) value["result"] = record.result ?? null;
  for (const step of steps) {
    const { input, output } = stepValues(events.filter((event) => isWithin(event.path, step.path)), step.path);
    value[step.path.slice(here.length + 1)] = { status: step.status, ...(input === undefined ? {} : { input }), ...(output === undefined ? {} : { output }) };
  }
  return value;
}

function Comparison({ id, path, record, steps }: { id: string; path: string; record: IterationRecord; steps: Step[] }) {
  const found = useLoad(`compared ${id} ${path} ${record.iteration} ${steps.length}`, async (signal) => {
    const good = await nearestSuccesses(id, path, record.iteration, signal);
    const load = async (one: IterationRecord, inside: Step[] | null) => {
      const here = iterationPath(path, one);
      const [events, known] = await Promise.all([eventsAt(id, here, one.started_at, signal), inside ?? fetchSteps(id, here, one.started_at, signal)]);
      return comparableValue(one, here, known, events);
    };
    const [mine = null, ...theirs] = await Promise.all([load(record, steps), ...good.map((one) => load(one, null))]);
    return { good: good[0] ?? null, others: good.length - 1, rows: rankDifferences(mine, theirs) };
  });
  if (found.problem) return <ProblemBox problem={found.problem} onRetry={found.reload} />;
  if (found.value === null) return <Loading lines={3} />;
  const { good, others, rows } = found.value;
  if (good === null) return <p className="muted">No successful iteration nearby is retained.</p>;
  if (rows.length === 0) return <p className="muted">Iteration {count(good.iteration)} succeeded with the same values; the cause is outside the run.</p>;
  return (
    <section className="panel table-wrap compared" aria-label={`Differences from iteration ${good.iteration}`}>
      <table className="table">
        <thead><tr><th>Path</th><th>This iteration</th><th><Link to={to(["runs", id, "loop"], { path, iteration: good.iteration })}>Iteration {count(good.iteration)}</Link>, succeeded</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at} className={row.distinctive ? "distinctive" : undefined}>
              <td className="mono small wrap">{row.at}{row.distinctive ? <span className="tag" title="The successful iterations agree here">distinctive</span> : null}</td>
              <td><Leaf value={row.here} /></td>
              <td><Leaf value={row.there} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {others > 0 ? <p className="muted small compared-note">Distinctive values are the same in {plural(others + 1, "successful iteration")} nearby; the other values differ between those, too.</p> : null}
    </section>
  );
}

function Leaf({ value }: { value: Json | undefined }) {
  if (value === undefined) return <span className="faint">absent</span>;
  return isScalar(value) ? <code className="wrap">{brief(typeof value === "string" ? JSON.stringify(value) : value, 400)}</code> : <JsonBox value={value} open={0} />;
}
