import { useState } from "react";
import { Button, Field } from "../components/common";
import { Icon, Logo } from "../components/icons";

export function SignIn({ rejected, onToken }: { rejected: boolean; onToken(token: string): void }) {
  const [token, setToken] = useState("");
  return (
    <main className="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim()) onToken(token.trim());
        }}
      >
        <div className="row">
          <Logo />
          <h1>Windlass</h1>
        </div>
        <p className="muted">
          {rejected ? "This token is unknown or revoked." : "This server requires a token."} <code>windlass serve</code> prints a URL that
          contains one; <code>windlass token</code> creates more.
        </p>
        <Field label="Token" problem={null} hint="Stored in this tab only, until it is closed.">
          <input type="password" value={token} autoFocus autoComplete="off" spellCheck={false} placeholder="wl_…" onChange={(event) => setToken(event.target.value)} />
        </Field>
        <Button type="submit" variant="primary" disabled={!token.trim()}>
          <Icon name="key" /> Sign in
        </Button>
      </form>
    </main>
  );
}
