// The actions on a run; each button is shown only if the action applies.

import { useRef, useState } from "react";
import { api, asProblem, newIdempotencyKey, type Problem, type Run } from "../../api";
import { ActionDialog, Button, Field, ProblemBox } from "../../components/common";
import { parseJsonField, plural } from "../../lib/format";
import { navigate, to } from "../../lib/router";
import { hasEnded, isFailure } from "../../lib/status";

type DialogKind = "cancel" | "signal" | "retry" | "remove" | null;

export function RunActions({ run, onChanged }: { run: Run; onChanged(): void }) {
  const [dialog, setDialog] = useState<DialogKind>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const ended = hasEnded(run.status);
  // A failure that the run tolerated can be retried, too.
  const failed = run.status !== "succeeded" || Object.values(run.steps ?? {}).some((step) => (step.loop?.failed ?? 0) > 0 || isFailure(step.status));
  const act = (call: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(null);
    call()
      .then(onChanged, (error: unknown) => setProblem(asProblem(error)))
      .finally(() => setBusy(false));
  };
  const close = () => setDialog(null);
  return (
    <div className="run-actions">
      <div className="page-actions">
        {!ended && run.status !== "paused" ? (
          <Button icon="pause" disabled={busy} onClick={() => act(() => api.pause(run.run))}>
            Pause
          </Button>
        ) : null}
        {run.status === "paused" ? (
          <Button icon="play" variant="primary" disabled={busy} onClick={() => act(() => api.resume(run.run))}>
            Resume
          </Button>
        ) : null}
        {ended ? null : (
          <>
            <Button icon="bell" disabled={busy} onClick={() => setDialog("signal")}>
              Signal
            </Button>
            <Button icon="stop" variant="danger" disabled={busy} onClick={() => setDialog("cancel")}>
              Cancel
            </Button>
          </>
        )}
        {ended && failed ? (
          <Button icon="retry" variant="primary" disabled={busy} onClick={() => setDialog("retry")}>
            Retry failed
          </Button>
        ) : null}
        {ended ? (
          <Button icon="trash" variant="danger" disabled={busy} onClick={() => setDialog("remove")}>
            Remove
          </Button>
        ) : null}
      </div>
      {problem ? <ProblemBox problem={problem} /> : null}
      {dialog === "cancel" ? <CancelDialog run={run} onClose={close} onChanged={onChanged} /> : null}
      {dialog === "signal" ? <SignalDialog run={run} onClose={close} onChanged={onChanged} /> : null}
      {dialog === "remove" ? <RemoveDialog run={run} onClose={close} /> : null}
      {dialog === "retry" ? <RetryDialog id={run.run} failed={Object.values(run.steps ?? {}).reduce((sum, step) => sum + (step.loop?.failed ?? 0), 0)} onClose={close} /> : null}
    </div>
  );
}

function CancelDialog({ run, onClose, onChanged }: { run: Run; onClose(): void; onChanged(): void }) {
  const [reason, setReason] = useState("");
  const cancel = async () => {
    await api.cancel(run.run, reason.trim());
    onChanged();
  };
  return (
    <ActionDialog title="Cancel this run?" confirm="Cancel run" danger onClose={onClose} action={cancel}>
      <p className="muted">The run and its child runs end as cancelled. Effects of completed tasks are not undone.</p>
      <Field label="Reason" hint="Recorded with the run.">
        <input type="text" value={reason} autoFocus onChange={(event) => setReason(event.target.value)} />
      </Field>
    </ActionDialog>
  );
}

function RemoveDialog({ run, onClose }: { run: Run; onClose(): void }) {
  const remove = async () => {
    await api.removeRun(run.run);
    navigate("/runs");
  };
  return (
    <ActionDialog title="Remove this run?" confirm="Remove run" danger onClose={onClose} action={remove}>
      <p className="muted">Its input, output, events and iterations are deleted permanently, together with {(run.children ?? []).length > 0 ? "its" : "any"} child runs. External effects of its tasks are not undone.</p>
    </ActionDialog>
  );
}

function SignalDialog({ run, onClose, onChanged }: { run: Run; onClose(): void; onChanged(): void }) {
  const waits = (run.waits ?? []).map((wait) => wait.name).filter((name): name is string => Boolean(name));
  const [name, setName] = useState(waits[0] ?? "");
  const [data, setData] = useState("");
  const key = useRef(newIdempotencyKey());
  const send = async () => {
    const parsed = parseJsonField("Data", data);
    await api.signal(run.run, { name: name.trim(), ...(parsed === undefined ? {} : { data: parsed }) }, key.current);
    onChanged();
  };
  return (
    <ActionDialog title="Send a signal" confirm="Send" onClose={onClose} action={send}>
      <Field label="Name" hint={waits.length > 0 ? `The run waits for: ${waits.join(", ")}` : "The run waits for no signal now; a signal is buffered until a step waits for it."}>
        <input type="text" value={name} required autoFocus list="waits" onChange={(event) => setName(event.target.value)} />
      </Field>
      <datalist id="waits">
        {waits.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <Field label="Data" hint="JSON, optional.">
        <textarea rows={5} value={data} spellCheck={false} placeholder={'{ "approved": true }'} onChange={(event) => setData(event.target.value)} />
      </Field>
    </ActionDialog>
  );
}

/** `failed`: the known number of failed loop iterations. */
export function RetryDialog({ id, failed, onClose }: { id: string; failed: number; onClose(): void }) {
  const retry = async () => {
    const started = await api.retry(id);
    navigate(to(["runs", started.run]));
  };
  return (
    <ActionDialog title="Retry what failed?" confirm="Retry failed" onClose={onClose} action={retry}>
      <p className="muted">A new run continues from the first failure. {failed > 0 ? `It retries ${plural(failed, "failed iteration")} and everything that depends on ${failed === 1 ? "it" : "them"}. ` : ""}Successful results are reused. This run stays unchanged.</p>
    </ActionDialog>
  );
}

export function RestartDialog({ id, from, onClose }: { id: string; from: string; onClose(): void }) {
  const [set, setSet] = useState("");
  const restart = async () => {
    const parsed = parseJsonField("Variables", set);
    const started = await api.restart(id, { from, ...(parsed === undefined ? {} : { set: parsed }) });
    navigate(to(["runs", started.run]));
  };
  return (
    <ActionDialog title="Restart from here?" confirm="Restart" onClose={onClose} action={restart}>
      <p className="muted">
        A new run reuses all results before <code className="wrap">{from}</code> and executes this step and everything after it again, including side effects. This run stays unchanged.
      </p>
      <Field label="Override variables" hint="A JSON object, optional.">
        <textarea rows={4} value={set} spellCheck={false} placeholder={'{ "cursor": "c41" }'} onChange={(event) => setSet(event.target.value)} />
      </Field>
    </ActionDialog>
  );
}
