import { ThemeSwitch } from "../app";
import { useInterval, useLoad } from "../api/hooks";
import { signOut, useSession } from "../api/session";
import { Button, PageHead } from "../components/common";
import { Icon, Mark } from "../components/icons";
import { stamp } from "../lib/format";
import { Link } from "../lib/router";

interface Health {
  status?: string;
  version?: string;
  [more: string]: unknown;
}

async function fetchHealth(path: string, signal: AbortSignal): Promise<Health & { http: number }> {
  const response = await fetch(path, { signal, headers: { Accept: "application/json" } });
  const text = await response.text();
  try {
    return { ...(JSON.parse(text) as Health), http: response.status };
  } catch {
    return { status: text.slice(0, 80), http: response.status };
  }
}

export default function About() {
  const session = useSession();
  const health = useLoad("healthz", (signal) => fetchHealth("/healthz", signal));
  const ready = useLoad("readyz", (signal) => fetchHealth("/readyz", signal));
  useInterval(5000, () => {
    health.reload();
    ready.reload();
  });
  const isOk = (value: { http: number } | null, problem: unknown) => (value ? value.http < 300 : problem ? false : null);
  return (
    <div className="page">
      <PageHead title="About this server" />
      <section className="panel narrow-panel">
        <div className="panel-body">
          <dl className="facts">
            <dt>Version</dt>
            <dd>{health.value?.version ?? "–"}</dd>
            <dt>Healthy</dt>
            <dd><Check ok={isOk(health.value, health.problem)} /></dd>
            <dt>Ready</dt>
            <dd><Check ok={isOk(ready.value, ready.problem)} /></dd>
            <dt>Address</dt>
            <dd className="mono">{location.origin}</dd>
            <dt>API</dt>
            <dd><a href="/api/v1/openapi.json" target="_blank" rel="noreferrer" className="row">OpenAPI description <Icon name="external" size={11} /></a></dd>
            <dt>Signed in</dt>
            <dd>{session?.authentication ? <>as the token <b>{session.token_name}</b> ({session.scopes.join(", ")}){session.expires_at ? `, until ${stamp(session.expires_at)}` : null}</> : "this server requires no token"}</dd>
            <dt>Theme</dt>
            <dd className="about-theme"><ThemeSwitch /></dd>
          </dl>
        </div>
      </section>
      <div className="row wraps">
        <Link className="button" to="/tokens"><Icon name="key" /> Tokens</Link>
        <Link className="button" to="/audit"><Icon name="log" /> Audit log</Link>
      </div>
      {session?.authentication ? (
        <div>
          <Button icon="out" onClick={() => void signOut()}>Sign out</Button>
        </div>
      ) : null}
    </div>
  );
}

function Check({ ok }: { ok: boolean | null }) {
  if (ok === null) return <span className="muted">–</span>;
  return <span className={`status ${ok ? "tone-good" : "tone-bad"}`}><Mark status={ok ? "succeeded" : "failed"} /> {ok ? "yes" : "no"}</span>;
}
