// Written by `UPDATE=1 cargo test -p windlass-core --test event_reference` from the event types of windlass-core.

/** A value of a run: any JSON, or a reference `{ref: …}` to one that is too large to travel. */
export type EventValue = unknown;

interface Fixed<Type extends string> {
  seq: number;
  at: string;
  type: Type;
  path: string;
  workflowId?: string;
}

/** A failure, as events report it. */
export interface EventError {
  /** For programs: `503`, `LoopCountExceeded`, `InvalidTemplate`. */
  code: string;
  /** A coarse class that retries match: `timeout`, `connection`, `http`, `expression`, `limit`, `tool`. */
  kind: string;
  /** The message for people. A message over the inline limit is truncated. */
  message: string;
  /** Advice on how to fix it. */
  hint?: string;
  /** The path where it happened first. */
  path?: string;
}

/** The outcome of a task, with the facts that its tool reported. Further facts of the tool, such as `http` and `pg`, appear next to the other fields. */
export interface TaskResult {
  /** Whether the task has an error. */
  status: "success" | "error";
  /** The task's output or a reference to it. */
  result: EventValue;
  /** The reason why the task failed. */
  error?: EventError;
  /** Attempt, duration and further facts the tool reports about its work. */
  meta?: EventValue;
  [more: string]: EventValue;
}

/** The limits of a loop. */
export interface LoopEventLimits {
  /** The maximum number of iterations, if it is limited. */
  count: number | null;
  /** The maximum time, as an ISO 8601 duration. */
  timeout: string | null;
  /** The number of items, for a loop over items. */
  items: number | null;
  /** The maximum number of concurrent iterations, if there are more items than that. */
  max_concurrency?: number;
  /** The budget: the maximum of each metered resource, by name. */
  budget?: EventValue;
}

/** The ended runs of one step or task, counted by how they ended. */
export interface StepCounts {
  /** The path of the run that ended first. */
  path: string;
  /** Runs that succeeded. */
  succeeded?: number;
  /** Runs that failed. */
  failed?: number;
  /** Runs that were skipped. */
  skipped?: number;
  /** Runs that were cancelled. */
  cancelled?: number;
  /** Runs that took longer than their timeout. */
  timed_out?: number;
  /** The iterations of all runs, if the step is a loop. */
  iterations?: number;
  /** Those of them that failed. */
  failed_iterations?: number;
}

/** Iterations of a loop, counted by how they ended. */
export interface LoopStats {
  /** All iterations that have ended. */
  total: number;
  /** Iterations that succeeded. */
  success: number;
  /** Iterations that failed. */
  failed: number;
}

/** A caller requested the run. The first event of a run. */
export interface PlaybookExecutionRequestedEvent extends Fixed<"playbook.execution_requested"> {
  /** The definition's name. */
  definition: string;
  /** The input as the caller supplied it. */
  input: EventValue;
  /** The parent run, on a child run. */
  parent?: string;
  /** The root of the run tree, on a child run. */
  trace?: string;
}

/** The input was accepted and the run begins. */
export interface WorkflowStartedEvent extends Fixed<"workflow.started"> {
  /** The definition's name. */
  definition: string;
}

/** The run was created and starts when it is resumed. */
export interface WorkflowHeldEvent extends Fixed<"workflow.held"> {
  /** The definition's name. */
  definition: string;
  /** The input as the caller supplied it. */
  input: EventValue;
}

/** The run was forked from another run and begins at a point inside it. */
export interface WorkflowRestartedEvent extends Fixed<"workflow.restarted"> {
  /** The run it was forked from. */
  from: string;
  /** The first step that runs again. */
  from_path: string;
  /** Only the parts that had failed run again. */
  retry?: boolean;
}

/** Only an event from outside can make the run proceed. */
export interface WorkflowIdleEvent extends Fixed<"workflow.idle"> {
  /** The names of the events that it waits for. */
  waits: string[];
}

/** The run was paused: no new work begins. */
export interface WorkflowPausedEvent extends Fixed<"workflow.paused"> {
}

/** The run resumes after a pause. */
export interface WorkflowResumedEvent extends Fixed<"workflow.resumed"> {
}

/** The run has ended. The last event of a run. */
export interface WorkflowFinishedEvent extends Fixed<"workflow.finished"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The run's output or a reference to it. */
  output: EventValue;
  /** The reason why it did not succeed. */
  error?: EventError;
  /** Resources used by its jobs, by name, where the definition meters them. */
  usage?: EventValue;
}

