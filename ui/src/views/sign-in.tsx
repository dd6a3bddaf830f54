import { useEffect, useState } from "react";
import type { Problem } from "../api/client";
import { checkSession, signIn, type Access } from "../api/session";
import { Button, Field } from "../components/common";
import { Icon, Logo } from "../components/icons";

/** Asks for a token. The URL stays as it is, so that the view that it names follows. */
export function SignIn({ problem, onAccess }: { problem: Problem | null; onAccess(access: Access): void }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  // The user may have signed in in another tab meanwhile.
  useEffect(() => {
    const check = () => {
      if (document.visibilityState !== "visible") return;
      checkSession().then((access) => { if (access.state === "granted") onAccess(access); }, () => undefined);
    };
    document.addEventListener("visibilitychange", check);
    window.addEventListener("focus", check);
    return () => {
      document.removeEventListener("visibilitychange", check);
      window.removeEventListener("focus", check);
    };
  }, [onAccess]);
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!token.trim() || busy) return;
          setBusy(true);
          void signIn(token.trim()).then((access) => {
            setBusy(false);
            onAccess(access);
          });
        }}
      >
        <div className="row">
          <Logo />
          <h1>Windlass</h1>
        </div>
        <p className="muted">
          This server requires a token. The first one is in the file <code>token</code> of its store, such as <code>.windlass/token</code>;{" "}
          <code>windlass token create</code> creates more.
        </p>
        <Field label="Token" problem={problem === null ? null : rejection(problem)} hint="This browser stays signed in, in all its tabs. The token itself is not kept.">
          <input type="password" value={token} autoFocus autoComplete="off" spellCheck={false} placeholder="wl_…" onChange={(event) => setToken(event.target.value)} />
        </Field>
        <Button type="submit" variant="primary" disabled={!token.trim() || busy}>
          <Icon name="key" /> Sign in
        </Button>
      </form>
    </main>
  );
}

function rejection(problem: Problem): string {
  if (problem.status !== 401) return problem.detail || problem.message;
  return problem.detail.includes("link") ? "This sign-in link was used already, or is too old." : "This token is unknown or revoked.";
}
