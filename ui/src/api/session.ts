// The sign-in state of this browser. The server keeps it in a cookie that no script can read; all tabs share it.

import { useSyncExternalStore } from "react";
import { asProblem, request, setCsrfToken, type Problem } from "./client";

export interface Session {
  /** Whether the server requires a token. */
  authentication: boolean;
  signed_in: boolean;
  token_name?: string;
  scopes: string[];
  csrf_token?: string;
  expires_at?: string;
}

/** `required`: the user must sign in; `problem` says why a token or link was rejected. */
export type Access = { state: "granted" } | { state: "required"; problem: Problem | null };

let session: Session | null = null;
const listeners = new Set<() => void>();

function accept(next: Session): Access {
  session = next;
  setCsrfToken(next.csrf_token ?? null);
  listeners.forEach((listener) => listener());
  return next.signed_in ? { state: "granted" } : { state: "required", problem: null };
}

/** Takes the code of a sign-in link from the URL fragment, which browsers do not send, and clears it. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("sign-in");
  if (code !== null) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Signs in with the link by which the page was opened, or returns whether an earlier sign-in still holds. */
export async function beginSession(): Promise<Access> {
  const code = takeCode();
  const linked = code === null ? null : await signIn(code);
  if (linked?.state === "granted") return linked;
  // While the server does not respond, the views report that and retry.
  const access = await checkSession().catch((): Access => ({ state: "granted" }));
  return access.state === "required" && linked !== null ? linked : access;
}

/** Asks the server whether this browser is signed in. */
export function checkSession(): Promise<Access> {
  return request<Session>("/session").then(accept);
}

/** Exchanges a token, or the code of a sign-in link, for the cookie. The page does not keep it. */
export function signIn(secret: string): Promise<Access> {
  const headers = { Authorization: `Bearer ${secret}` };
  return request<Session>("/session", { method: "POST", headers }).then(accept, (error: unknown) => ({ state: "required", problem: asProblem(error) }));
}

/** Ends the session in all tabs. */
export async function signOut(): Promise<void> {
  await request("/session", { method: "DELETE" });
  location.assign("/");
}

export function useSession(): Session | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );
}
