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
  /** For people. A message over the inline limit is cut. */
  message: string;
  /** What to do about it. */
  hint?: string;
  /** Where it happened first. */
  path?: string;
}

/** How a task ended, with what its tool reported. Further facts of the tool, such as `http` and `pg`, stand beside the other fields. */
export interface TaskResult {
  /** Whether the task has an error. */
  status: "success" | "error";
  /** The task's output or a reference to it. */
  result: EventValue;
  /** Why the task failed. */
  error?: EventError;
  /** Attempt, duration and what the tool says of its work. */
  meta?: EventValue;
  [more: string]: EventValue;
}

/** The limits of a loop. */
export interface LoopEventLimits {
  /** The most iterations, if they are limited. */
  count: number | null;
  /** The most time, as an ISO 8601 duration. */
  timeout: string | null;
  /** The number of items, for a loop over items. */
  items: number | null;
  /** Iterations that run at the same time, if there are more items than that. */
  atOnce?: number;
  /** The budget: the most of each thing that is counted, by its name. */
  budget?: EventValue;
}

/** Iterations of a loop, counted by how they ended. */
export interface LoopStats {
  /** All that have ended. */
  total: number;
  /** Those that succeeded. */
  success: number;
  /** Those that failed. */
  failed: number;
}

/** Somebody asked for the run. The first event of a run. */
export interface PlaybookExecutionRequestedEvent extends Fixed<"playbook.execution_requested"> {
  /** The definition's name. */
  definition: string;
  /** The input as the caller gave it. */
  input: EventValue;
  /** The parent run, of a child run. */
  parent?: string;
  /** The run at the root of the run tree, of a child run. */
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
  /** The input as the caller gave it. */
  input: EventValue;
}

/** The run is made from another one and begins inside it. */
export interface WorkflowRestartedEvent extends Fixed<"workflow.restarted"> {
  /** The run that it was made from. */
  from: string;
  /** The first step that is done anew. */
  from_path: string;
  /** Only what had failed is done anew. */
  retry?: boolean;
}

/** Only an event from outside can move the run. */
export interface WorkflowIdleEvent extends Fixed<"workflow.idle"> {
  /** The names of the events that it waits for. */
  waits: string[];
}

/** The run was paused: nothing new begins. */
export interface WorkflowPausedEvent extends Fixed<"workflow.paused"> {
}

/** The run goes on after a pause. */
export interface WorkflowResumedEvent extends Fixed<"workflow.resumed"> {
}

/** The run has ended. The last event of a run. */
export interface WorkflowFinishedEvent extends Fixed<"workflow.finished"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The run's output or a reference to it. */
  output: EventValue;
  /** Why it did not succeed. */
  error?: EventError;
  /** What its jobs have used, by name, where the definition counts it. */
  usage?: EventValue;
}

/** The run has answered its caller and goes on. */
export interface RunRepliedEvent extends Fixed<"run.replied"> {
  /** The answer or a reference to it. */
  reply: EventValue;
  /** Whether the answer is a success. */
  good: boolean;
}

/** A step begins. */
export interface StepStartedEvent extends Fixed<"step.started"> {
  /** The kind of step, in the dialect's word. */
  kind: string;
  /** The event that the step runs for. */
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
  /** What went wrong inside although the step succeeded. */
  error?: EventError;
  /** What its jobs have used, by name, where the definition counts it. */
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
  /** Why it failed. */
  error?: EventError;
  /** What its jobs have used, by name, where the definition counts it. */
  usage?: EventValue;
  /** The number of this step run. */
  firing?: number;
  /** The code of the reason why the step did not run at all. */
  reason?: string;
  /** That reason in words. */
  message?: string;
}

/** A step was skipped. */
export interface StepSkippedEvent extends Fixed<"step.skipped"> {
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The step's output or a reference to it. */
  output?: EventValue;
  /** Why it was skipped. */
  error?: EventError;
  /** What its jobs have used, by name, where the definition counts it. */
  usage?: EventValue;
  /** The number of this step run. */
  firing?: number;
  /** The code of the reason why the step did not run at all. */
  reason?: string;
  /** That reason in words. */
  message?: string;
}

/** A step waits for a free worker. */
export interface StepQueuedEvent extends Fixed<"step.queued"> {
  /** The event that the step would run for. */
  event: string;
  /** How many wait for a worker of this step, this one included. */
  waiting: number;
}

/** A step waits for something and has given its worker back. */
export interface StepIdleEvent extends Fixed<"step.idle"> {
  /** Why it waits. */
  because: "wait" | "retry";
  /** The number of the worker that is free again. */
  worker?: number;
  /** The number of this step run. */
  firing?: number;
}

