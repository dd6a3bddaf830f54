import { Component, lazy, Suspense, useEffect, useRef, useState, type ReactNode } from "react";
import { api } from "./api";
import { asProblem, hasToken, onRefused, setToken, type Problem } from "./api/client";
import { heard, useReached } from "./api/reach";
import { useEvery, useLoad } from "./api/use";
import { useKeys } from "./lib/keys";
import { Link, navigate, to, usePlace, type Place } from "./lib/router";
import { applyTheme, useTheme, type Theme } from "./lib/theme";
import { Icon, Logo, Mark, type IconName } from "./parts/icons";
import { RunOf } from "./parts/run-of";
import { Button, Dialog, Empty, ProblemBox, Waiting } from "./parts/small";
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

const KNOCKS_MS = 1500;

/** `wide`: only beside a wide page; on a narrow one the last view leads there. */
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

function view({ parts, query }: Place): ReactNode {
  const [first = "runs", second, third] = parts;
  switch (first) {
    case "runs":
      if (second === undefined) return <Runs />;
      return (
        <RunOf.Provider value={second}>
          {third === "loop" ? <LoopView key={second} run={second} path={query.get("path") ?? ""} /> : <RunView key={second} id={second} tab={third ?? "graph"} />}
        </RunOf.Provider>
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
          <Empty title="There is nothing at this address">
            <Link to="/runs">All runs</Link>
          </Empty>
        </div>
      );
  }
}

export function App() {
  const [refused, setRefused] = useState(false);
  useEffect(() => onRefused(() => setRefused(true)), []);
  if (refused) {
    return (
      <SignIn
        again={hasToken()}
        onToken={(token) => {
          setToken(token);
          setRefused(false);
        }}
      />
    );
  }
  return <Shell />;
}

function Shell() {
  const place = usePlace();
  const [help, setHelp] = useState(false);
  const reached = useReached();
  const main = useRef<HTMLElement>(null);
  const here = place.parts[0] ?? "runs";
  const approvals = useLoad("approvals", (signal) => api.approvals({}, signal));
  useEvery(10_000, approvals.reload);
  const waiting = approvals.value?.items.length ?? 0;
  useKeys({
    ...Object.fromEntries(NAVIGATION.map(({ key, part }) => [key, () => navigate(to([part]))])),
    "?": () => setHelp(true),
    "/": () => document.getElementById("search")?.focus(),
    "g c": () => navigate("/check"),
  });
  // Somebody has to knock; whatever waits for the server then goes on at once.
  useEvery(reached ? null : KNOCKS_MS, () => {
    fetch("/healthz", { cache: "no-store" }).then(() => heard(true), () => undefined);
  });
  // Where people go next is fetched while they look.
  useEffect(() => {
    const timer = setTimeout(() => void Promise.all([loadRun(), loadLoop()]).catch(() => undefined), 800);
    return () => clearTimeout(timer);
  }, []);
  useEffect(() => {
    const title = NAVIGATION.find(({ part }) => part === here)?.title;
    document.title = title ? `${title} · Windlass` : "Windlass";
  }, [here]);
  // Whoever follows a link by keyboard or hears the page is taken to what has changed; the first view has the focus by itself.
  const shown = `${place.parts.slice(0, 2).join("/")} ${place.parts[2] === "loop"}`;
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
      <a className="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>To the content</a>
      <nav className="nav" aria-label="Main">
        <Link to="/runs" className="brand">
          <Logo /> Windlass
        </Link>
        {NAVIGATION.map(item)}
        <div className="nav-foot">
          <ThemeSwitch />
          <div className="foot-line">
            <button type="button" onClick={() => setHelp(true)}>
              <kbd>?</kbd> Keys
            </button>
            {hasToken() ? (
              <button
                type="button"
                onClick={() => {
                  setToken(null);
                  location.assign("/");
                }}
              >
                <Icon name="out" size={14} /> Sign out
              </button>
            ) : null}
          </div>
        </div>
      </nav>
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <Guard key={shown}>
          <Suspense
            fallback={
              <div className="page">
                <Waiting lines={5} />
              </div>
            }
          >
            {view(place)}
          </Suspense>
        </Guard>
      </main>
      <nav className="tab-bar" aria-label="Main">
        {NAVIGATION.filter((one) => !one.wide).map(item)}
      </nav>
      <div className="link-place" role="status">
        {reached ? null : (
          <p className="link-state"><Mark status="quarantined" size={14} /> The server does not answer. Trying again …</p>
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
    { id: "system", icon: "system", title: "As the system" },
    { id: "dark", icon: "moon", title: "Dark" },
  ];
  return (
    <div className="theme-switch" role="group" aria-label="Colours">
      {choices.map(({ id, icon, title }) => (
        <button key={id} type="button" aria-pressed={theme === id} title={title} aria-label={title} onClick={() => applyTheme(id)}>
          <Icon name={icon} size={14} />
        </button>
      ))}
    </div>
  );
}

const KEYS: [string, string][] = [
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
  ["n", "start a run; on other pages, make one more"],
  ["1 … 7", "tabs of a run"],
  ["f", "failed turns of a loop, or all"],
  ["+  −  0", "zoom the timeline"],
  ["Esc", "close"],
  ["?", "this list"],
];

function Help({ onClose }: { onClose(): void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="keys">
        {KEYS.map(([keys, does]) => (
          <div key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <footer>
        <Button onClick={onClose}>Close</Button>
      </footer>
    </Dialog>
  );
}

/** A view that fails must not take the page with it. */
class Guard extends Component<{ children: ReactNode }, { problem: Problem | null }> {
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
