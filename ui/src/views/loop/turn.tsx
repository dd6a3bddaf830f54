// One turn, opened: what it was for, why it failed and where that stands, what its steps were given and gave, and how it differs.

import { useState } from "react";
import { api, type Event, type Json, type RunError, type Step, type Turn } from "../../api";
import { eventsAt, stepsOf, valuesOf } from "../../api/places";
import { useLoad } from "../../api/use";
import { telling } from "../../lib/differences";
import { brief, count, duration, many, stamp } from "../../lib/format";
import { reasonWords, turnPath } from "../../lib/loops";
import { within } from "../../lib/paths";
import { Link, to } from "../../lib/router";
import { isBad } from "../../lib/status";
import { JsonBox } from "../../parts/json";
import { Button, ProblemBox, Status, Waiting } from "../../parts/small";

const STEPS = 50;
const LOOP = /foreach|until|while|repeat|loop/i;

/** The steps right inside of a turn. What is inside of early turns is not kept at hand: the events have it. */
async function stepsIn(id: string, here: string, since: string | null | undefined, signal: AbortSignal): Promise<Step[]> {
  const page = await api.steps(id, { parent: here, limit: STEPS }, signal);
  if (page.items.length > 0 || !(page.dropped || page.partial)) return page.items;
  return stepsOf(await eventsAt(id, here, since, signal), here).slice(0, STEPS);
}

export function TurnMore({ id, path, turn, onRestart }: { id: string; path: string; turn: Turn; onRestart(): void }) {
  const here = turnPath(path, turn);
  const inner = useLoad(`inner ${id} ${here}`, (signal) => stepsIn(id, here, turn.started_at, signal));
  const steps = inner.value ?? [];
  const bad = isBad(turn.status);
  const [comparing, setComparing] = useState(false);
  const failedFirst = steps.find((step) => isBad(step.status))?.path;
  return (
    <div className="log-open stack turn-more">
      <div className="row wraps">
        <code className="wrap">{here}</code>
        <Button className="small" icon="restart" onClick={onRestart}>Restart from this turn</Button>
        {bad ? <Button className="small" aria-pressed={comparing} onClick={() => setComparing(!comparing)}>Compare with one that went well</Button> : null}
        <Link className="button small" to={to(["runs", id, "events"], { place: here, since: turn.started_at ?? null })}>Events</Link>
        <Link className="button small" to={to(["runs", id, "timeline"], { step: here })}>Timeline</Link>
      </div>
      {turn.error ? <TurnError id={id} here={here} error={turn.error} /> : null}
      <dl className="facts turn-facts">
        {turn.item === undefined ? null : (<><dt>Item</dt><dd>{scalar(turn.item) ? <code>{brief(turn.item, 2000)}</code> : <JsonBox value={turn.item} />}</dd></>)}
        {turn.conditionResult === undefined || turn.conditionResult === null ? null : (<><dt>Condition</dt><dd><code>{brief(turn.conditionResult, 200)}</code></dd></>)}
        <dt>Began</dt>
        <dd className="number">{stamp(turn.started_at)}, took {duration(turn.duration)}</dd>
        {turn.reason ? (<><dt>Ended</dt><dd>the loop ended with it, by {reasonWords(turn.reason)}</dd></>) : null}
      </dl>
      {comparing ? <Comparison id={id} path={path} turn={turn} steps={steps} /> : null}
      {turn.verdict !== undefined && turn.verdict !== null ? <section className="stack tight"><h3>Judge</h3><JsonBox value={turn.verdict} /></section> : null}
      {inner.loading && inner.value === null ? <Waiting lines={1} /> : null}
      {steps.length > 0 ? (
        <section className="stack tight">
          <h3>Steps of this turn</h3>
          <div className="panel">
            {steps.map((step) => <InnerStep key={step.path} id={id} step={step} open={step.path === failedFirst} />)}
          </div>
        </section>
      ) : null}
      {turn.result !== undefined && turn.result !== null ? <section className="stack tight"><h3>Result</h3><JsonBox value={turn.result} /></section> : null}
      {turn.usage ? <section className="stack tight"><h3>Usage</h3><JsonBox value={turn.usage as Json} /></section> : null}
    </div>
  );
}

function scalar(value: Json): boolean {
  return value === null || typeof value !== "object";
}

export function TurnError({ id, here, error }: { id: string; here: string; error: RunError }) {
  const { position } = error;
  return (
    <div className="problem">
      <div className="problem-text">
        <strong>{error.message}</strong>
        {error.hint ? <p className="hint">{error.hint}</p> : null}
        <p className="row wraps small">
          <span className="mono faint">{[error.code, error.path].filter(Boolean).join(" · ")}</span>
          {position ? <Link to={to(["runs", id, "definition"], { turn: here })}>line {position.line}, column {position.column} of the definition</Link> : null}
        </p>
      </div>
    </div>
  );
}