/** The run has replied to its caller and continues. */
export interface RunRepliedEvent extends Fixed<"run.replied"> {
  /** The reply or a reference to it. */
  reply: EventValue;
  /** Whether the reply is a success. */
  success: boolean;
}

/** A step begins. */
export interface StepStartedEvent extends Fixed<"step.started"> {
  /** The kind of step, as the dialect names it. */
  kind: string;
  /** The kind of the token that triggered the step. */
  token?: string;
  /** How often the step was reached, this time included. */
  visit?: number;
  /** The arguments that the arc to the step carries. */
  args?: EventValue;
  /** The number of the step's worker among those of the same step. */
  worker?: number;
  /** The number of this step run. */
  firing?: number;
  /** The numbers of the step runs that led to this one. */
  from?: number[];
}

/** A step succeeded. */
export interface StepDoneEvent extends Fixed<"step.done"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The step's output or a reference to it. */
  output?: EventValue;
  /** An error inside the step, although the step succeeded. */
  error?: EventError;
  /** Resources used by its jobs, by name, where the definition meters them. */
  usage?: EventValue;
  /** The number of this step run. */
  firing?: number;
}

/** A step failed, was cancelled or has timed out. */
export interface StepFailedEvent extends Fixed<"step.failed"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The step's output or a reference to it. */
  output?: EventValue;
  /** The reason why it failed. */
  error?: EventError;
  /** Resources used by its jobs, by name, where the definition meters them. */
  usage?: EventValue;
  /** The number of this step run. */
  firing?: number;
  /** The code of the reason why the step did not run at all. */
  reason?: string;
  /** The message for that reason. */
  message?: string;
}

/** A step was skipped. */
export interface StepSkippedEvent extends Fixed<"step.skipped"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The step's output or a reference to it. */
  output?: EventValue;
  /** The reason why it was skipped. */
  error?: EventError;
  /** Resources used by its jobs, by name, where the definition meters them. */
  usage?: EventValue;
  /** The number of this step run. */
  firing?: number;
  /** The code of the reason why the step did not run at all. */
  reason?: string;
  /** The message for that reason. */
  message?: string;
}

/** A step waits for a free worker. */
export interface StepQueuedEvent extends Fixed<"step.queued"> {
  /** The event that the step would run for. */
  event: string;
  /** How many step runs wait for a worker of this step, this one included. */
  waiting: number;
}

/** A step is suspended and has returned its worker. */
export interface StepIdleEvent extends Fixed<"step.idle"> {
  /** The reason why it waits. */
  reason: "wait" | "retry";
  /** The number of the worker that is free again. */
  worker?: number;
  /** The number of this step run. */
  firing?: number;
}

/** An idle step resumes. */
export interface StepRunningEvent extends Fixed<"step.running"> {
  /** The number of the step's worker among those of the same step. */
  worker: number;
  /** The number of this step run. */
  firing: number;
}

/** A task begins, or another call of a task that takes several calls. */
export interface TaskStartedEvent extends Fixed<"task.started"> {
  /** The task's label; empty where a step consists of one task. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** The tool, for a task that a worker executes. */
  tool?: string;
  /** The number of the call within the attempt, for a call that continues an operation. */
  call?: number;
}

/** A worker reports progress. */
export interface TaskProgressEvent extends Fixed<"task.progress"> {
  /** The progress that the worker reports. */
  progress: EventValue;
}

/** A task's operation continues elsewhere; the tool is called again later. */
export interface TaskWaitingEvent extends Fixed<"task.waiting"> {
  /** The task's label. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** The time of the next call. */
  until: string;
}

/** A task or a step failed and is retried. */
export interface TaskRetryingEvent extends Fixed<"task.retrying"> {
  /** The number of the attempt that failed, from 1. */
  attempt: number;
  /** The wait before the next attempt, in milliseconds. */
  delay: number;
  /** The error of the failed attempt. */
  error: EventError;
  /** The number of this step run. */
  firing?: number;
}

/** A task has ended. */
export interface TaskProcessedEvent extends Fixed<"task.processed"> {
  /** The task's label; empty where a step consists of one task. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** How it ended. */
  outcome: TaskResult;
  /** The result was reused from an earlier run. */
  reused?: boolean;
}

/** A loop begins. */
export interface LoopStartedEvent extends Fixed<"loop.started"> {
  /** The kind of loop, as the dialect names it. */
  kind: string;
  /** The limits of the loop. */
  limits: LoopEventLimits;
}

/** An iteration begins. */
export interface LoopIterationStartedEvent extends Fixed<"loop.iteration.started"> {
  /** The index of the iteration, from 0. */
  iteration: number;
}

