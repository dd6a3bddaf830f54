import { useState } from "react";
import { Icon, Logo } from "../parts/icons";
import { Button, Field } from "../parts/small";

export function SignIn({ again, onToken }: { again: boolean; onToken(token: string): void }) {
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
          {again ? "The server does not know this token (any more)." : "This server wants a token."} <code>windlass serve</code> prints an address
          that holds one; <code>windlass token</code> makes more.
        </p>
        <Field label="Token" problem={null} hint="It is kept in this tab only, until it is closed.">
          <input type="password" value={token} autoFocus autoComplete="off" spellCheck={false} placeholder="wl_…" onChange={(event) => setToken(event.target.value)} />
        </Field>
        <Button type="submit" look="primary" disabled={!token.trim()}>
          <Icon name="key" /> Sign in
        </Button>
      </form>
    </main>
  );
}