/** A step that was idle goes on. */
export interface StepRunningEvent extends Fixed<"step.running"> {
  /** The number of the step's worker among those of the same step. */
  worker: number;
  /** The number of this step run. */
  firing: number;
}

/** A task begins, or one more call of a task that takes several. */
export interface TaskStartedEvent extends Fixed<"task.started"> {
  /** The task's label; empty where a step is one task. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** The tool, for a task that a worker does. */
  tool?: string;
  /** The number of a further call of the same attempt. */
  call?: number;
}

/** A worker says how far it is. */
export interface TaskProgressEvent extends Fixed<"task.progress"> {
  /** What the worker reports. */
  progress: EventValue;
}

/** A task's operation goes on elsewhere; it is asked again later. */
export interface TaskWaitingEvent extends Fixed<"task.waiting"> {
  /** The task's label. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** When it is asked again. */
  until: string;
}

/** A task or a step failed and is tried again. */
export interface TaskRetryingEvent extends Fixed<"task.retrying"> {
  /** The number of the attempt that failed, from 1. */
  attempt: number;
  /** The wait before the next attempt, in milliseconds. */
  delay: number;
  /** Why the attempt failed. */
  because: EventError;
  /** The number of this step run. */
  firing?: number;
}

/** A task has ended. */
export interface TaskProcessedEvent extends Fixed<"task.processed"> {
  /** The task's label; empty where a step is one task. */
  task: string;
  /** The number of the attempt, from 1. */
  attempt: number;
  /** How it ended. */
  outcome: TaskResult;
  /** The result was taken over from an earlier run. */
  taken?: boolean;
}

/** A loop begins. */
export interface LoopStartedEvent extends Fixed<"loop.started"> {
  /** The kind of loop, in the dialect's word. */
  kind: string;
  /** What limits it. */
  limits: LoopEventLimits;
}

/** An iteration begins. */
export interface LoopIterationStartedEvent extends Fixed<"loop.iteration.started"> {
  /** The number of the iteration, from 0. */
  iteration: number;
}

/** An iteration has ended. */
export interface LoopIterationDoneEvent extends Fixed<"loop.iteration.done"> {
  /** The loop's name. */
  actionName: string;
  /** The number of the iteration, from 0. */
  iteration: number;
  /** The kind of loop, in the dialect's word. */
  loopType: string;
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** The loop's condition after it, if that was evaluated. */
  conditionResult: boolean | null;
  /** The iteration's result or a reference to it. */
  result: EventValue;
  /** How long it took, in milliseconds. */
  duration: number;
  /** What the loop has used of its budget, by name. */
  usage?: EventValue;
  /** What the iteration's jobs have used, by name. */
  turnUsage?: EventValue;
  /** Why it failed. */
  error?: EventError;
}

/** Iterations of a long loop that only compute, in one event. */
export interface LoopProgressEvent extends Fixed<"loop.progress"> {
  /** The first of them. */
  from: number;
  /** The last of them. */
  to: number;
  /** How many of them failed. */
  failed: number;
}

/** The judge of a loop has looked at an iteration. */
export interface LoopJudgedEvent extends Fixed<"loop.judged"> {
  /** The number of the iteration, from 0. */
  iteration: number;
  /** Whether the loop is done; null without a verdict. */
  done: boolean | null;
  /** All that the judge said. */
  verdict: EventValue;
}

/** A loop has ended. */
export interface LoopDoneEvent extends Fixed<"loop.done"> {
  /** How many iterations it had. */
  turns: number;
  /** Why it ended. */
  reason: "condition" | "items" | "judge" | "count" | "timeout" | "budget" | "stalled" | "failed" | "cancelled";
  /** How it ended. */
  status: "succeeded" | "failed" | "skipped" | "cancelled" | "timed_out";
  /** Its iterations by how they ended. */
  stats: LoopStats;
  /** What it has used of its budget, by name. */
  usage?: EventValue;
  /** Iterations whose judge gave no verdict. */
  unjudged?: number;
}

/** A job used more of a budget than was left. */
export interface BudgetExceededEvent extends Fixed<"budget.exceeded"> {
  /** The name of what is counted. */
  what: string;
  /** How much was used. */
  used: number;
  /** How much there was. */
  most: number;
}

/** Variables have changed. */
export interface CtxPatchedEvent extends Fixed<"ctx.patched"> {
  /** Whose variables they are. */
  scope: "run" | "step" | "turn";
  /** The new values, by name. */
  patch: EventValue;
}

/** A step asks somebody outside. */
export interface InputRequiredEvent extends Fixed<"input.required"> {
  /** The name of the event that asks. */
  event: string;
  /** What it says. */
  payload: EventValue;
  /** The step that asks. */
  step: string;
  /** The number of this step run. */
  firing?: number;
}