/** An iteration has ended. */
export interface LoopIterationDoneEvent extends Fixed<"loop.iteration.done"> {
  /** The loop's name. */
  actionName: string;
  /** The index of the iteration, from 0. */
  iteration: number;
  /** The kind of loop, as the dialect names it. */
  loopType: string;
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The result of the loop's condition after the iteration, if it was evaluated. */
  conditionResult: boolean | null;
  /** The iteration's result or a reference to it. */
  result: EventValue;
  /** The duration of the iteration, in milliseconds. */
  duration: number;
  /** The amounts the loop has used of its budget, by name. */
  usage?: EventValue;
  /** Resources used by the iteration's jobs, by name. */
  iteration_usage?: EventValue;
  /** The reason why it failed. */
  error?: EventError;
}

/** Iterations of a long loop that only computes, combined in one event. */
export interface LoopProgressEvent extends Fixed<"loop.progress"> {
  /** The first iteration. */
  from: number;
  /** The last iteration. */
  to: number;
  /** The number of failed iterations. */
  failed: number;
  /** The steps inside that have ended since the previous event of the loop; they publish no events of their own. */
  steps?: StepCounts[];
}

/** The judge of a loop has evaluated an iteration. */
export interface LoopJudgedEvent extends Fixed<"loop.judged"> {
  /** The index of the iteration, from 0. */
  iteration: number;
  /** Whether the loop is done; null without a verdict. */
  done: boolean | null;
  /** The complete output of the judge. */
  verdict: EventValue;
}

/** A loop has ended. */
export interface LoopDoneEvent extends Fixed<"loop.done"> {
  /** The number of iterations. */
  iterations: number;
  /** The reason why it ended. */
  reason: "condition" | "items" | "judge" | "count" | "timeout" | "budget" | "stalled" | "failed" | "cancelled";
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The iterations, counted by their status. */
  stats: LoopStats;
  /** The amounts used of its budget, by name. */
  usage?: EventValue;
  /** Iterations whose judge gave no verdict. */
  unjudged?: number;
}

/** A job used more of a budget than was left. */
export interface BudgetExceededEvent extends Fixed<"budget.exceeded"> {
  /** The name of the metered resource. */
  what: string;
  /** The amount used. */
  used: number;
  /** The maximum amount. */
  max: number;
}

/** Variables have changed. */
export interface CtxPatchedEvent extends Fixed<"ctx.patched"> {
  /** The owner of the variables. */
  scope: "run" | "step" | "iteration";
  /** The new values, by name. */
  patch: EventValue;
}

/** A step asks for input from outside the run. */
export interface InputRequiredEvent extends Fixed<"input.required"> {
  /** The name of the event that carries the request. */
  event: string;
  /** The payload of the request. */
  payload: EventValue;
  /** The step that asks. */
  step: string;
  /** The number of this step run. */
  firing?: number;
}

/** A form waits for an answer from a person. */
export interface ApprovalRequestedEvent extends Fixed<"approval.requested"> {
  /** The name of the event that answers it. */
  name: string;
  /** The address for the answer. */
  address: string;
  /** The contents of the form. */
  form: EventValue;
  /** The deadline for the answer. */
  deadline?: string;
}

/** No node was waiting for an event from outside or inside the run. */
export interface EventUnhandledEvent extends Fixed<"event.unhandled"> {
  /** The event's name. */
  event: string;
  /** The reason why it was not handled. */
  reason: string;
  /** Whether the run has no other work in progress. */
  idle?: boolean;
}

/** A report for a job was rejected: its lease has ended. */
export interface JobRefusedEvent extends Fixed<"job.refused"> {
  /** The kind of report. */
  event: string;
  /** The job's number. */
  job: number;
  /** The lease epoch of the report. */
  lease_epoch: number;
  /** The reason why it was rejected. */
  reason: string;
  /** The lease epoch of the job. */
  expected?: number;
}

/** A message was sent. */
export interface MessageSentEvent extends Fixed<"message.sent"> {
  /** The message's number in the run. */
  id: string;
  /** The sender; empty for a message from outside. */
  from: string;
  /** The receiver. */
  to: string;
}

/** Messages were delivered. */
export interface MessageDeliveredEvent extends Fixed<"message.delivered"> {
  /** The receiver. */
  to: string;
  /** The numbers of the messages. */
  ids: string[];
  /** The messages were already delivered to an earlier attempt of the receiver. */
  again?: boolean;
}

