import { ThemeSwitch } from "../app";
import { setToken, hasToken } from "../api/client";
import { useEvery, useLoad } from "../api/use";
import { Link } from "../lib/router";
import { Icon, Mark } from "../parts/icons";
import { Button, PageHead } from "../parts/small";

interface Health {
  status?: string;
  version?: string;
  [more: string]: unknown;
}

async function ask(path: string, signal: AbortSignal): Promise<Health & { http: number }> {
  const response = await fetch(path, { signal, headers: { Accept: "application/json" } });
  const text = await response.text();
  try {
    return { ...(JSON.parse(text) as Health), http: response.status };
  } catch {
    return { status: text.slice(0, 80), http: response.status };
  }
}

export default function About() {
  const health = useLoad("healthz", (signal) => ask("/healthz", signal));
  const ready = useLoad("readyz", (signal) => ask("/readyz", signal));
  useEvery(5000, () => {
    health.reload();
    ready.reload();
  });
  const well = (value: { http: number } | null, problem: unknown) => (value ? value.http < 300 : problem ? false : null);
  return (
    <div className="page">
      <PageHead title="About this server" />
      <section className="panel narrow-panel">
        <div className="panel-body">
          <dl className="facts">
            <dt>Version</dt>
            <dd>{health.value?.version ?? "–"}</dd>
            <dt>Lives</dt>
            <dd><Well well={well(health.value, health.problem)} /></dd>
            <dt>Ready</dt>
            <dd><Well well={well(ready.value, ready.problem)} /></dd>
            <dt>Address</dt>
            <dd className="mono">{location.origin}</dd>
            <dt>API</dt>
            <dd><a href="/api/v1/openapi.json" target="_blank" rel="noreferrer" className="row">OpenAPI description <Icon name="external" size={11} /></a></dd>
            <dt>Signed in</dt>
            <dd>{hasToken() ? "with a token, in this tab" : "no token is asked for"}</dd>
            <dt>Colours</dt>
            <dd className="about-theme"><ThemeSwitch /></dd>
          </dl>
        </div>
      </section>
      <div className="row wraps">
        <Link className="button" to="/tokens"><Icon name="key" /> Tokens</Link>
        <Link className="button" to="/audit"><Icon name="log" /> Audit log</Link>
      </div>
      {hasToken() ? (
        <div>
          <Button
            icon="out"
            onClick={() => {
              setToken(null);
              location.assign("/");
            }}
          >
            Sign out
          </Button>
        </div>
      ) : null}
    </div>
  );
}

function Well({ well }: { well: boolean | null }) {
  if (well === null) return <span className="muted">–</span>;
  return <span className={`status ${well ? "tone-good" : "tone-bad"}`}><Mark status={well ? "succeeded" : "failed"} /> {well ? "yes" : "no"}</span>;
}
