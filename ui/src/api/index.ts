// The API calls, one function per route.

import { request, type Query } from "./client";
import type * as T from "./types";

const segment = encodeURIComponent;
const run = (id: string) => `/runs/${segment(id)}`;
const definition = (name: string) => `/definitions/${segment(name)}`;
type Signal = AbortSignal | undefined;

const get = <R>(path: string, query?: Query, signal?: Signal) =>
  request<R>(path, { ...(query ? { query } : {}), ...(signal ? { signal } : {}) });
const post = <R>(path: string, body: T.Json = {}, headers?: Record<string, string>) =>
  request<R>(path, { method: "POST", body, ...(headers ? { headers } : {}) });

const remove = <R>(path: string) => request<R>(path, { method: "DELETE" });

export interface StartedRun {
  run: string;
  status?: string;
  created?: boolean;
  /** Inputs that the definition does not use. */
  warnings?: { message: string; hint?: string | null }[];
}

export const api = {
  runs: (query: Query, signal?: Signal) => get<T.Page<T.RunSummary>>("/runs", query, signal),
  counts: (query: Query, signal?: Signal) => get<{ items: T.StatusCount[] }>("/runs/counts", query, signal),
  run: (id: string, signal?: Signal) => get<T.Run>(run(id), undefined, signal),
  graph: (id: string, signal?: Signal) => get<T.Graph>(`${run(id)}/graph`, undefined, signal),
  steps: (id: string, query: Query, signal?: Signal) => get<T.StepPage>(`${run(id)}/steps`, query, signal),
  loops: (id: string, query: Query, signal?: Signal) => get<T.Page<T.Loop>>(`${run(id)}/loops`, query, signal),
  iterations: (id: string, query: Query, signal?: Signal) => get<T.IterationPage>(`${run(id)}/iterations`, query, signal),
  strip: (id: string, loop: string, cells: number, signal?: Signal) =>
    get<T.Strip>(`${run(id)}/strip`, { loop, cells }, signal),
  logs: (id: string, query: Query, signal?: Signal) => get<T.LogPage>(`${run(id)}/logs`, query, signal),
  journal: (id: string, query: Query, signal?: Signal) =>
    get<T.Page<T.JournalEntry>>(`${run(id)}/journal`, query, signal),
  events: (id: string, query: Query, signal?: Signal) => get<T.Page<T.Event>>(`${run(id)}/events`, query, signal),
  value: (id: string, hash: string) => get<T.Json>(`${run(id)}/values/${segment(hash)}?resolve=true`),
  eventsPath: (id: string) => `${run(id)}/events`,

  start: (body: { definition: string; version?: number; input?: T.Json }, key: string) =>
    post<StartedRun>("/runs", body as T.Json, { "Idempotency-Key": key }),
  pause: (id: string) => post<T.Json>(`${run(id)}/pause`),
  resume: (id: string) => post<T.Json>(`${run(id)}/resume`),
  cancel: (id: string, reason: string) => post<T.Json>(`${run(id)}/cancel`, reason ? { reason } : {}),
  signal: (id: string, body: { name: string; data?: T.Json; step?: string }, key: string) =>
    post<{ delivery?: string }>(`${run(id)}/signal`, body as T.Json, { "Idempotency-Key": key }),
  retry: (id: string) => post<StartedRun & { reused?: number }>(`${run(id)}/retry`),
  restart: (id: string, body: { from: string; set?: T.Json }) => post<StartedRun>(`${run(id)}/restart`, body as T.Json),

  removeRun: (id: string) => remove<{ removed: number }>(run(id)),

  definitions: (query: Query, signal?: Signal) => get<T.Page<T.DefinitionSummary>>("/definitions", query, signal),
  definition: (name: string, version?: number | null, signal?: Signal) =>
    get<T.Definition>(definition(name) + (version ? `/versions/${version}` : ""), undefined, signal),
  versions: (name: string, signal?: Signal) => get<T.Page<T.DefinitionVersion>>(`${definition(name)}/versions`, undefined, signal),
  definitionGraph: (name: string, version?: number | null, signal?: Signal) =>
    get<T.Graph>(`${definition(name)}/graph`, { version: version ?? null }, signal),
  check: (body: { source: string; name?: string; dialect?: string }, signal?: Signal) =>
    request<T.CheckResult>("/definitions/check", { method: "POST", body: body as T.Json, ...(signal ? { signal } : {}) }),
  register: (body: { source: string; name?: string; dialect?: string }) =>
    post<T.RegisteredDefinition>("/definitions", body as T.Json),
  enable: (name: string, on: boolean) => post<T.Json>(`${definition(name)}/${on ? "enable" : "disable"}`),
  removeDefinition: (name: string) => remove<{ open_runs: boolean }>(definition(name)),

  approvals: (query: Query = {}, signal?: Signal) => get<T.Page<T.Approval>>("/approvals", query, signal),
  approve: (id: string, name: string, data: T.Json) => post<T.Json>(`${run(id)}/approvals/${segment(name)}`, { data }),
  triggers: (signal?: Signal) => get<T.Page<T.Trigger>>("/triggers", undefined, signal),
  setTrigger: (name: string, trigger: string, body: T.Json) =>
    request<T.Trigger | null>(`${definition(name)}/triggers/${segment(trigger)}`, { method: "PUT", body }),
  tokens: (signal?: Signal) => get<T.Page<T.Token>>("/tokens", undefined, signal),
  createToken: (body: { name: string; scopes: string[]; expires_in_seconds?: number }) => post<T.Token & { token: string }>("/tokens", body as T.Json),
  revokeToken: (id: string) => remove<T.Json>(`/tokens/${segment(id)}`),
  audit: (query: Query, signal?: Signal) => get<T.AuditPage>("/audit", query, signal),
  workers: (signal?: Signal) => get<T.WorkerList>("/workers", undefined, signal),
  drain: (worker: string) => post<T.Json>(`/workers/${segment(worker)}/drain`),
  openapi: (signal?: Signal) => get<{ info?: { version?: string; title?: string } }>("/openapi.json", undefined, signal),
};

/** Creates an idempotency key, one per user action, so that repeating the same request has no further effect. */
export function newIdempotencyKey(): string {
  return `ui-${Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export * from "./types";
export { Problem, asProblem } from "./client";
