import { Component, lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { api } from "./api";
import { asProblem, onUnauthorized, type Problem } from "./api/client";
import { useInterval, useLoad } from "./api/hooks";
import { reportReachable, useReachable } from "./api/reachability";
import { signOut, useSession, type Access } from "./api/session";
import { Button, Dialog, Empty, Loading, ProblemBox } from "./components/common";
import { Icon, Logo, Mark, type IconName } from "./components/icons";
import { RunContext } from "./components/run-context";
import { useKeys } from "./lib/keys";
import { Link, navigate, to, useRoute, type Route } from "./lib/router";
import { applyTheme, useTheme, type Theme } from "./lib/theme";
import { SignIn } from "./views/sign-in";
import { Runs } from "./views/runs";

const loadRun = () => import("./views/run");
const loadLoop = () => import("./views/loop");
const RunView = lazy(loadRun);
const LoopView = lazy(loadLoop);
const Definitions = lazy(() => import("./views/definitions"));
const DefinitionView = lazy(() => import("./views/definition"));
const Check = lazy(() => import("./views/check"));
const Approvals = lazy(() => import("./views/approvals"));
const Triggers = lazy(() => import("./views/triggers"));
const Workers = lazy(() => import("./views/workers"));
const Tokens = lazy(() => import("./views/tokens"));
const Audit = lazy(() => import("./views/audit"));
const About = lazy(() => import("./views/about"));

const HEALTH_PROBE_MS = 1500;

/** `wide`: only in the side navigation of wide screens; on narrow screens the About view links to it. */
const NAVIGATION: { part: string; title: string; icon: IconName; key: string; wide?: boolean }[] = [
  { part: "runs", title: "Runs", icon: "runs", key: "g r" },
  { part: "definitions", title: "Definitions", icon: "definitions", key: "g d" },
  { part: "approvals", title: "Approvals", icon: "approvals", key: "g a" },
  { part: "triggers", title: "Triggers", icon: "triggers", key: "g t" },
  { part: "workers", title: "Workers", icon: "workers", key: "g w" },
  { part: "tokens", title: "Tokens", icon: "key", key: "g k", wide: true },
  { part: "audit", title: "Audit log", icon: "log", key: "g l", wide: true },
  { part: "about", title: "About", icon: "about", key: "g i" },
];

function view({ parts, query }: Route): ReactNode {
  const [first = "runs", second, third] = parts;
  switch (first) {
    case "runs":
      if (second === undefined) return <Runs />;
      return (
        <RunContext.Provider value={second}>
          {third === "loop" ? <LoopView key={second} run={second} path={query.get("path") ?? ""} /> : <RunView key={second} id={second} tab={third ?? "graph"} />}
        </RunContext.Provider>
      );
    case "definitions":
      return second === undefined ? <Definitions /> : <DefinitionView key={second} name={second} tab={third ?? "source"} />;
    case "check":
      return <Check />;
    case "approvals":
      return <Approvals />;
    case "triggers":
      return <Triggers />;
    case "workers":
      return <Workers />;
    case "tokens":
      return <Tokens />;
    case "audit":
      return <Audit />;
    case "about":
      return <About />;
    default:
      return (
        <div className="page">
          <Empty title="Page not found">
            <Link to="/runs">All runs</Link>
          </Empty>
        </div>
      );
  }
}

/** `access` is the outcome of the sign-in with which the page began. */
export function App({ access: beginning }: { access: Promise<Access> }) {
  const [access, setAccess] = useState<Access | null>(null);
  useEffect(() => void beginning.then(setAccess), [beginning]);
  useEffect(() => onUnauthorized(() => setAccess((now) => (now?.state === "granted" ? { state: "required", problem: null } : now))), []);
  if (access === null) return null;
  return access.state === "granted" ? <Shell /> : <SignIn problem={access.problem} onAccess={setAccess} />;
}

function Shell() {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  const reachable = useReachable();
  const session = useSession();
  const main = useRef<HTMLElement>(null);
  const here = route.parts[0] ?? "runs";
  const approvals = useLoad("approvals", (signal) => api.approvals({}, signal));
  useInterval(10_000, approvals.reload);
  const waiting = approvals.value?.items.length ?? 0;
  useKeys({
    ...Object.fromEntries(NAVIGATION.map(({ key, part }) => [key, () => navigate(to([part]))])),
    "?": () => setHelp(true),
    "/": () => document.getElementById("search")?.focus(),
    "g c": () => navigate("/check"),
  });
  // Probe an unreachable server; everything that waits for it continues as soon as it responds.
  useInterval(reachable ? null : HEALTH_PROBE_MS, () => {
    fetch("/healthz", { cache: "no-store" }).then(() => reportReachable(true), () => undefined);
  });
  // Prefetch the views that users usually open next.
  useEffect(() => {
    const timer = setTimeout(() => void Promise.all([loadRun(), loadLoop()]).catch(() => undefined), 800);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    const title = NAVIGATION.find(({ part }) => part === here)?.title;
    document.title = title ? `${title} · Windlass` : "Windlass";
  }, [here]);
  // Move the focus to the new view for keyboard and screen reader users; the first view has the focus already.
  const shown = `${route.parts.slice(0, 2).join("/")} ${route.parts[2] === "loop"}`;
  const before = useRef(shown);
  useEffect(() => {
    if (before.current === shown) return;
    before.current = shown;
    if (document.querySelector("dialog[open]") === null) main.current?.focus({ preventScroll: true });
  }, [shown]);
  const item = ({ part, title, icon, key }: (typeof NAVIGATION)[number]) => (
    <Link key={part} to={to([part])} className="nav-item" aria-current={here === part ? "page" : undefined} title={`${title} (${key})`}>
      <Icon name={icon} />
      <span>{title}</span>
      {part === "approvals" && waiting > 0 ? <span className="badge" aria-label={`${waiting} waiting`}>{waiting > 99 ? "99+" : waiting}</span> : null}
    </Link>
  );
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>Skip to content</a>
      <nav className="nav" aria-label="Main">
        <Link to="/runs" className="brand">
          <Logo /> Windlass
        </Link>
        {NAVIGATION.map(item)}
        <div className="nav-foot">
          <ThemeSwitch />
          <div className="foot-line">
            <button type="button" onClick={() => setHelp(true)}>
              <kbd>?</kbd> Shortcuts
            </button>
            {session?.authentication ? (
              <button type="button" onClick={() => void signOut()}>
                <Icon name="out" size={14} /> Sign out
              </button>
            ) : null}
          </div>
        </div>
      </nav>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <ErrorBoundary key={shown}>
          <Suspense
            fallback={
              <div className="page">
                <Loading lines={5} />
              </div>
            }
          >
            {view(route)}
          </Suspense>
        </ErrorBoundary>
      </main>
      <nav className="tab-bar" aria-label="Main">
        {NAVIGATION.filter((one) => !one.wide).map(item)}
      </nav>
      <div className="connection-status" role="status">
        {reachable ? null : (
          <p><Mark status="quarantined" size={14} /> The server is not reachable. Reconnecting …</p>
        )}
      </div>
      {help ? <Help onClose={() => setHelp(false)} /> : null}
    </div>
  );
}

