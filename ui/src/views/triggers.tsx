// The triggers of all definitions and their settings.

import { useState } from "react";
import { api, asProblem, type Json, type Problem, type Trigger } from "../api";
import { useInterval, useLoad } from "../api/hooks";
import { ActionDialog, Ago, Button, Empty, Field, Loading, PageHead, ProblemBox, Search } from "../components/common";
import { brief, count } from "../lib/format";
import { useKeys } from "../lib/keys";
import { Link, to } from "../lib/router";
import { Address } from "./definition";

/** The kind of a schedule that an administrator added outside the definition. */
const ADDED_SCHEDULE = "schedule";

export default function Triggers() {
  const list = useLoad("triggers", (signal) => api.triggers(signal));
  const [search, setSearch] = useState("");
  const [dialog, setDialog] = useState<{ what: "settings" | "remove"; trigger: Trigger } | "schedule" | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [note, setNote] = useState<string | null>(null);
  useInterval(10_000, list.reload);
  useKeys({ n: () => setDialog("schedule") });
  const items = (list.value?.items ?? []).filter((one) => `${one.definition} ${one.trigger} ${one.kind}`.toLowerCase().includes(search.toLowerCase()));
  const toggle = (one: Trigger) => {
    setProblem(null);
    setNote(null);
    api.setTrigger(one.definition, one.trigger, { enabled: !one.enabled }).then(
      (now) => {
        if (now && !one.enabled && !now.enabled) setNote(`All triggers of ${one.definition} are disabled; enable them in the definition.`);
        list.reload();
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  const close = () => setDialog(null);
  return (
    <div className="page">
      <PageHead title="Triggers" note="Webhooks, schedules and polls that start runs">
        <Button icon="triggers" onClick={() => setDialog("schedule")}>Add schedule</Button>
      </PageHead>
      <div className="filters"><Search value={search} onChange={setSearch} placeholder="Definition, trigger or kind" /></div>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {problem ? <ProblemBox problem={problem} /> : null}
      {note ? <p className="warn-note" role="status">{note}</p> : null}
      {list.value === null ? (
        list.problem ? null : <Loading />
      ) : items.length === 0 ? (
        <Empty title={search ? "No matching triggers" : "No triggers"}>
          {search ? null : <p>A definition can declare webhooks, schedules and polls. Any definition can also be started by a schedule added here.</p>}
        </Empty>
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Definition</th><th>Trigger</th><th>Kind</th><th>State</th><th>Next</th><th>Last</th><th><span className="visually-hidden">Change</span></th></tr></thead>
            <tbody>
              {items.map((one) => (
                <tr key={`${one.definition} ${one.trigger}`}>
                  <td className="wrap"><Link to={to(["definitions", one.definition, "triggers"])} className="strong">{one.definition}</Link> <span className="faint">v{one.version}</span></td>
                  <td className="wrap">
                    {one.trigger}
                    {one.url ? <Address url={one.url} /> : null}
                    {one.schedule ? <p className="mono small muted wrap">{scheduleText(one.schedule)}</p> : null}
                    {one.skipped ? <p className="small muted wrap">skipped{one.skipped_at ? <> <Ago at={one.skipped_at} /></> : null}: {one.skipped}</p> : null}
                    {one.in_flight || one.waiting ? <p className="small muted">{[one.in_flight ? `${count(one.in_flight)} in flight` : "", one.waiting ? `${count(one.waiting)} queued` : ""].filter(Boolean).join(", ")}</p> : null}
                    {one.last_error ? <p className="bad-text small wrap">{errorText(one.last_error)}</p> : null}
                  </td>
                  <td data-label="Kind"><span className="tag">{one.kind}</span>{one.proof ? <p className="small muted">{one.proof === "none" ? "no authentication" : `auth: ${one.proof}${one.scheme ? ` (${one.scheme})` : ""}`}</p> : null}{one.catch_up ? <p className="small muted">missed firings: {one.catch_up}</p> : null}</td>
                  <td data-label="State" className="nowrap">{one.enabled ? <span className="status tone-good">enabled</span> : <span className="status tone-calm">disabled</span>}{one.last_error ? <span className="status tone-bad"> · failed</span> : null}</td>
                  <td data-label="Next" className="muted nowrap">{one.next_at ? <Ago at={one.next_at} /> : "–"}</td>
                  <td data-label="Last" className="muted nowrap">{one.last_at ? <Ago at={one.last_at} /> : "–"}</td>
                  <td className="end">
                    <span className="row wraps">
                      <Button className="small" aria-label={`${one.enabled ? "Disable" : "Enable"} ${one.trigger} of ${one.definition}`} onClick={() => toggle(one)}>{one.enabled ? "Disable" : "Enable"}</Button>
                      <Button className="small" aria-label={`Settings of ${one.trigger} of ${one.definition}`} onClick={() => setDialog({ what: "settings", trigger: one })}>Settings</Button>
                      {one.kind === ADDED_SCHEDULE ? <Button className="small" variant="danger" aria-label={`Remove ${one.trigger} of ${one.definition}`} onClick={() => setDialog({ what: "remove", trigger: one })}>Remove</Button> : null}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {dialog === "schedule" ? (
        <ScheduleDialog trigger={null} onClose={close} onChanged={list.reload} />
      ) : dialog?.what === "remove" ? (
        <ActionDialog
          title={`Remove the schedule ${dialog.trigger.trigger}?`}
          confirm="Remove"
          danger
          onClose={close}
          action={async () => {
            await api.setTrigger(dialog.trigger.definition, dialog.trigger.trigger, { schedule: null });
            list.reload();
          }}
        >
          <p className="muted">It no longer starts {dialog.trigger.definition}. Runs that it has started continue.</p>
        </ActionDialog>
      ) : dialog ? (
        dialog.trigger.kind === ADDED_SCHEDULE ? (
          <ScheduleDialog trigger={dialog.trigger} onClose={close} onChanged={list.reload} />
        ) : dialog.trigger.url ? (
          <HookDialog trigger={dialog.trigger} onClose={close} onChanged={list.reload} />
        ) : (
          <CatchUpDialog trigger={dialog.trigger} onClose={close} onChanged={list.reload} />
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

/** The authentication settings of a webhook. */
function HookDialog({ trigger, onClose, onChanged }: DialogProps) {
  const [proof, setProof] = useState<string>(trigger.proof ?? "token");
  const [secret, setSecret] = useState("");
  const [scheme, setScheme] = useState(trigger.scheme ?? "standard");
  const save = async () => {
    const signed = { insecure: false, scheme, ...(secret.trim() ? { secret: secret.trim() } : {}) };
    await api.setTrigger(trigger.definition, trigger.trigger, proof === "signature" ? signed : { insecure: proof === "none", secret: "" });
    onChanged();
  };
  return (
    <ActionDialog title={`${trigger.trigger} of ${trigger.definition}`} confirm="Save" onClose={onClose} action={save}>
      <Field label="Authentication">
        <select value={proof} onChange={(event) => setProof(event.target.value)}>
          <option value="token">token with the scope run</option>
          <option value="signature">signature</option>
          <option value="none">none: anyone can call it</option>
        </select>
      </Field>
      {proof === "signature" ? (
        <>
          <Field label="Secret reference" hint={<>A reference, not the secret itself: <code>env:NAME</code> or a credential alias.{trigger.proof === "signature" ? " Leave empty to keep the current one." : ""}</>}>
            <input type="text" value={secret} required={trigger.proof !== "signature"} placeholder="env:HOOK_SECRET" autoComplete="off" spellCheck={false} onChange={(event) => setSecret(event.target.value)} />
          </Field>
          <Field label="Signature scheme">
            <select value={scheme} onChange={(event) => setScheme(event.target.value)}>
              <option value="standard">Standard Webhooks</option>
              <option value="github">GitHub</option>
              <option value="windlass">Windlass</option>
            </select>
          </Field>
        </>
      ) : proof === "none" ? (
        <p className="warn-note">Anyone who can reach this server can start {trigger.definition}.</p>
      ) : null}
    </ActionDialog>
  );
}

function CatchUpField({ value, onChange }: { value: string; onChange(value: string): void }) {
  return (
    <Field label="Firings missed while the server was down">
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="last">start one run, for the last missed firing</option>
        <option value="all">start a run for each missed firing</option>
        <option value="none">skip them</option>
      </select>
    </Field>
  );
}

function CatchUpDialog({ trigger, onClose, onChanged }: DialogProps) {
  const [catchUp, setCatchUp] = useState(trigger.catch_up ?? "last");
  const save = async () => {
    await api.setTrigger(trigger.definition, trigger.trigger, { catch_up: catchUp });
    onChanged();
  };
  return (
    <ActionDialog title={`${trigger.trigger} of ${trigger.definition}`} confirm="Save" onClose={onClose} action={save}>
      <p className="muted">The schedule is part of the definition; register a new version to change it.</p>
      <CatchUpField value={catchUp} onChange={setCatchUp} />
    </ActionDialog>
  );
}

/** Adds a schedule outside the definition, or changes an existing one. */
function ScheduleDialog({ trigger, onClose, onChanged }: { trigger: Trigger | null; onClose(): void; onChanged(): void }) {
  const definitions = useLoad(trigger ? null : "definitions", (signal) => api.definitions({ limit: 500 }, signal));
  const current = trigger ? parseCron(trigger.schedule) : { cron: "0 8 * * 1-5", timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone };
  const [definition, setDefinition] = useState(trigger?.definition ?? "");
  const [name, setName] = useState(trigger?.trigger ?? "daily");
  const [cron, setCron] = useState(current.cron);
  const [zone, setZone] = useState(current.timeZone);
  const [catchUp, setCatchUp] = useState(trigger?.catch_up ?? "last");
  const save = async () => {
    const schedule = { cron: cron.trim(), ...(zone.trim() ? { time_zone: zone.trim() } : {}) };
    await api.setTrigger(definition, name.trim(), { schedule, catch_up: catchUp });
    onChanged();
  };
  return (
    <ActionDialog title={trigger ? `${trigger.trigger} of ${trigger.definition}` : "Add schedule"} confirm={trigger ? "Save" : "Add"} onClose={onClose} action={save}>
      {trigger ? null : (
        <>
          <Field label="Definition">
            <select value={definition} required onChange={(event) => setDefinition(event.target.value)}>
              <option value="">Select a definition</option>
              {(definitions.value?.items ?? []).map((one) => <option key={one.name}>{one.name}</option>)}
            </select>
          </Field>
          <Field label="Trigger name">
            <input type="text" value={name} required onChange={(event) => setName(event.target.value)} />
          </Field>
        </>
      )}
      <Field label="Cron expression" hint="Minute, hour, day of month, month, day of week; with six fields, seconds come first.">
        <input type="text" value={cron} required className="mono" spellCheck={false} onChange={(event) => setCron(event.target.value)} />
      </Field>
      <Field label="Time zone" hint="Such as Europe/Berlin; UTC if empty.">
        <input type="text" value={zone} spellCheck={false} onChange={(event) => setZone(event.target.value)} />
      </Field>
      <CatchUpField value={catchUp} onChange={setCatchUp} />
    </ActionDialog>
  );
}

export function parseCron(schedule: Json | undefined): { cron: string; timeZone: string } {
  const known = schedule !== null && typeof schedule === "object" && !Array.isArray(schedule) ? schedule : {};
  const text = (key: string) => (typeof known[key] === "string" ? known[key] : "");
  return { cron: text("cron"), timeZone: text("time_zone") };
}

export function scheduleText(schedule: Json): string {
  if (typeof schedule === "string") return schedule;
  const { cron, timeZone } = parseCron(schedule);
  return cron ? `${cron} ${timeZone || "UTC"}` : brief(schedule, 200);
}

function errorText(error: Json): string {
  if (typeof error === "string") return error;
  if (error !== null && typeof error === "object" && !Array.isArray(error)) {
    const message = error["message"] ?? error["detail"];
    if (typeof message === "string") return message;
  }
  return brief(error, 300);
}