/** A message will not be delivered. */
export interface MessageDroppedEvent extends Fixed<"message.dropped"> {
  /** The message's number in the run. */
  id: string;
  /** The sender; empty for a message from outside. */
  from: string;
  /** The receiver named in the message. */
  to: string;
  /** The code of the reason. */
  reason: string;
  /** The reason as a message. */
  message?: string;
  /** The receivers that exist. */
  known?: string[];
}

/** A reader stopped waiting for another receiver to become idle. */
export interface MailHoldTimeoutEvent extends Fixed<"mail.hold_timeout"> {
  /** The receiver that did not become idle. */
  to: string;
}

/** A receiver has used most of its allowed mail deliveries. */
export interface MailWakesWarningEvent extends Fixed<"mail.wakes_warning"> {
  /** The receiver. */
  to: string;
  /** The number of deliveries so far. */
  wakes: number;
  /** The maximum number of deliveries. */
  max: number;
}

/** Streamed output of an agent's model. */
export interface AgentOutputEvent extends Fixed<"agent.output"> {
  /** The next part of the output. */
  delta: EventValue;
  /** The part belongs to the model's reasoning. */
  reasoning?: boolean;
}

/** A permission decision on an agent's tool call. */
export interface AgentPermissionEvent extends Fixed<"agent.permission"> {
  /** The tool. */
  tool: string;
  /** The decision. */
  decision: "allowed" | "always" | "denied";
  /** The reason why permission was denied. */
  reason?: string;
}

/** An agent calls a tool. */
export interface AgentToolEvent extends Fixed<"agent.tool"> {
  /** The tool. */
  tool: string;
  /** The arguments, without secrets. */
  arguments: EventValue;
}

/** A non-fatal problem with an agent's tools or model; the agent continues. */
export interface AgentWarningEvent extends Fixed<"agent.warning"> {
  /** The problem. */
  message: string;
}

/** The reply of an agent's model is no complete answer. The model is asked to continue, or the step ends. */
export interface AgentStoppedEvent extends Fixed<"agent.stopped"> {
  /** How the reply ended: `length`, `refusal`, `filtered` or `empty`. */
  stop: string;
}

/** A progress message from the coordinator to the user. */
export interface CoordinatorNarrationEvent extends Fixed<"coordinator.narration"> {
  /** The message. */
  text: EventValue;
}

/** The coordinator's summary at the end. */
export interface CoordinatorSynthesisEvent extends Fixed<"coordinator.synthesis"> {
  /** The result of the workflow. */
  summary?: EventValue;
}

/** The coordinator failed; the steps continue without it. */
export interface CoordinatorFailedEvent extends Fixed<"coordinator.failed"> {
  /** The reason why it failed. */
  error: EventValue;
}

/** Events that are no longer retained. Readers create this event; it is never stored. */
export interface EventsTrimmedEvent extends Fixed<"events.trimmed"> {
  /** The first of these events. */
  from: number;
  /** The last of these events. */
  to: number;
}

/** An event of a type that the engine defines. */
export type EngineEvent =
  | PlaybookExecutionRequestedEvent
  | WorkflowStartedEvent
  | WorkflowHeldEvent
  | WorkflowRestartedEvent
  | WorkflowIdleEvent
  | WorkflowPausedEvent
  | WorkflowResumedEvent
  | WorkflowFinishedEvent
  | RunRepliedEvent
  | StepStartedEvent
  | StepDoneEvent
  | StepFailedEvent
  | StepSkippedEvent
  | StepQueuedEvent
  | StepIdleEvent
  | StepRunningEvent
  | TaskStartedEvent
  | TaskProgressEvent
  | TaskWaitingEvent
  | TaskRetryingEvent
  | TaskProcessedEvent
  | LoopStartedEvent
  | LoopIterationStartedEvent
  | LoopIterationDoneEvent
  | LoopProgressEvent
  | LoopJudgedEvent
  | LoopDoneEvent
  | BudgetExceededEvent
  | CtxPatchedEvent
  | InputRequiredEvent
  | ApprovalRequestedEvent
  | EventUnhandledEvent
  | JobRefusedEvent
  | MessageSentEvent
  | MessageDeliveredEvent
  | MessageDroppedEvent
  | MailHoldTimeoutEvent
  | MailWakesWarningEvent
  | AgentOutputEvent
  | AgentPermissionEvent
  | AgentToolEvent
  | AgentWarningEvent
  | AgentStoppedEvent
  | CoordinatorNarrationEvent
  | CoordinatorSynthesisEvent
  | CoordinatorFailedEvent
  | EventsTrimmedEvent;

/** The names of the types that the engine defines. */
export type EventType = EngineEvent["type"];

/** The event of a type. */
export type EventOf<Type extends EventType> = Extract<EngineEvent, { type: Type }>;
