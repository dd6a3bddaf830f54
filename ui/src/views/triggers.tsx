// What starts runs by itself, and what is said of it.

import { useState } from "react";
import { api, asProblem, type Json, type Problem, type Trigger } from "../api";
import { useEvery, useLoad } from "../api/use";
import { brief, count } from "../lib/format";
import { useKeys } from "../lib/keys";
import { Link, to } from "../lib/router";
import { Ago, Button, DeedDialog, Empty, Field, PageHead, ProblemBox, Search, Waiting } from "../parts/small";
import { Address } from "./definition";

/** The kind of a schedule that an administrator has set beside the definition. */
const ADDED = "schedule";

export default function Triggers() {
  const list = useLoad("triggers", (signal) => api.triggers(signal));
  const [search, setSearch] = useState("");
  const [asking, setAsking] = useState<{ what: "settings" | "remove"; trigger: Trigger } | "schedule" | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [note, setNote] = useState<string | null>(null);
  useEvery(10_000, list.reload);
  useKeys({ n: () => setAsking("schedule") });
  const items = (list.value?.items ?? []).filter((one) => `${one.definition} ${one.trigger} ${one.kind}`.toLowerCase().includes(search.toLowerCase()));
  const turn = (one: Trigger) => {
    setProblem(null);
    setNote(null);
    api.setTrigger(one.definition, one.trigger, { enabled: !one.enabled }).then(
      (now) => {
        if (now && !one.enabled && !now.enabled) setNote(`All triggers of ${one.definition} are off: turn them on with the definition.`);
        list.reload();
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  const close = () => setAsking(null);
  return (
    <div className="page">
      <PageHead title="Triggers" note="What starts runs by itself">
        <Button icon="triggers" onClick={() => setAsking("schedule")}>Add a schedule</Button>
      </PageHead>
      <div className="filters"><Search value={search} onChange={setSearch} placeholder="Definition, trigger or kind" /></div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {problem ? <ProblemBox problem={problem} /> : null}
      {note ? <p className="warn-note" role="status">{note}</p> : null}
      {list.value === null ? (
        list.problem ? null : <Waiting />
      ) : items.length === 0 ? (
        <Empty title={search ? "No trigger is called like that" : "No triggers"}>
          {search ? null : <p>Definitions that name a webhook, a schedule or a poll have them; any other can be started by a schedule that is added here.</p>}
        </Empty>
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Definition</th><th>Trigger</th><th>Kind</th><th>State</th><th>Next</th><th>Last</th><th><span className="unseen">Change</span></th></tr></thead>
            <tbody>
              {items.map((one) => (
                <tr key={`${one.definition} ${one.trigger}`}>
                  <td className="wrap"><Link to={to(["definitions", one.definition, "triggers"])} className="strong">{one.definition}</Link> <span className="faint">v{one.version}</span></td>
                  <td className="wrap">
                    {one.trigger}
                    {one.url ? <Address url={one.url} /> : null}
                    {one.schedule ? <p className="mono small muted wrap">{scheduleText(one.schedule)}</p> : null}
                    {one.skipped ? <p className="small muted wrap">started nothing{one.skipped_at ? <> <Ago at={one.skipped_at} /></> : null}: {one.skipped}</p> : null}
                    {one.under_way || one.waiting ? <p className="small muted">{[one.under_way ? `${count(one.under_way)} under way` : "", one.waiting ? `${count(one.waiting)} wait for their turn` : ""].filter(Boolean).join(", ")}</p> : null}
                    {one.last_error ? <p className="bad-text small wrap">{errorText(one.last_error)}</p> : null}
                  </td>
                  <td data-label="Kind"><span className="tag">{one.kind}</span>{one.proof ? <p className="small muted">{one.proof === "nothing" ? "anybody may call it" : `by ${one.proof}${one.scheme ? ` (${one.scheme})` : ""}`}</p> : null}{one.catch_up ? <p className="small muted">missed: {one.catch_up}</p> : null}</td>
                  <td data-label="State" className="nowrap">{one.enabled ? <span className="status tone-good">on</span> : <span className="status tone-calm">off</span>}{one.last_error ? <span className="status tone-bad"> · failed</span> : null}</td>
                  <td data-label="Next" className="muted nowrap">{one.next_at ? <Ago at={one.next_at} /> : "–"}</td>
                  <td data-label="Last" className="muted nowrap">{one.last_at ? <Ago at={one.last_at} /> : "–"}</td>
                  <td className="end">
                    <span className="row wraps">
                      <Button className="small" aria-label={`Turn ${one.enabled ? "off" : "on"} ${one.trigger} of ${one.definition}`} onClick={() => turn(one)}>{one.enabled ? "Turn off" : "Turn on"}</Button>
                      <Button className="small" aria-label={`Settings of ${one.trigger} of ${one.definition}`} onClick={() => setAsking({ what: "settings", trigger: one })}>Settings</Button>
                      {one.kind === ADDED ? <Button className="small" look="danger" aria-label={`Remove ${one.trigger} of ${one.definition}`} onClick={() => setAsking({ what: "remove", trigger: one })}>Remove</Button> : null}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {asking === "schedule" ? (
        <ScheduleDialog trigger={null} onClose={close} onChanged={list.reload} />
      ) : asking?.what === "remove" ? (
        <DeedDialog
          title={`Remove the schedule ${asking.trigger.trigger}?`}
          verb="Remove it"
          danger
          onClose={close}
          deed={async () => {
            await api.setTrigger(asking.trigger.definition, asking.trigger.trigger, { schedule: null });
            list.reload();
          }}
        >
          <p className="muted">It starts {asking.trigger.definition} no more. Runs that it has started go on.</p>
        </DeedDialog>
      ) : asking ? (
        asking.trigger.kind === ADDED ? (
          <ScheduleDialog trigger={asking.trigger} onClose={close} onChanged={list.reload} />
        ) : asking.trigger.url ? (
          <HookDialog trigger={asking.trigger} onClose={close} onChanged={list.reload} />
        ) : (
          <MissedDialog trigger={asking.trigger} onClose={close} onChanged={list.reload} />
        )
      ) : null}
    </div>
  );
}

interface DialogProps {
  trigger: Trigger;
  onClose(): void;
  onChanged(): void;
}

/** A webhook: who may call it. */
function HookDialog({ trigger, onClose, onChanged }: DialogProps) {
  const [proof, setProof] = useState<string>(trigger.proof ?? "token");
  const [secret, setSecret] = useState("");
  const [scheme, setScheme] = useState(trigger.scheme ?? "standard");
  const deed = async () => {
    const signed = { insecure: false, scheme, ...(secret.trim() ? { secret: secret.trim() } : {}) };
    await api.setTrigger(trigger.definition, trigger.trigger, proof === "signature" ? signed : { insecure: proof === "nothing", secret: "" });
    onChanged();
  };
  return (
    <DeedDialog title={`${trigger.trigger} of ${trigger.definition}`} verb="Save" onClose={onClose} deed={deed}>
      <Field label="A caller proves who it is by">
        <select value={proof} onChange={(event) => setProof(event.target.value)}>
          <option value="token">a token that may run</option>
          <option value="signature">a signature</option>
          <option value="nothing">nothing: anybody may call it</option>
        </select>
      </Field>
      {proof === "signature" ? (
        <>
          <Field label="Where the secret is" hint={<>A reference, never the secret itself: <code>env:NAME</code>, or the alias of a credential.{trigger.proof === "signature" ? " Nothing keeps the one there is." : ""}</>}>
            <input type="text" value={secret} required={trigger.proof !== "signature"} placeholder="env:HOOK_SECRET" autoComplete="off" spellCheck={false} onChange={(event) => setSecret(event.target.value)} />
          </Field>
          <Field label="Signed as">
            <select value={scheme} onChange={(event) => setScheme(event.target.value)}>
              <option value="standard">Standard Webhooks</option>
              <option value="github">GitHub</option>
              <option value="windlass">Windlass</option>
            </select>
          </Field>
        </>
      ) : proof === "nothing" ? (
        <p className="warn-note">Whoever reaches this server can start {trigger.definition}.</p>
      ) : null}
    </DeedDialog>
  );
}

function Missed({ value, onChange }: { value: string; onChange(value: string): void }) {
  return (
    <Field label="What was missed while the server was down">
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="last">starts once, for the last time that was missed</option>
        <option value="all">starts for each time that was missed</option>
        <option value="none">is left out</option>
      </select>
    </Field>
  );
}

function MissedDialog({ trigger, onClose, onChanged }: DialogProps) {
  const [missed, setMissed] = useState(trigger.catch_up ?? "last");
  const deed = async () => {
    await api.setTrigger(trigger.definition, trigger.trigger, { catch_up: missed });
    onChanged();
  };
  return (
    <DeedDialog title={`${trigger.trigger} of ${trigger.definition}`} verb="Save" onClose={onClose} deed={deed}>
      <p className="muted">Its times stand in the definition: a new version changes them.</p>
      <Missed value={missed} onChange={setMissed} />
    </DeedDialog>
  );
}

/** A schedule beside the definition: a new one, or another time for one there is. */
function ScheduleDialog({ trigger, onClose, onChanged }: { trigger: Trigger | null; onClose(): void; onChanged(): void }) {
  const definitions = useLoad(trigger ? null : "definitions", (signal) => api.definitions({ limit: 500 }, signal));
  const written = trigger ? cronOf(trigger.schedule) : { cron: "0 8 * * 1-5", timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone };
  const [definition, setDefinition] = useState(trigger?.definition ?? "");
  const [name, setName] = useState(trigger?.trigger ?? "daily");
  const [cron, setCron] = useState(written.cron);
  const [zone, setZone] = useState(written.timeZone);
  const [missed, setMissed] = useState(trigger?.catch_up ?? "last");
  const deed = async () => {
    const schedule = { cron: cron.trim(), ...(zone.trim() ? { timeZone: zone.trim() } : {}) };
    await api.setTrigger(definition, name.trim(), { schedule, catch_up: missed });
    onChanged();
  };
  return (
    <DeedDialog title={trigger ? `${trigger.trigger} of ${trigger.definition}` : "Add a schedule"} verb={trigger ? "Save" : "Add it"} onClose={onClose} deed={deed}>
      {trigger ? null : (
        <>
          <Field label="Definition">
            <select value={definition} required onChange={(event) => setDefinition(event.target.value)}>
              <option value="">Choose one</option>
              {(definitions.value?.items ?? []).map((one) => <option key={one.name}>{one.name}</option>)}
            </select>
          </Field>
          <Field label="Name of the trigger">
            <input type="text" value={name} required onChange={(event) => setName(event.target.value)} />
          </Field>
        </>
      )}
      <Field label="Times" hint="Minute, hour, day of the month, month, day of the week; six fields begin with seconds.">
        <input type="text" value={cron} required className="mono" spellCheck={false} onChange={(event) => setCron(event.target.value)} />
      </Field>
      <Field label="Time zone" hint="Such as Europe/Berlin; UTC if there is none.">
        <input type="text" value={zone} spellCheck={false} onChange={(event) => setZone(event.target.value)} />
      </Field>
      <Missed value={missed} onChange={setMissed} />
    </DeedDialog>
  );
}

export function cronOf(schedule: Json | undefined): { cron: string; timeZone: string } {
  const known = schedule !== null && typeof schedule === "object" && !Array.isArray(schedule) ? schedule : {};
  const text = (key: string) => (typeof known[key] === "string" ? known[key] : "");
  return { cron: text("cron"), timeZone: text("timeZone") };
}

export function scheduleText(schedule: Json): string {
  if (typeof schedule === "string") return schedule;
  const { cron, timeZone } = cronOf(schedule);
  return cron ? `${cron} ${timeZone || "UTC"}` : brief(schedule, 200);
}

function errorText(error: Json): string {
  if (typeof error === "string") return error;
  if (error !== null && typeof error === "object" && !Array.isArray(error)) {
    const said = error["message"] ?? error["detail"];
    if (typeof said === "string") return said;
  }
  return brief(error, 300);
}
