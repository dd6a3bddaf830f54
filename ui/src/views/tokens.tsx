// Who may do what.

import { useState } from "react";
import { api, asProblem, type Problem, type Token } from "../api";
import { useLoad } from "../api/use";
import { useKeys } from "../lib/keys";
import { Ago, Button, Copy, DeedDialog, Dialog, Empty, Field, PageHead, ProblemBox, Waiting } from "../parts/small";

export const SCOPES: { id: string; means: string }[] = [
  { id: "read", means: "look at everything but tokens and the audit log" },
  { id: "run", means: "start runs, and look" },
  { id: "control", means: "pause, cancel, signal, answer, retry, restart, and look" },
  { id: "work", means: "take tasks, as a worker does" },
  { id: "admin", means: "everything, also register, remove, and make tokens" },
];

const DAY = 86_400;
const LIVES: { seconds: number; said: string }[] = [
  { seconds: DAY, said: "a day" },
  { seconds: 30 * DAY, said: "30 days" },
  { seconds: 90 * DAY, said: "90 days" },
  { seconds: 365 * DAY, said: "a year" },
  { seconds: 0, said: "no end" },
];

export default function Tokens() {
  const list = useLoad("tokens", (signal) => api.tokens(signal));
  const [making, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  useKeys({ n: () => setMaking(true) });
  return (
    <div className="page">
      <PageHead title="Tokens" note="Who may use this server, and for what">
        <Button look="primary" icon="key" onClick={() => setMaking(true)}>
          Make a token
        </Button>
      </PageHead>
      {list.problem ? <ProblemBox problem={list.problem} onRetry={list.reload} /> : null}
      {list.value === null ? (
        list.problem ? null : <Waiting />
      ) : list.value.items.length === 0 ? (
        <Empty title="No tokens" />
      ) : (
        <div className="panel table-wrap">
          <table className="table cards">
            <thead><tr><th>Name</th><th>May</th><th>Made</th><th>Last used</th><th>Ends</th><th><span className="unseen">Revoke</span></th></tr></thead>
            <tbody>
              {list.value.items.map((one) => (
                <tr key={one.id}>
                  <td className="wrap"><span className="strong">{one.name}</span> <span className="mono small faint">{one.id}</span></td>
                  <td data-label="May">{one.scopes.map((scope) => <span key={scope} className="tag">{scope}</span>)}</td>
                  <td data-label="Made" className="muted"><Ago at={one.created_at} />{one.by ? ` by ${list.value?.items.find((other) => other.id === one.by)?.name ?? one.by}` : ""}</td>
                  <td data-label="Last used" className="muted nowrap">{one.last_used ? <Ago at={one.last_used} /> : "never"}</td>
                  <td data-label="Ends" className="muted nowrap">{one.expires_at ? <Ago at={one.expires_at} /> : "never"}</td>
                  <td className="end"><Button className="small" look="danger" onClick={() => setRevoking(one)}>Revoke</Button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {making ? <MakeToken onClose={() => setMaking(false)} onMade={list.reload} /> : null}
      {revoking ? (
        <DeedDialog
          title={`Revoke the token ${revoking.name}?`}
          verb="Revoke it"
          danger
          onClose={() => setRevoking(null)}
          deed={async () => {
            await api.revokeToken(revoking.id);
            list.reload();
          }}
        >
          <p className="muted">Whoever uses it is refused from now on. It cannot be brought back.</p>
        </DeedDialog>
      ) : null}
    </div>
  );
}

function MakeToken({ onClose, onMade }: { onClose(): void; onMade(): void }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<string[]>(["read"]);
  const [lives, setLives] = useState(90 * DAY);
  const [made, setMade] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const make = () => {
    setBusy(true);
    setProblem(null);
    api
      .createToken({ name: name.trim(), scopes, ...(lives > 0 ? { expires_in_seconds: lives } : {}) })
      .then(
        (token) => {
          setMade(token.token);
          onMade();
        },
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };
  if (made !== null) {
    return (
      <Dialog title={`The token ${name.trim()}`} onClose={onClose}>
        <div className="stack">
          <p className="warn-note">It is shown this once. Keep it where secrets are kept.</p>
          <p className="row secret"><code className="wrap grow">{made}</code><Copy text={made} label="Copy the token" /></p>
          <footer><Button look="primary" onClick={onClose}>Done</Button></footer>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Make a token" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          make();
        }}
      >
        <Field label="Name" hint="For whom or what it is; it stands in the audit log.">
          <input type="text" value={name} required maxLength={100} onChange={(event) => setName(event.target.value)} />
        </Field>
        <fieldset className="group-field">
          <legend>It may</legend>
          {SCOPES.map(({ id, means }) => (
            <label key={id} className="check">
              <input type="checkbox" checked={scopes.includes(id)} onChange={(event) => setScopes((old) => (event.target.checked ? [...old, id] : old.filter((one) => one !== id)))} />
              <span><strong>{id}</strong> <span className="muted">{means}</span></span>
            </label>
          ))}
        </fieldset>
        <Field label="It lives for">
          <select value={lives} onChange={(event) => setLives(Number(event.target.value))}>
            {LIVES.map(({ seconds, said }) => <option key={seconds} value={seconds}>{said}</option>)}
          </select>
        </Field>
        {problem ? <ProblemBox problem={problem} /> : null}
        <footer>
          <Button onClick={onClose}>Back</Button>
          <Button type="submit" look="primary" disabled={busy || scopes.length === 0 || name.trim() === ""}>Make it</Button>
        </footer>
      </form>
    </Dialog>
  );
}