export function ThemeSwitch() {
  const theme = useTheme();
  const choices: { id: Theme; icon: IconName; title: string }[] = [
    { id: "light", icon: "sun", title: "Light" },
    { id: "system", icon: "system", title: "System" },
    { id: "dark", icon: "moon", title: "Dark" },
  ];
  return (
    <div className="theme-switch" role="group" aria-label="Theme">
      {choices.map(({ id, icon, title }) => (
        <button key={id} type="button" aria-pressed={theme === id} title={title} aria-label={title} onClick={() => applyTheme(id)}>
          <Icon name={icon} size={14} />
        </button>
      ))}
    </div>
  );
}

const SHORTCUTS: [string, string][] = [
  ["/", "search"],
  ["j  k", "next, previous row"],
  ["Enter", "open the row"],
  ["g r", "runs"],
  ["g d", "definitions"],
  ["g a", "approvals"],
  ["g t", "triggers"],
  ["g w", "workers"],
  ["g k", "tokens"],
  ["g l", "audit log"],
  ["g c", "check a definition"],
  ["g i", "about this server"],
  ["n", "start a run; in other views, add an entry"],
  ["1 … 7", "tabs of a run"],
  ["f", "failed iterations of a loop, or all"],
  ["+  −  0", "zoom the timeline"],
  ["Esc", "close"],
  ["?", "this list"],
];

function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="keys">
        {SHORTCUTS.map(([keys, action]) => (
          <div key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
      <footer>
        <Button onClick={onClose}>Close</Button>
      </footer>
    </Dialog>
  );
}

/** Keeps the shell working when a view throws. */
class ErrorBoundary extends Component<{ children: ReactNode }, { problem: Problem | null }> {
  override state = { problem: null };

  static getDerivedStateFromError(error: unknown) {
    return { problem: asProblem(error) };
  }

  override render() {
    const { problem } = this.state;
    if (problem === null) return this.props.children;
    return (
      <div className="page">
        <ProblemBox problem={problem} onRetry={() => this.setState({ problem: null })} />
      </div>
    );
  }
}