/** A form waits for a person. */
export interface ApprovalRequestedEvent extends Fixed<"approval.requested"> {
  /** The name of the event that answers it. */
  name: string;
  /** Where the answer goes. */
  address: string;
  /** What is asked. */
  form: EventValue;
  /** Until when it can be answered. */
  deadline?: string;
}

/** An event from outside or inside found nobody who waits for it. */
export interface EventUnhandledEvent extends Fixed<"event.unhandled"> {
  /** The event's name. */
  event: string;
  /** What became of it. */
  reason: string;
  /** Whether nothing else goes on in the run. */
  idle?: boolean;
}

/** A report for a job was rejected: its lease is over. */
export interface JobRefusedEvent extends Fixed<"job.refused"> {
  /** The kind of report. */
  event: string;
  /** The job's number. */
  job: number;
  /** The lease epoch of the report. */
  epoch: number;
  /** Why it was rejected. */
  reason: string;
  /** The lease epoch of the job. */
  expected?: number;
}

/** A message is on its way. */
export interface MessageSentEvent extends Fixed<"message.sent"> {
  /** The message's number in the run. */
  id: string;
  /** The sender; empty for one from outside. */
  from: string;
  /** The receiver. */
  to: string;
}

/** Messages were read. */
export interface MessageDeliveredEvent extends Fixed<"message.delivered"> {
  /** The receiver. */
  to: string;
  /** The numbers of the messages. */
  ids: string[];
  /** An earlier attempt of the receiver has read them already. */
  again?: boolean;
}

/** A message will not be read. */
export interface MessageDroppedEvent extends Fixed<"message.dropped"> {
  /** The message's number in the run. */
  id: string;
  /** The sender; empty for one from outside. */
  from: string;
  /** The receiver that was named. */
  to: string;
  /** The code of the reason. */
  reason: string;
  /** The reason in words. */
  message?: string;
  /** The receivers that there are. */
  known?: string[];
}

/** A reader no longer waits for another one to come to rest. */
export interface MailHoldTimeoutEvent extends Fixed<"mail.hold_timeout"> {
  /** The one that did not come to rest. */
  to: string;
}

/** A receiver has used most of the times that it may be given messages. */
export interface MailWakesWarningEvent extends Fixed<"mail.wakes_warning"> {
  /** The receiver. */
  to: string;
  /** How often it was given messages. */
  wakes: number;
  /** How often it may be. */
  most: number;
}

/** An agent's model answers, piece by piece. */
export interface AgentOutputEvent extends Fixed<"agent.output"> {
  /** The next piece of the answer. */
  delta: EventValue;
  /** The piece is part of the model's reasoning. */
  reasoning?: boolean;
}

/** An agent wanted to use a tool that needs permission. */
export interface AgentPermissionEvent extends Fixed<"agent.permission"> {
  /** The tool. */
  tool: string;
  /** The answer. */
  decision: "allowed" | "always" | "refused";
  /** Why it was refused. */
  reason?: string;
}

/** An agent uses a tool. */
export interface AgentToolEvent extends Fixed<"agent.tool"> {
  /** The tool. */
  tool: string;
  /** The arguments, without secrets. */
  arguments: EventValue;
}

/** Something about an agent's tools is wrong, and the agent goes on. */
export interface AgentWarningEvent extends Fixed<"agent.warning"> {
  /** What is wrong. */
  message: string;
}

/** The coordinator tells the user what is going on. */
export interface CoordinatorNarrationEvent extends Fixed<"coordinator.narration"> {
  /** What it says. */
  text: EventValue;
}

/** The coordinator sums up at the end. */
export interface CoordinatorSynthesisEvent extends Fixed<"coordinator.synthesis"> {
  /** What came of the workflow. */
  summary?: EventValue;
}

/** The coordinator failed; the steps go on without it. */
export interface CoordinatorFailedEvent extends Fixed<"coordinator.failed"> {
  /** Why it failed. */
  error: EventValue;
}

/** Events that are no longer kept. Made by readers, never stored. */
export interface EventsTrimmedEvent extends Fixed<"events.trimmed"> {
  /** The first of them. */
  from: number;
  /** The last of them. */
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
  | CoordinatorNarrationEvent
  | CoordinatorSynthesisEvent
  | CoordinatorFailedEvent
  | EventsTrimmedEvent;

/** The names of the types that the engine defines. */
export type EventType = EngineEvent["type"];

/** The event of a type. */
export type EventOf<Type extends EventType> = Extract<EngineEvent, { type: Type }>;
