// The HTTP client: fetch with the session cookie; error responses become `Problem` exceptions.

import { reportReachable } from "./reachability";
import type { FieldProblem, Json, DefinitionProblem } from "./types";

export const BASE = "/api/v1";

/** Proves to the server that a change comes from this page: pages of other origins cannot read it. */
let csrfToken: string | null = null;
const unauthorizedListeners = new Set<() => void>();

export function setCsrfToken(next: string | null): void {
  csrfToken = next;
}

/** Registers a listener that is called when the server rejects a request because the user is not signed in. */
export function onUnauthorized(listener: () => void): () => void {
  unauthorizedListeners.add(listener);
  return () => unauthorizedListeners.delete(listener);
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
  let response = await send(path, options);
  if (response.status === 403 && isChange(options) && (await hasNewCsrfToken())) response = await send(path, options);
  if (!response.ok) throw await parseProblem(response);
  const body = await response.text();
  return (body === "" ? null : JSON.parse(body)) as T;
}

const isChange = (options: RequestOptions) => (options.method ?? "GET") !== "GET";

async function send(path: string, options: RequestOptions): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...options.headers };
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  if (csrfToken !== null && isChange(options)) headers["X-CSRF-Token"] = csrfToken;
  const init: RequestInit = { method: options.method ?? "GET", headers };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  if (options.signal) init.signal = options.signal;
  try {
    const response = await fetch(apiUrl(path, options.query), init);
    reportReachable(true);
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    reportReachable(false);
    throw new Problem(0, {
      detail: "The server is not reachable.",
      hint: "check that `windlass serve` or `windlass dev` is running",
    });
  }
}

/** Another tab may have signed in again, which has changed the CSRF token of this browser. */
async function hasNewCsrfToken(): Promise<boolean> {
  const response = await send("/session", {});
  const known = csrfToken;
  if (response.ok) csrfToken = ((await response.json()) as { csrf_token?: string }).csrf_token ?? null;
  return csrfToken !== known;
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, { title: "Something went wrong", detail: error instanceof Error ? error.message : String(error) });
}
