// The HTTP client: fetch with the bearer token; error responses become `Problem` exceptions.

import { reportReachable } from "./reachability";
import type { FieldProblem, Json, DefinitionProblem } from "./types";

export const BASE = "/api/v1";
const STORAGE_KEY = "windlass.token";

let token: string | null = null;
const unauthorizedListeners = new Set<() => void>();

/** Loads the token from the URL fragment, which is then cleared so that the token does not stay there, or from this tab's session storage. */
export function loadToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(STORAGE_KEY, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = sessionStorage.getItem(STORAGE_KEY);
}

export function setToken(next: string | null): void {
  token = next;
  if (next === null) sessionStorage.removeItem(STORAGE_KEY);
  else sessionStorage.setItem(STORAGE_KEY, next);
}

export function hasToken(): boolean {
  return token !== null;
}

/** Registers a listener that is called when the server rejects the token as unknown or revoked. */
export function onUnauthorized(listener: () => void): () => void {
  unauthorizedListeners.add(listener);
  return () => unauthorizedListeners.delete(listener);
}

export function withAuthorization(headers: Record<string, string> = {}): Record<string, string> {
  return token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
}

/** An error response of the server (`application/problem+json`). */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly hint: string | null;
  readonly where: string | null;
  readonly problems: (DefinitionProblem | FieldProblem)[];

  constructor(status: number, body: Partial<Record<string, unknown>>) {
    const title = text(body["title"]) ?? `The server responded with status ${status}`;
    super(title);
    this.status = status;
    this.code = text(body["code"]) ?? "";
    this.detail = text(body["detail"]) ?? "";
    this.hint = text(body["hint"]);
    this.where = text(body["where"]);
    this.problems = Array.isArray(body["problems"]) ? (body["problems"] as (DefinitionProblem | FieldProblem)[]) : [];
  }
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export async function parseProblem(response: Response): Promise<Problem> {
  if (response.status === 401) unauthorizedListeners.forEach((listener) => listener());
  const body = await response.text().catch(() => "");
  try {
    const parsed: unknown = JSON.parse(body);
    if (parsed !== null && typeof parsed === "object") return new Problem(response.status, parsed);
  } catch {
    // Not JSON: the response came from an intermediary such as a proxy.
  }
  return new Problem(response.status, { detail: body.slice(0, 300) });
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function apiUrl(path: string, query: Query = {}): string {
  const present = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(present.map(([key, value]) => [key, String(value)])).toString();
  return BASE + path + (search ? `?${search}` : "");
}

interface RequestOptions {
  method?: string;
  query?: Query;
  body?: Json;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  const headers = withAuthorization({ Accept: "application/json", ...options.headers });
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method: options.method ?? "GET", headers };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  if (options.signal) init.signal = options.signal;
  let response: Response;
  try {
    response = await fetch(apiUrl(path, options.query), init);
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reportReachable(false);
    throw new Problem(0, {
      detail: "The server is not reachable.",
      hint: "check that `windlass serve` or `windlass dev` is running",
    });
  }
  reportReachable(true);
  if (!response.ok) throw await parseProblem(response);
  const body = await response.text();
  return (body === "" ? null : JSON.parse(body)) as T;
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, { title: "Something went wrong", detail: error instanceof Error ? error.message : String(error) });
}
