// The server's response types, as far as the web UI reads them. The full description is /api/v1/openapi.json.

import type { EventOf, EventType } from "./events";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Page<T> {
  items: T[];
  next?: number | string | null;
}

/** One problem of a definition, as in `windlass check --json`. */
export interface DefinitionProblem {
  code: string;
  severity: "error" | "warning";
  message: string;
  file?: string;
  line: number;
  column: number;
  end_line?: number;
  end_column?: number;
  hint?: string | null;
}

/** A problem with one field of a form. */
export interface FieldProblem {
  pointer: string;
  message: string;
}

export interface RunError {
  code?: string;
  /** The error code, such as `WND-2001`; the server has its page. */
  reference?: string;
  kind?: string;
  message: string;
  path?: string;
  hint?: string | null;
  position?: Position | null;
}

export interface Position {
  line: number;
  column: number;
  end_line?: number;
  end_column?: number;
  excerpt?: string;
}

export interface RunSummary {
  run: string;
  /** A decimal string: the number has more digits than a JavaScript number holds. */
  execution_id?: string;
  number?: number;
  definition: string;
  version?: number | null;
  dialect: string;
  status: string;
  created_at: string;
  changed_at: string;
  duration_ms: number;
  parent?: string | null;
  labels?: Record<string, string>;
  error?: RunError | null;
}

export interface StatusCount {
  status: string;
  runs: number;
  /** `runs` is a lower bound. */
  more: boolean;
}

export interface Wait {
  name?: string;
  path?: string;
  kind?: string;
  since?: string;
  deadline?: string;
  form?: Json;
  [more: string]: unknown;
}

export interface Origin {
  restarts?: string;
  retries?: string;
  from?: string;
}

/** An active node of a run, with its active children. */
export interface ActiveNode {
  name: string;
  kind?: string;
  status: string;
  started_at?: string;
  attempt?: number;
  iteration?: number | null;
  /** The time at which it continues by itself: the next iteration, a retry, the end of a wait. */
  due_at?: string;
  loop?: { ended: number; running: number; failed: number };
  children?: ActiveNode[];
}

export interface StepResult {
  status: string;
  output?: Json;
  error?: RunError | null;
  usage?: Usage;
  loop?: { kind?: string; iterations: number; failed: number; reason?: string | null };
}

export type Usage = Record<string, Json>;

export interface Run extends RunSummary {
  children?: (string | RunSummary)[];
  origin?: Origin | null;
  input?: Json;
  output?: Json;
  waits?: Wait[];
  /** Tasks of the run that no worker has leased yet. */
  waits_for_worker?: QueuedJobs[];
  reply?: { value: Json; success: boolean };
  usage?: Usage | null;
  ticks?: number;
  /** The next moment at which it continues by itself. */
  next_due?: { path: string; what: string; at: string };
  current?: ActiveNode[];
  steps?: Record<string, StepResult>;
}

export interface NodeIterations {
  ended: number;
  failed: number;
  entries: number;
  max_iterations?: number | null;
  reason?: string | null;
}

export interface NodeRun {
  status: string;
  runs: number;
  counts?: Record<string, number>;
  started_at?: string;
  duration_ms?: number;
  attempts?: number;
  iterations?: NodeIterations;
  error?: string;
  firing?: number;
  worker?: number;
  event?: string;
  in_progress?: boolean;
}

export interface GraphNode {
  id: string;
  name: string;
  kind: string;
  parent?: string | null;
  detail?: string;
  event?: string;
  path?: string | null;
  /** The node is a loop; its iterations are recorded under its path. */
  loop?: boolean;
  run?: NodeRun;
}

export interface GraphEdge {
  from: string;
  to: string;
  statuses: string[];
  when?: string;
  tokens?: string;
  on?: string;
  event?: string;
  times?: number;
}

export interface Graph {
  nodes: GraphNode[];
  edges: GraphEdge[];
  run?: NodeRun;
  notes?: string[];
}

export interface StepPage extends Page<Step> {
  /** The number of entries of early iterations that are no longer buffered. */
  dropped?: number;
  /** The server has not read all events of the run yet; repeat the request. */
  partial?: boolean;
}

/** A started frame, as the timeline shows it. */
export interface Step {
  path: string;
  name: string;
  kind: string;
  status: string;
  started_at?: string | null;
  duration_ms?: number | null;
  attempts?: number;
  error?: RunError | null;
  /** No events of the step are retained; its data come from the record of its iteration. */
  trimmed?: { iteration: number; result: Json | undefined };
}

export interface Loop {
  loop: string;
  kind?: string | null;
  status?: string;
  iterations: number;
  retained?: number;
  failed: number;
  reason?: string | null;
  live?: { begun: number; ended: number; failed: number; max_iterations?: number | null; condition?: Json; due_at?: string } | null;
  cost?: Json;
  usage?: Usage | null;
}

/** A log line of a task. Of `lost` the text is the number of lines of the attempt that were not stored. */
export interface LogLine {
  position: number;
  at: string;
  path: string;
  attempt: number;
  stream: "stdout" | "stderr" | "log" | "lost";
  text: string;
}

