// Access tokens and their scopes.

import { useState } from "react";
import { api, asProblem, type Problem, type Token } from "../api";
import { useLoad } from "../api/hooks";
import { ActionDialog, Ago, Button, Copy, Dialog, Empty, Field, Loading, PageHead, ProblemBox } from "../components/common";
import { useKeys } from "../lib/keys";

export const SCOPES: { id: string; description: string }[] = [
  { id: "read", description: "read everything except tokens and the audit log" },
  { id: "run", description: "start runs; includes read" },
  { id: "control", description: "pause, cancel, signal, answer, retry, restart; includes read" },
  { id: "work", description: "lease tasks, for workers" },
  { id: "admin", description: "everything, including register, remove and create tokens" },
];

const DAY = 86_400;
const LIFETIMES: { seconds: number; label: string }[] = [
  { seconds: DAY, label: "1 day" },
  { seconds: 30 * DAY, label: "30 days" },
  { seconds: 90 * DAY, label: "90 days" },
  { seconds: 365 * DAY, label: "1 year" },
  { seconds: 0, label: "never" },
];

export default function Tokens() {
  const list = useLoad("tokens", (signal) => api.tokens(signal));
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  useKeys({ n: () => setCreating(true) });
  return (
    <div className="page">
      <PageHead title="Tokens" note="Access tokens of this server and their scopes">
        <Button variant="primary" icon="key" onClick={() => setCreating(true)}>
          Create token
        </Button>
      </PageHead>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Loading />
      ) : list.value.items.length === 0 ? (
        <Empty title="No tokens" />
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Name</th><th>Scopes</th><th>Created</th><th>Last used</th><th>Expires</th><th><span className="visually-hidden">Revoke</span></th></tr></thead>
            <tbody>
              {list.value.items.map((one) => (
                <tr key={one.id}>
                  <td className="wrap"><span className="strong">{one.name}</span> <span className="mono small faint">{one.id}</span></td>
                  <td data-label="Scopes">{one.scopes.map((scope) => <span key={scope} className="tag">{scope}</span>)}</td>
                  <td data-label="Created" className="muted"><Ago at={one.created_at} />{one.created_by ? ` by ${list.value?.items.find((other) => other.id === one.created_by)?.name ?? one.created_by}` : ""}</td>
                  <td data-label="Last used" className="muted nowrap">{one.last_used ? <Ago at={one.last_used} /> : "never"}</td>
                  <td data-label="Expires" className="muted nowrap">{one.expires_at ? <Ago at={one.expires_at} /> : "never"}</td>
                  <td className="end"><Button className="small" variant="danger" onClick={() => setRevoking(one)}>Revoke</Button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {creating ? <CreateToken onClose={() => setCreating(false)} onCreated={list.reload} /> : null}
      {revoking ? (
        <ActionDialog
          title={`Revoke the token ${revoking.name}?`}
          confirm="Revoke"
          danger
          onClose={() => setRevoking(null)}
          action={async () => {
            await api.revokeToken(revoking.id);
            list.reload();
          }}
        >
          <p className="muted">Requests with this token are rejected from now on. This cannot be undone.</p>
        </ActionDialog>
      ) : null}
    </div>
  );
}

function CreateToken({ onClose, onCreated }: { onClose(): void; onCreated(): void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read"]);
  const [lifetime, setLifetime] = useState(90 * DAY);
  const [created, setCreated] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const create = () => {
    setBusy(true);
    setProblem(null);
    api
      .createToken({ name: name.trim(), scopes, ...(lifetime > 0 ? { expires_in_seconds: lifetime } : {}) })
      .then(
        (token) => {
          setCreated(token.token);
          onCreated();
        },
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };
  if (created !== null) {
    return (
      <Dialog title={`Token ${name.trim()}`} onClose={onClose}>
        <div className="stack">
          <p className="warn-note">The token is shown only once. Store it securely.</p>
          <p className="row secret"><code className="wrap grow">{created}</code><Copy text={created} label="Copy token" /></p>
          <footer><Button variant="primary" onClick={onClose}>Done</Button></footer>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Create token" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          create();
        }}
      >
        <Field label="Name" hint="Its owner or purpose; appears in the audit log.">
          <input type="text" value={name} required maxLength={100} onChange={(event) => setName(event.target.value)} />
        </Field>
        <fieldset className="group-field">
          <legend>Scopes</legend>
          {SCOPES.map(({ id, description }) => (
            <label key={id} className="check">
              <input type="checkbox" checked={scopes.includes(id)} onChange={(event) => setScopes((old) => (event.target.checked ? [...old, id] : old.filter((one) => one !== id)))} />
              <span><strong>{id}</strong> <span className="muted">{description}</span></span>
            </label>
          ))}
        </fieldset>
        <Field label="Expires after">
          <select value={lifetime} onChange={(event) => setLifetime(Number(event.target.value))}>
            {LIFETIMES.map(({ seconds, label }) => <option key={seconds} value={seconds}>{label}</option>)}
          </select>
        </Field>
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer>
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" variant="primary" disabled={busy || scopes.length === 0 || name.trim() === ""}>Create</Button>
        </footer>
      </form>
    </Dialog>
  );
}
