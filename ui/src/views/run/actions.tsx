// What can be done with a run; each button only where it makes sense.

import { useRef, useState } from "react";
import { api, asProblem, newKey, type Problem, type Run } from "../../api";
import { many, typedJson } from "../../lib/format";
import { navigate, to } from "../../lib/router";
import { hasEnded, isBad } from "../../lib/status";
import { Button, DeedDialog, Field, ProblemBox } from "../../parts/small";

type Asking = "cancel" | "signal" | "retry" | "remove" | null;

export function RunActions({ run, onChanged }: { run: Run; onChanged(): void }) {
  const [asking, setAsking] = useState<Asking>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const ended = hasEnded(run.status);
  // A failure that the run has tolerated can be mended too.
  const failed = run.status !== "succeeded" || Object.values(run.steps ?? {}).some((step) => (step.loop?.failed ?? 0) > 0 || isBad(step.status));
  const act = (call: () => Promise<unknown>) => {
    setBusy(true);
    setProblem(null);
    call()
      .then(onChanged, (error: unknown) => setProblem(asProblem(error)))
      .finally(() => setBusy(false));
  };
  const close = () => setAsking(null);
  return (
    <div className="run-actions">
      <div className="page-actions">
        {!ended && run.status !== "paused" ? (
          <Button icon="pause" disabled={busy} onClick={() => act(() => api.pause(run.run))}>
            Pause
          </Button>
        ) : null}
        {run.status === "paused" ? (
          <Button icon="play" look="primary" disabled={busy} onClick={() => act(() => api.resume(run.run))}>
            Resume
          </Button>
        ) : null}
        {ended ? null : (
          <>
            <Button icon="bell" disabled={busy} onClick={() => setAsking("signal")}>
              Signal
            </Button>
            <Button icon="stop" look="danger" disabled={busy} onClick={() => setAsking("cancel")}>
              Cancel
            </Button>
          </>
        )}
        {ended && failed ? (
          <Button icon="retry" look="primary" disabled={busy} onClick={() => setAsking("retry")}>
            Retry failed
          </Button>
        ) : null}
        {ended ? (
          <Button icon="trash" look="danger" disabled={busy} onClick={() => setAsking("remove")}>
            Remove
          </Button>
        ) : null}
      </div>
      {problem ? <ProblemBox problem={problem} /> : null}
      {asking === "cancel" ? <CancelDialog run={run} onClose={close} onChanged={onChanged} /> : null}
      {asking === "signal" ? <SignalDialog run={run} onClose={close} onChanged={onChanged} /> : null}
      {asking === "remove" ? <RemoveDialog run={run} onClose={close} /> : null}
      {asking === "retry" ? <RetryDialog id={run.run} failed={Object.values(run.steps ?? {}).reduce((sum, step) => sum + (step.loop?.failed ?? 0), 0)} onClose={close} /> : null}
    </div>
  );
}

function CancelDialog({ run, onClose, onChanged }: { run: Run; onClose(): void; onChanged(): void }) {
  const [reason, setReason] = useState("");
  const deed = async () => {
    await api.cancel(run.run, reason.trim());
    onChanged();
  };
  return (
    <DeedDialog title="Cancel this run?" verb="Cancel the run" danger onClose={onClose} deed={deed}>
      <p className="muted">It ends as cancelled, with all that it has called. What tasks have done already stays done.</p>
      <Field label="Reason" hint="Is kept with the run.">
        <input type="text" value={reason} autoFocus onChange={(event) => setReason(event.target.value)} />
      </Field>
    </DeedDialog>
  );
}

function RemoveDialog({ run, onClose }: { run: Run; onClose(): void }) {
  const deed = async () => {
    await api.removeRun(run.run);
    navigate("/runs");
  };
  return (
    <DeedDialog title="Remove this run?" verb="Remove the run" danger onClose={onClose} deed={deed}>
      <p className="muted">Its input, output, events and turns are gone for good, {(run.children ?? []).length > 0 ? "and so are the runs that it has called" : "with all runs that it may have called"}. What its tasks have done elsewhere stays done.</p>
    </DeedDialog>
  );
}

function SignalDialog({ run, onClose, onChanged }: { run: Run; onClose(): void; onChanged(): void }) {
  const waits = (run.waits ?? []).map((wait) => wait.name).filter((name): name is string => Boolean(name));
  const [name, setName] = useState(waits[0] ?? "");
  const [data, setData] = useState("");
  const key = useRef(newKey());
  const deed = async () => {
    const parsed = typedJson("Data", data);
    await api.signal(run.run, { name: name.trim(), ...(parsed === undefined ? {} : { data: parsed }) }, key.current);
    onChanged();
  };
  return (
    <DeedDialog title="Send a signal" verb="Send" onClose={onClose} deed={deed}>
      <Field label="Name" hint={waits.length > 0 ? `The run waits for: ${waits.join(", ")}` : "The run waits for no signal now; it is kept until one is waited for."}>
        <input type="text" value={name} required autoFocus list="waits" onChange={(event) => setName(event.target.value)} />
      </Field>
      <datalist id="waits">
        {waits.map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <Field label="Data" hint="JSON, or nothing.">
        <textarea rows={5} value={data} spellCheck={false} placeholder={'{ "approved": true }'} onChange={(event) => setData(event.target.value)} />
      </Field>
    </DeedDialog>
  );
}

/** `failed`: turns of loops that failed, as far as they are known. */
export function RetryDialog({ id, failed, onClose }: { id: string; failed: number; onClose(): void }) {
  const deed = async () => {
    const started = await api.retry(id);
    navigate(to(["runs", started.run]));
  };
  return (
    <DeedDialog title="Run again what failed?" verb="Retry failed" onClose={onClose} deed={deed}>
      <p className="muted">A new run goes on from the first failure. {failed > 0 ? `Done again: ${many(failed, "turn")} that failed, and what follows from ${failed === 1 ? "it" : "them"}. ` : ""}What has succeeded is taken over and not done again. This run stays as it is.</p>
    </DeedDialog>
  );
}

export function RestartDialog({ id, from, onClose }: { id: string; from: string; onClose(): void }) {
  const [set, setSet] = useState("");
  const deed = async () => {
    const parsed = typedJson("The variables", set);
    const started = await api.restart(id, { from, ...(parsed === undefined ? {} : { set: parsed }) });
    navigate(to(["runs", started.run]));
  };
  return (
    <DeedDialog title="Restart from here?" verb="Restart" onClose={onClose} deed={deed}>
      <p className="muted">
        A new run takes over everything up to <code className="wrap">{from}</code> and does that and all after it again, with its side effects. This run stays as it is.
      </p>
      <Field label="Change variables first" hint="An object of JSON, or nothing.">
        <textarea rows={4} value={set} spellCheck={false} placeholder={'{ "cursor": "c41" }'} onChange={(event) => setSet(event.target.value)} />
      </Field>
    </DeedDialog>
  );
}