export interface LogPage {
  run: string;
  lines: LogLine[];
  next?: number | null;
  /** The number of the oldest lines that are no longer stored. */
  removed: number;
}

export interface IterationRecord {
  iteration: number;
  status: string;
  started_at?: string | null;
  duration_ms?: number | null;
  condition_result?: Json;
  result?: Json;
  error?: RunError | null;
  reason?: string | null;
  verdict?: Json;
  usage?: Usage | null;
  /** The path of the iteration in the run, as restarts and event queries take it. */
  path?: string;
  /** The item of the iteration, for a loop over items, if it is small. */
  item?: Json;
}

export interface IterationPage {
  run: string;
  loop: string;
  iterations: IterationRecord[];
  not_retained?: { from: number; to: number }[];
  next?: number | null;
  total?: number;
  failed?: number;
}

export interface StripCell {
  from: number;
  to: number;
  succeeded: number;
  failed: number;
  other: number;
}

export interface Strip {
  loop: string;
  iterations: number;
  cells: StripCell[];
}

/** An event of any type, including custom ones; `isEvent` narrows it to known types. */
export interface Event {
  seq: number;
  at: string;
  type: string;
  path: string;
  [more: string]: unknown;
}

export interface JournalEntry {
  tick: number;
  at: string;
  kind: string;
  digest?: string;
  events?: number[];
  body?: Json;
}

export interface TriggerSummary {
  name: string;
  kind: string;
}

export interface DefinitionSummary {
  name: string;
  version: number;
  dialect: string;
  hash: string;
  registered_at: string;
  by?: string | null;
  enabled: boolean;
  triggers: TriggerSummary[];
  problems?: DefinitionProblem[];
}

export interface Parameter {
  name: string;
  kind?: string;
  required?: boolean;
  default?: Json;
  description?: string;
  /** The allowed values, if they are restricted. */
  allowed?: Json[];
}

export interface DefinitionTrigger {
  name: string;
  kind: string;
  settings?: Json;
  url?: string | null;
}

export interface Definition extends Omit<DefinitionSummary, "triggers"> {
  versions?: number | { version: number }[];
  source: string;
  labels?: Record<string, string>;
  /** The time at which the definition was removed; it cannot be started since. */
  removed_at?: string | null;
  parameters?: Parameter[];
  triggers?: DefinitionTrigger[];
  tools?: string[];
}

export interface DefinitionVersion {
  version: number;
  /** New runs use this version. */
  current?: boolean;
  hash: string;
  registered_at: string;
  by?: string | null;
}

export interface RegisteredDefinition {
  name: string;
  version: number;
  hash: string;
  dialect: string;
  registered_at: string;
  is_new: boolean;
  warnings?: DefinitionProblem[];
}

export interface CheckResult {
  valid: boolean;
  name?: string | null;
  dialect?: string | null;
  problems: DefinitionProblem[];
  graph?: Graph | null;
}

export interface Approval {
  run: string;
  definition: string;
  name: string;
  path: string;
  title?: Json;
  message?: Json;
  schema?: Json;
  assignees?: Json[];
  since: string;
  deadline?: string | null;
}

export interface Trigger {
  definition: string;
  version: number;
  trigger: string;
  kind: string;
  url?: string | null;
  schedule?: Json;
  /** How callers authenticate. */
  proof?: "signature" | "token" | "none";
  /** The signature scheme of deliveries. */
  scheme?: string;
  /** The policy for missed firings: `none`, `last` or `all`. */
  catch_up?: string;
  next_at?: string | null;
  last_at?: string | null;
  last_error?: Json;
  /** The last time it was due and started no run, and the reason. */
  skipped_at?: string | null;
  skipped?: string | null;
  in_flight?: number | null;
  waiting?: number | null;
  enabled: boolean;
}

export interface Worker {
  worker: string;
  name: string;
  /** The name of its token. */
  token?: string;
  only_labelled?: boolean;
  tools: string[];
  labels?: Record<string, string> | string[];
  slots: number;
  state: string;
  seen_at: string;
  leases?: { run: string; job: number | string; path: string; tool: string; lease_epoch: number; since: string; expires_at?: string }[];
}

export interface QueuedJobs {
  tool: string;
  labels?: Record<string, string> | string[];
  jobs: number;
  oldest_at?: string;
}

export interface WorkerList {
  items: Worker[];
  queued?: QueuedJobs[];
}

export interface Token {
  id: string;
  name: string;
  scopes: string[];
  created_at: string;
  expires_at?: string | null;
  last_used?: string | null;
  created_by?: string | null;
}

/** An entry of the audit log: an API call, the outcome of an earlier call, or an event of the server itself. */
export interface AuditEntry {
  n: number;
  at: string;
  actor?: { id?: string; name?: string } | null;
  from?: string;
  method?: string;
  route?: string;
  path?: Record<string, Json>;
  status?: number;
  /** The number of the entry whose outcome this is. */
  line?: number;
  event?: string;
  [more: string]: unknown;
}

export interface AuditPage extends Page<AuditEntry> {
  last: number;
}

/** Narrows an event to the given types. */
export function isEvent<Type extends EventType>(event: Event, ...types: Type[]): event is Event & EventOf<Type> {
  return (types as string[]).includes(event.type);
}
