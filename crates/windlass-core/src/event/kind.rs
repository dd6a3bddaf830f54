//! The event types with their fields. Their wire names are defined only here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Map, Timestamp, Value};

use super::declare::{events, wire_name};
use super::field::{EventDoc, EventField, FieldDoc, is_default, present, put};
use super::parts::{
    EventError, IdleReason, LoopEventLimits, LoopStats, PatchScope, PermissionDecision, StepCounts, TaskResult,
};
use crate::{LoopEndReason, Status};

events! {
    /// A caller requested the run. The first event of a run.
    "playbook.execution_requested" ExecutionRequested {
        /// The definition's name.
        definition: Arc<str>,
        /// The input as the caller supplied it.
        input: Value,
    } optional {
        /// The parent run, on a child run.
        parent: Option<Arc<str>>,
        /// The root of the run tree, on a child run.
        trace: Option<Arc<str>>,
    }

    /// The input was accepted and the run begins.
    "workflow.started" WorkflowStarted {
        /// The definition's name.
        definition: Arc<str>,
    }

    /// The run was created and starts when it is resumed.
    "workflow.held" WorkflowHeld {
        /// The definition's name.
        definition: Arc<str>,
        /// The input as the caller supplied it.
        input: Value,
    }

    /// The run was forked from another run and begins at a point inside it.
    "workflow.restarted" WorkflowRestarted {
        /// The run it was forked from.
        from: Arc<str>,
        /// The first step that runs again.
        from_path: Arc<str>,
    } optional {
        /// Only the parts that had failed run again.
        retry: bool,
    }

    /// Only an event from outside can make the run proceed.
    "workflow.idle" WorkflowIdle {
        /// The names of the events that it waits for.
        waits: Vec<Arc<str>>,
    }

    /// The run was paused: no new work begins.
    "workflow.paused" WorkflowPaused {}

    /// The run resumes after a pause.
    "workflow.resumed" WorkflowResumed {}

    /// The run has ended. The last event of a run.
    "workflow.finished" WorkflowFinished {
        /// How it ended.
        status: Status,
        /// The run's output or a reference to it.
        output: Value,
    } optional {
        /// The reason why it did not succeed.
        error: Option<Arc<EventError>>,
        /// Resources used by its jobs, by name, where the definition meters them.
        usage: Value,
    }

    /// The run has replied to its caller and continues.
    "run.replied" RunReplied {
        /// The reply or a reference to it.
        reply: Value,
        /// Whether the reply is a success.
        success: bool,
    }

    /// A step begins.
    "step.started" StepStarted {
        /// The kind of step, as the dialect names it.
        kind: Arc<str>,
    } optional {
        /// The kind of the token that triggered the step.
        token: Option<Arc<str>>,
        /// How often the step was reached, this time included.
        visit: Option<u32>,
        /// The arguments that the arc to the step carries.
        args: Value,
        /// The number of the step's worker among those of the same step.
        worker: Option<u32>,
        /// The number of this step run.
        firing: Option<u64>,
        /// The numbers of the step runs that led to this one.
        from: Option<Vec<u64>>,
    }

    /// A step succeeded.
    "step.done" StepDone {
        /// How it ended.
        status: Status,
    } optional {
        /// The step's output or a reference to it.
        output: Option<Value>,
        /// An error inside the step, although the step succeeded.
        error: Option<Arc<EventError>>,
        /// Resources used by its jobs, by name, where the definition meters them.
        usage: Value,
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A step failed, was cancelled or has timed out.
    "step.failed" StepFailed {
        /// How it ended.
        status: Status,
    } optional {
        /// The step's output or a reference to it.
        output: Option<Value>,
        /// The reason why it failed.
        error: Option<Arc<EventError>>,
        /// Resources used by its jobs, by name, where the definition meters them.
        usage: Value,
        /// The number of this step run.
        firing: Option<u64>,
        /// The code of the reason why the step did not run at all.
        reason: Option<Arc<str>>,
        /// The message for that reason.
        message: Option<Arc<str>>,
    }

    /// A step was skipped.
    "step.skipped" StepSkipped {
        /// How it ended.
        status: Status,
    } optional {
        /// The step's output or a reference to it.
        output: Option<Value>,
        /// The reason why it was skipped.
        error: Option<Arc<EventError>>,
        /// Resources used by its jobs, by name, where the definition meters them.
        usage: Value,
        /// The number of this step run.
        firing: Option<u64>,
        /// The code of the reason why the step did not run at all.
        reason: Option<Arc<str>>,
        /// The message for that reason.
        message: Option<Arc<str>>,
    }

    /// A step waits for a free worker.
    "step.queued" StepQueued {
        /// The event that the step would run for.
        event: Arc<str>,
        /// How many step runs wait for a worker of this step, this one included.
        waiting: u64,
    }

    /// A step is suspended and has returned its worker.
    "step.idle" StepIdle {
        /// The reason why it waits.
        reason: IdleReason,
    } optional {
        /// The number of the worker that is free again.
        worker: Option<u32>,
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// An idle step resumes.
    "step.running" StepRunning {
        /// The number of the step's worker among those of the same step.
        worker: u32,
        /// The number of this step run.
        firing: u64,
    }

    /// A task begins, or another call of a task that takes several calls.
    "task.started" TaskStarted {
        /// The task's label; empty where a step consists of one task.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
    } optional {
        /// The tool, for a task that a worker executes.
        tool: Option<Arc<str>>,
        /// The number of the call within the attempt, for a call that continues an operation.
        call: u32,
    }

    /// A worker reports progress.
    "task.progress" TaskProgress {
        /// The progress that the worker reports.
        progress: Value,
    }

    /// A task's operation continues elsewhere; the tool is called again later.
    "task.waiting" TaskWaiting {
        /// The task's label.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The time of the next call.
        until: Timestamp,
    }

    /// A task or a step failed and is retried.
    "task.retrying" TaskRetrying {
        /// The number of the attempt that failed, from 1.
        attempt: u32,
        /// The wait before the next attempt, in milliseconds.
        delay: Duration,
        /// The error of the failed attempt.
        error: Arc<EventError>,
    } optional {
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A task has ended.
    "task.processed" TaskProcessed {
        /// The task's label; empty where a step consists of one task.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How it ended.
        outcome: TaskResult,
    } optional {
        /// The result was reused from an earlier run.
        reused: bool,
    }

    /// A loop begins.
    "loop.started" LoopStarted {
        /// The kind of loop, as the dialect names it.
        kind: Arc<str>,
        /// The limits of the loop.
        limits: LoopEventLimits,
    }

    /// An iteration begins.
    "loop.iteration.started" IterationStarted {
        /// The index of the iteration, from 0.
        iteration: u64,
    }

    /// An iteration has ended.
    "loop.iteration.done" IterationDone {
        /// The loop's name.
        action_name as "actionName": Arc<str>,
        /// The index of the iteration, from 0.
        iteration: u64,
        /// The kind of loop, as the dialect names it.
        loop_type as "loopType": Arc<str>,
        /// How it ended.
        status: Status,
        /// The result of the loop's condition after the iteration, if it was evaluated.
        condition_result as "conditionResult": Option<bool>,
        /// The iteration's result or a reference to it.
        result: Value,
        /// The duration of the iteration, in milliseconds.
        duration: Duration,
    } optional {
        /// The amounts the loop has used of its budget, by name.
        usage: Value,
        /// Resources used by the iteration's jobs, by name.
        iteration_usage: Value,
        /// The reason why it failed.
        error: Option<Arc<EventError>>,
    }

    /// Iterations of a long loop that only computes, combined in one event.
    "loop.progress" LoopProgress {
        /// The first iteration.
        from: u64,
        /// The last iteration.
        to: u64,
        /// The number of failed iterations.
        failed: u64,
    } optional {
        /// The steps inside that have ended since the previous event of the loop; they publish no events of their own.
        steps: Vec<StepCounts>,
    }

    /// The judge of a loop has evaluated an iteration.
    "loop.judged" LoopJudged {
        /// The index of the iteration, from 0.
        iteration: u64,
        /// Whether the loop is done; null without a verdict.
        done: Option<bool>,
        /// The complete output of the judge.
        verdict: Value,
    }

    /// A loop has ended.
    "loop.done" LoopDone {
        /// The number of iterations.
        iterations: u64,
        /// The reason why it ended.
        reason: LoopEndReason,
        /// How it ended.
        status: Status,
        /// The iterations, counted by their status.
        stats: LoopStats,
    } optional {
        /// The amounts used of its budget, by name.
        usage: Value,
        /// Iterations whose judge gave no verdict.
        unjudged: u64,
    }

    /// A job used more of a budget than was left.
    "budget.exceeded" BudgetExceeded {
        /// The name of the metered resource.
        what: Arc<str>,
        /// The amount used.
        used: u64,
        /// The maximum amount.
        max: u64,
    }

    /// Variables have changed.
    "ctx.patched" ContextPatched {
        /// The owner of the variables.
        scope: PatchScope,
        /// The new values, by name.
        patch: Value,
    }

    /// A step asks for input from outside the run.
    "input.required" InputRequired {
        /// The name of the event that carries the request.
        event: Arc<str>,
        /// The payload of the request.
        payload: Value,
        /// The step that asks.
        step: Arc<str>,
    } optional {
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A form waits for an answer from a person.
    "approval.requested" ApprovalRequested {
        /// The name of the event that answers it.
        name: Arc<str>,
        /// The address for the answer.
        address: Arc<str>,
        /// The contents of the form.
        form: Value,
    } optional {
        /// The deadline for the answer.
        deadline: Option<Timestamp>,
    }

    /// No node was waiting for an event from outside or inside the run.
    "event.unhandled" EventUnhandled {
        /// The event's name.
        event: Arc<str>,
        /// The reason why it was not handled.
        reason: Arc<str>,
    } optional {
        /// Whether the run has no other work in progress.
        idle: Option<bool>,
    }

    /// A report for a job was rejected: its lease has ended.
    "job.refused" JobRefused {
        /// The kind of report.
        event: Arc<str>,
        /// The job's number.
        job: u64,
        /// The lease epoch of the report.
        lease_epoch: u32,
        /// The reason why it was rejected.
        reason: Arc<str>,
    } optional {
        /// The lease epoch of the job.
        expected: Option<u32>,
    }

    /// A message was sent.
    "message.sent" MessageSent {
        /// The message's number in the run.
        id: Arc<str>,
        /// The sender; empty for a message from outside.
        from: Arc<str>,
        /// The receiver.
        to: Arc<str>,
    }

    /// Messages were delivered.
    "message.delivered" MessageDelivered {
        /// The receiver.
        to: Arc<str>,
        /// The numbers of the messages.
        ids: Vec<Arc<str>>,
    } optional {
        /// The messages were already delivered to an earlier attempt of the receiver.
        again: bool,
    }

    /// A message will not be delivered.
    "message.dropped" MessageDropped {
        /// The message's number in the run.
        id: Arc<str>,
        /// The sender; empty for a message from outside.
        from: Arc<str>,
        /// The receiver named in the message.
        to: Arc<str>,
        /// The code of the reason.
        reason: Arc<str>,
    } optional {
        /// The reason as a message.
        message: Option<Arc<str>>,
        /// The receivers that exist.
        known: Option<Vec<Arc<str>>>,
    }

    /// A reader stopped waiting for another receiver to become idle.
    "mail.hold_timeout" MailHoldTimeout {
        /// The receiver that did not become idle.
        to: Arc<str>,
    }

    /// A receiver has used most of its allowed mail deliveries.
    "mail.wakes_warning" MailWakesWarning {
        /// The receiver.
        to: Arc<str>,
        /// The number of deliveries so far.
        wakes: u64,
        /// The maximum number of deliveries.
        max: u64,
    }

    /// Streamed output of an agent's model.
    "agent.output" AgentOutput {
        /// The next part of the output.
        delta: Value,
    } optional {
        /// The part belongs to the model's reasoning.
        reasoning: bool,
    }

    /// A permission decision on an agent's tool call.
    "agent.permission" AgentPermission {
        /// The tool.
        tool: Arc<str>,
        /// The decision.
        decision: PermissionDecision,
    } optional {
        /// The reason why permission was denied.
        reason: Option<Arc<str>>,
    }

    /// An agent calls a tool.
    "agent.tool" AgentTool {
        /// The tool.
        tool: Arc<str>,
        /// The arguments, without secrets.
        arguments: Value,
    }

    /// A non-fatal problem with an agent's tools or model; the agent continues.
    "agent.warning" AgentWarning {
        /// The problem.
        message: Arc<str>,
    }

    /// The reply of an agent's model is no complete answer. The model is asked to continue, or the step ends.
    "agent.stopped" AgentStopped {
        /// How the reply ended: `length`, `refusal`, `filtered` or `empty`.
        stop: Arc<str>,
    }

    /// A progress message from the coordinator to the user.
    "coordinator.narration" CoordinatorNarration {
        /// The message.
        text: Value,
    }

    /// The coordinator's summary at the end.
    "coordinator.synthesis" CoordinatorSynthesis {
    } optional {
        /// The result of the workflow.
        summary: Option<Value>,
    }

    /// The coordinator failed; the steps continue without it.
    "coordinator.failed" CoordinatorFailed {
        /// The reason why it failed.
        error: Value,
    }

    /// Events that are no longer retained. Readers create this event; it is never stored.
    "events.trimmed" EventsTrimmed {
        /// The first of these events.
        from: u64,
        /// The last of these events.
        to: u64,
    }
}
