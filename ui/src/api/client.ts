// One way to the server: fetch with the token, problems as errors.

import { heard } from "./reach";
import type { FieldProblem, Json, Report } from "./types";

export const BASE = "/api/v1";
const KEPT_AS = "windlass.token";

let token: string | null = null;
const refusedListeners = new Set<() => void>();

/** Takes the token from the address, where it must not stay, or from this tab's memory. */
export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEPT_AS, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
  token = sessionStorage.getItem(KEPT_AS);
}

export function setToken(given: string | null): void {
  token = given;
  if (given === null) sessionStorage.removeItem(KEPT_AS);
  else sessionStorage.setItem(KEPT_AS, given);
}

export function hasToken(): boolean {
  return token !== null;
}

/** Called when the server does not know this token (any more). */
export function onRefused(listener: () => void): () => void {
  refusedListeners.add(listener);
  return () => refusedListeners.delete(listener);
}

export function authorised(headers: Record<string, string> = {}): Record<string, string> {
  return token === null ? headers : { ...headers, Authorization: `Bearer ${token}` };
}

/** What the server answers instead of a result: problem+json. */
export class Problem extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly hint: string | null;
  readonly where: string | null;
  readonly problems: (Report | FieldProblem)[];

  constructor(status: number, body: Partial<Record<string, unknown>>) {
    const title = text(body["title"]) ?? `The server answered ${status}`;
    super(title);
    this.status = status;
    this.code = text(body["code"]) ?? "";
    this.detail = text(body["detail"]) ?? "";
    this.hint = text(body["hint"]);
    this.where = text(body["where"]);
    this.problems = Array.isArray(body["problems"]) ? (body["problems"] as (Report | FieldProblem)[]) : [];
  }
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export async function problemOf(response: Response): Promise<Problem> {
  if (response.status === 401) refusedListeners.forEach((listener) => listener());
  const body = await response.text().catch(() => "");
  try {
    const parsed: unknown = JSON.parse(body);
    if (parsed !== null && typeof parsed === "object") return new Problem(response.status, parsed);
  } catch {
    // Not JSON: something between the page and the server answered.
  }
  return new Problem(response.status, { detail: body.slice(0, 300) });
}

export type Query = Record<string, string | number | boolean | null | undefined>;

export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return BASE + path + (search ? `?${search}` : "");
}

interface Asked {
  method?: string;
  query?: Query;
  body?: Json;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function request<T>(path: string, asked: Asked = {}): Promise<T> {
  const headers = authorised({ Accept: "application/json", ...asked.headers });
  if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method: asked.method ?? "GET", headers };
  if (asked.body !== undefined) init.body = JSON.stringify(asked.body);
  if (asked.signal) init.signal = asked.signal;
  let response: Response;
  try {
    response = await fetch(address(path, asked.query), init);
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    heard(false);
    throw new Problem(0, {
      detail: "The server does not answer.",
      hint: "is `windlass serve` or `windlass dev` still running?",
    });
  }
  heard(true);
  if (!response.ok) throw await problemOf(response);
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
