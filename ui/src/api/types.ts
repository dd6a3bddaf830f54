// What the server says, as far as the page reads it. The server's own description is /api/v1/openapi.json.

import type { EventOf, EventType } from "./events";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export interface Page<T> {
  items: T[];
  next?: number | string | null;
}

/** What `windlass check --json` gives for one problem of a definition. */
export interface Report {
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
  number?: number;
  definition: string;
  version?: number | null;
  dialect: string;
  status: string;
  created_at: string;
  changed_at: string;
  duration_ms: number;
  parent?: string | null;
  error?: RunError | null;
}

export interface StatusCount {
  status: string;
  runs: number;
  /** At least so many. */
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

/** What goes on. */
export interface Tree {
  name: string;
  kind?: string;
  status: string;
  started_at?: string;
  attempt?: number;
  turn?: number | null;
  loop?: { ended: number; running: number; failed: number };
  children?: Tree[];
}

export interface StepResult {
  status: string;
  output?: Json;
  error?: RunError | null;
  usage?: Usage;
  loop?: { kind?: string; turns: number; failed: number; reason?: string | null };
}

export type Usage = Record<string, Json>;

export interface Run extends RunSummary {
  children?: (string | RunSummary)[];
  origin?: Origin | null;
  input?: Json;
  output?: Json;
  waits?: Wait[];
  /** Tasks of it that no worker has taken yet. */
  waits_for_worker?: Queued[];
  reply?: { value: Json; good: boolean };
  usage?: Usage | null;
  ticks?: number;
  current?: Tree[];
  steps?: Record<string, StepResult>;
}

export interface NodeTurns {
  ended: number;
  failed: number;
  entries: number;
  most?: number | null;
  reason?: string | null;
}

export interface NodeRun {
  status: string;
  runs: number;
  counts?: Record<string, number>;
  started_at?: string;
  duration_ms?: number;
  attempts?: number;
  turns?: NodeTurns;
  error?: string;
  firing?: number;
  worker?: number;
  event?: string;
  goes_on?: boolean;
}

export interface GraphNode {
  id: string;
  name: string;
  kind: string;
  parent?: string | null;
  detail?: string;
  event?: string;
  path?: string | null;
  /** It has turns, kept under its path. */
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

export interface Steps extends Page<Step> {
  /** Entries of early turns that are no longer at hand. */
  dropped?: number;
  /** The run has told more than could be read yet: ask again. */
  partial?: boolean;
}

/** A frame that has begun, for the timeline. */
export interface Step {
  path: string;
  name: string;
  kind: string;
  status: string;
  started_at?: string | null;
  duration_ms?: number | null;
  attempts?: number;
  error?: RunError | null;
  /** No events of it are kept: the page knows of it by its turn. */
  gone?: { turn: number; result: Json | undefined };
}

export interface Loop {
  loop: string;
  kind?: string | null;
  status?: string;
  turns: number;
  kept?: number;
  failed: number;
  reason?: string | null;
  live?: { begun: number; ended: number; failed: number; most?: number | null; condition?: Json } | null;
  cost?: Json;
  usage?: Usage | null;
}

export interface Turn {
  iteration: number;
  status: string;
  started_at?: string | null;
  duration?: number | null;
  conditionResult?: Json;
  result?: Json;
  error?: RunError | null;
  reason?: string | null;
  verdict?: Json;
  usage?: Usage | null;
  /** Where it is in the run: what restarts and events take. */
  path?: string;
  /** What it was for, of a loop over items, if that is small. */
  item?: Json;
}

export interface Turns {
  run: string;
  loop: string;
  turns: Turn[];
  not_kept?: { from: number; to: number }[];
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
  turns: number;
  cells: StripCell[];
}

/** An event of any type, also a custom one; `isEvent` tells of which. */
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
  problems?: Report[];
}

export interface Parameter {
  name: string;
  kind?: string;
  required?: boolean;
  default?: Json;
  description?: string;
  /** One of these, if there are any. */
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
  /** Nothing starts it any more since then. */
  removed_at?: string | null;
  parameters?: Parameter[];
  triggers?: DefinitionTrigger[];
  tools?: string[];
}

export interface Version {
  version: number;
  /** The one that starts take. */
  current?: boolean;
  hash: string;
  registered_at: string;
  by?: string | null;
}

export interface Registered {
  name: string;
  version: number;
  hash: string;
  dialect: string;
  registered_at: string;
  new: boolean;
  warnings?: Report[];
}

export interface Checked {
  valid: boolean;
  name?: string | null;
  dialect?: string | null;
  problems: Report[];
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
  /** How a caller proves who it is. */
  proof?: "signature" | "token" | "nothing";
  /** How deliveries are signed. */
  scheme?: string;
  /** What becomes of firings that were missed. */
  catch_up?: string;
  next_at?: string | null;
  last_at?: string | null;
  last_error?: Json;
  /** When it was due and started nothing, and why. */
  skipped_at?: string | null;
  skipped?: string | null;
  under_way?: number | null;
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
  held?: { run: string; job: number | string; path: string; tool: string; epoch: number; since: string; until?: string }[];
}

export interface Queued {
  tool: string;
  labels?: Record<string, string> | string[];
  jobs: number;
  oldest_at?: string;
}

export interface Workers {
  items: Worker[];
  queued?: Queued[];
}

export interface Token {
  id: string;
  name: string;
  scopes: string[];
  created_at: string;
  expires_at?: string | null;
  last_used?: string | null;
  by?: string | null;
}

/** A line of the audit log: a call, how a call ended, or the server's own doing. */
export interface AuditLine {
  n: number;
  at: string;
  who?: { id?: string; name?: string } | null;
  from?: string;
  method?: string;
  route?: string;
  path?: Record<string, Json>;
  status?: number;
  /** The number of the line whose outcome this is. */
  of?: number;
  event?: string;
  [more: string]: unknown;
}

export interface AuditPage extends Page<AuditLine> {
  last: number;
}

/** Whether an event is of one of these types: then it has their fields. */
export function isEvent<Type extends EventType>(event: Event, ...types: Type[]): event is Event & EventOf<Type> {
  return (types as string[]).includes(event.type);
}
