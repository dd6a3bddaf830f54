// The calls, one line each.

import { request, type Query } from "./client";
import type * as T from "./types";

const part = encodeURIComponent;
const run = (id: string) => `/runs/${part(id)}`;
const definition = (name: string) => `/definitions/${part(name)}`;
type Signal = AbortSignal | undefined;

const get = <R>(path: string, query?: Query, signal?: Signal) =>
  request<R>(path, { ...(query ? { query } : {}), ...(signal ? { signal } : {}) });
const post = <R>(path: string, body: T.Json = {}, headers?: Record<string, string>) =>
  request<R>(path, { method: "POST", body, ...(headers ? { headers } : {}) });

const remove = <R>(path: string) => request<R>(path, { method: "DELETE" });

export interface Started {
  run: string;
  status?: string;
  created?: boolean;
  /** What is given and never read. */
  warnings?: { message: string; hint?: string | null }[];
}

export const api = {
  runs: (query: Query, signal?: Signal) => get<T.Page<T.RunSummary>>("/runs", query, signal),
  counts: (query: Query, signal?: Signal) => get<{ items: T.StatusCount[] }>("/runs/counts", query, signal),
  run: (id: string, signal?: Signal) => get<T.Run>(run(id), undefined, signal),
  graph: (id: string, signal?: Signal) => get<T.Graph>(`${run(id)}/graph`, undefined, signal),
  steps: (id: string, query: Query, signal?: Signal) => get<T.Steps>(`${run(id)}/steps`, query, signal),
  loops: (id: string, query: Query, signal?: Signal) => get<T.Page<T.Loop>>(`${run(id)}/loops`, query, signal),
  turns: (id: string, query: Query, signal?: Signal) => get<T.Turns>(`${run(id)}/turns`, query, signal),
  strip: (id: string, loop: string, cells: number, signal?: Signal) =>
    get<T.Strip>(`${run(id)}/strip`, { loop, cells }, signal),
  journal: (id: string, query: Query, signal?: Signal) =>
    get<T.Page<T.JournalEntry>>(`${run(id)}/journal`, query, signal),
  events: (id: string, query: Query, signal?: Signal) => get<T.Page<T.Event>>(`${run(id)}/events`, query, signal),
  value: (id: string, hash: string) => get<T.Json>(`${run(id)}/values/${part(hash)}`),
  eventsPath: (id: string) => `${run(id)}/events`,

  start: (body: { definition: string; version?: number; input?: T.Json }, key: string) =>
    post<Started>("/runs", body as T.Json, { "Idempotency-Key": key }),
  pause: (id: string) => post<T.Json>(`${run(id)}/pause`),
  resume: (id: string) => post<T.Json>(`${run(id)}/resume`),
  cancel: (id: string, reason: string) => post<T.Json>(`${run(id)}/cancel`, reason ? { reason } : {}),
  signal: (id: string, body: { name: string; data?: T.Json; place?: string }, key: string) =>
    post<{ answer?: string }>(`${run(id)}/signal`, body as T.Json, { "Idempotency-Key": key }),
  retry: (id: string) => post<Started & { reused?: number }>(`${run(id)}/retry`),
  restart: (id: string, body: { from: string; set?: T.Json }) => post<Started>(`${run(id)}/restart`, body as T.Json),

  removeRun: (id: string) => remove<{ removed: number }>(run(id)),

  definitions: (query: Query, signal?: Signal) => get<T.Page<T.DefinitionSummary>>("/definitions", query, signal),
  definition: (name: string, version?: number | null, signal?: Signal) =>
    get<T.Definition>(definition(name) + (version ? `/versions/${version}` : ""), undefined, signal),
  versions: (name: string, signal?: Signal) => get<T.Page<T.Version>>(`${definition(name)}/versions`, undefined, signal),
  definitionGraph: (name: string, version?: number | null, signal?: Signal) =>
    get<T.Graph>(`${definition(name)}/graph`, { version: version ?? null }, signal),
  check: (body: { source: string; name?: string; dialect?: string }, signal?: Signal) =>
    request<T.Checked>("/definitions/check", { method: "POST", body: body as T.Json, ...(signal ? { signal } : {}) }),
  register: (body: { source: string; name?: string; dialect?: string }) =>
    post<T.Registered>("/definitions", body as T.Json),
  enable: (name: string, on: boolean) => post<T.Json>(`${definition(name)}/${on ? "enable" : "disable"}`),
  removeDefinition: (name: string) => remove<{ open_runs: boolean }>(definition(name)),

  approvals: (query: Query = {}, signal?: Signal) => get<T.Page<T.Approval>>("/approvals", query, signal),
  approve: (id: string, name: string, data: T.Json) => post<T.Json>(`${run(id)}/approvals/${part(name)}`, { data }),
  triggers: (signal?: Signal) => get<T.Page<T.Trigger>>("/triggers", undefined, signal),
  setTrigger: (name: string, trigger: string, body: T.Json) =>
    request<T.Trigger | null>(`${definition(name)}/triggers/${part(trigger)}`, { method: "PUT", body }),
  tokens: (signal?: Signal) => get<T.Page<T.Token>>("/tokens", undefined, signal),
  createToken: (body: { name: string; scopes: string[]; expires_in_seconds?: number }) => post<T.Token & { token: string }>("/tokens", body as T.Json),
  revokeToken: (id: string) => remove<T.Json>(`/tokens/${part(id)}`),
  audit: (query: Query, signal?: Signal) => get<T.AuditPage>("/audit", query, signal),
  workers: (signal?: Signal) => get<T.Workers>("/workers", undefined, signal),
  drain: (worker: string) => post<T.Json>(`/workers/${part(worker)}/drain`),
  openapi: (signal?: Signal) => get<{ info?: { version?: string; title?: string } }>("/openapi.json", undefined, signal),
};

/** One for each time a person presses a button: a repeat of the same request is the same deed. */
export function newKey(): string {
  return `page-${Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

export * from "./types";
export { Problem, asProblem } from "./client";