/** Its values are asked for when it is opened. */
function InnerStep({ id, step, open }: { id: string; step: Step; open: boolean }) {
  const [shown, setShown] = useState(open);
  const values = useLoad(shown ? `inner values ${id} ${step.path}` : null, async (signal) => valuesOf(await eventsAt(id, step.path, step.started_at, signal), step.path));
  return (
    <details className="fold-row" open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>
        <Status status={step.status} word={false} />
        <strong>{step.name}</strong> <span className="faint">{step.kind}</span>
        <span className="muted number nowrap">{duration(step.duration_ms)}{(step.attempts ?? 1) > 1 ? `, ${step.attempts} tries` : ""}</span>
        <span className="bad-text cut">{step.error?.message}</span>
      </summary>
      {shown ? (
        <div className="fold-in stack tight">
          {LOOP.test(step.kind) ? <Link to={to(["runs", id, "loop"], { path: step.path })}>its turns</Link> : null}
          {values.problem ? <ProblemBox problem={values.problem} onRetry={values.reload} /> : null}
          {values.loading && values.value === null ? <Waiting lines={1} /> : null}
          {values.value?.input === undefined ? null : (<><h4>Input</h4><JsonBox value={values.value.input} /></>)}
          {values.value?.output === undefined ? null : (<><h4>Output</h4><JsonBox value={values.value.output} /></>)}
          {values.value && values.value.input === undefined && values.value.output === undefined ? <p className="faint small">Nothing is kept of what went in and came out.</p> : null}
        </div>
      ) : null}
    </details>
  );
}

/** How far around a turn those that went well are looked for, and how many are compared. */
const AROUND = 50;
const COMPARED = 3;

/** The nearest turns that went well; else the first of all. */
async function goodOnes(id: string, path: string, turn: number, signal: AbortSignal): Promise<Turn[]> {
  for (const [from, limit] of [[Math.max(0, turn - AROUND), AROUND * 2], [0, 200]] as const) {
    const { turns } = await api.turns(id, { loop: path, from, limit }, signal);
    const good = turns.filter((one) => one.status === "succeeded" && one.iteration !== turn);
    const near = good.sort((one, other) => Math.abs(one.iteration - turn) - Math.abs(other.iteration - turn));
    if (near.length > 0) return near.slice(0, COMPARED);
  }
  return [];
}

/** What a turn was made of, in one value that can be compared with another's. */
function asOne(turn: Turn, here: string, steps: Step[], events: Event[]): Json {
  const told: { [name: string]: Json } = { condition: turn.conditionResult ?? null };
  if (turn.item !== undefined) told["item"] = turn.item;
  if (steps.length === 0) told["result"] = turn.result ?? null;
  for (const step of steps) {
    const { input, output } = valuesOf(events.filter((event) => within(event.path, step.path)), step.path);
    told[step.path.slice(here.length + 1)] = { status: step.status, ...(input === undefined ? {} : { input }), ...(output === undefined ? {} : { output }) };
  }
  return told;
}

function Comparison({ id, path, turn, steps }: { id: string; path: string; turn: Turn; steps: Step[] }) {
  const found = useLoad(`compared ${id} ${path} ${turn.iteration} ${steps.length}`, async (signal) => {
    const good = await goodOnes(id, path, turn.iteration, signal);
    const whole = async (one: Turn, inside: Step[] | null) => {
      const here = turnPath(path, one);
      const [events, known] = await Promise.all([eventsAt(id, here, one.started_at, signal), inside ?? stepsIn(id, here, one.started_at, signal)]);
      return asOne(one, here, known, events);
    };
    const [mine = null, ...theirs] = await Promise.all([whole(turn, steps), ...good.map((one) => whole(one, null))]);
    return { good: good[0] ?? null, others: good.length - 1, rows: telling(mine, theirs) };
  });
  if (found.problem) return <ProblemBox problem={found.problem} onRetry={found.reload} />;
  if (found.value === null) return <Waiting lines={3} />;
  const { good, others, rows } = found.value;
  if (good === null) return <p className="muted">No turn that went well is near, or kept.</p>;
  if (rows.length === 0) return <p className="muted">Turn {count(good.iteration)} went well with the same values: what is around the run was different.</p>;
  return (
    <section className="panel table-wrap compared" aria-label={`How it differs from turn ${good.iteration}`}>
      <table className="table">
        <thead><tr><th>Where</th><th>This turn</th><th><Link to={to(["runs", id, "loop"], { path, turn: good.iteration })}>Turn {count(good.iteration)}</Link>, which went well</th></tr></thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.at} className={row.telling ? "telling" : undefined}>
              <td className="mono small wrap">{row.at}{row.telling ? <span className="tag" title="Turns that went well agree here">stands out</span> : null}</td>
              <td><Leaf value={row.here} /></td>
              <td><Leaf value={row.there} /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {others > 0 ? <p className="muted small compared-note">What stands out is the same in {many(others + 1, "turn")} near by that went well; the rest differs between these, too.</p> : null}
    </section>
  );
}

function Leaf({ value }: { value: Json | undefined }) {
  if (value === undefined) return <span className="faint">not there</span>;
  return scalar(value) ? <code className="wrap">{brief(typeof value === "string" ? JSON.stringify(value) : value, 400)}</code> : <JsonBox value={value} open={0} />;
}
