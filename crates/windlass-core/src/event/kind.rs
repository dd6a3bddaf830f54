//! The types of events, each with its fields. This is the only place where their names stand.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::{Duration, Map, Timestamp, Value};

use super::declare::{events, wire_name};
use super::field::{EventDoc, EventField, FieldDoc, is_default, present, put};
use super::parts::{EventError, IdleReason, LoopEventLimits, LoopStats, PatchScope, PermissionDecision, TaskResult};
use crate::{LoopEndReason, Status};

events! {
    /// Somebody asked for the run. The first event of a run.
    "playbook.execution_requested" ExecutionRequested {
        /// The definition's name.
        definition: Arc<str>,
        /// The input as the caller gave it.
        input: Value,
    } optional {
        /// The parent run, of a child run.
        parent: Option<Arc<str>>,
        /// The run at the root of the run tree, of a child run.
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
        /// The input as the caller gave it.
        input: Value,
    }

    /// The run is made from another one and begins inside it.
    "workflow.restarted" WorkflowRestarted {
        /// The run that it was made from.
        from: Arc<str>,
        /// The first step that is done anew.
        from_path: Arc<str>,
    } optional {
        /// Only what had failed is done anew.
        retry: bool,
    }

    /// Only an event from outside can move the run.
    "workflow.idle" WorkflowIdle {
        /// The names of the events that it waits for.
        waits: Vec<Arc<str>>,
    }

    /// The run was paused: nothing new begins.
    "workflow.paused" WorkflowPaused {}

    /// The run goes on after a pause.
    "workflow.resumed" WorkflowResumed {}

    /// The run has ended. The last event of a run.
    "workflow.finished" WorkflowFinished {
        /// How it ended.
        status: Status,
        /// The run's output or a reference to it.
        output: Value,
    } optional {
        /// Why it did not succeed.
        error: Option<Arc<EventError>>,
        /// What its jobs have used, by name, where the definition counts it.
        usage: Value,
    }

    /// The run has answered its caller and goes on.
    "run.replied" RunReplied {
        /// The answer or a reference to it.
        reply: Value,
        /// Whether the answer is a success.
        good: bool,
    }

    /// A step begins.
    "step.started" StepStarted {
        /// The kind of step, in the dialect's word.
        kind: Arc<str>,
    } optional {
        /// The event that the step runs for.
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
        /// What went wrong inside although the step succeeded.
        error: Option<Arc<EventError>>,
        /// What its jobs have used, by name, where the definition counts it.
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
        /// Why it failed.
        error: Option<Arc<EventError>>,
        /// What its jobs have used, by name, where the definition counts it.
        usage: Value,
        /// The number of this step run.
        firing: Option<u64>,
        /// The code of the reason why the step did not run at all.
        reason: Option<Arc<str>>,
        /// That reason in words.
        message: Option<Arc<str>>,
    }

    /// A step was skipped.
    "step.skipped" StepSkipped {
        /// How it ended.
        status: Status,
    } optional {
        /// The step's output or a reference to it.
        output: Option<Value>,
        /// Why it was skipped.
        error: Option<Arc<EventError>>,
        /// What its jobs have used, by name, where the definition counts it.
        usage: Value,
        /// The number of this step run.
        firing: Option<u64>,
        /// The code of the reason why the step did not run at all.
        reason: Option<Arc<str>>,
        /// That reason in words.
        message: Option<Arc<str>>,
    }

    /// A step waits for a free worker.
    "step.queued" StepQueued {
        /// The event that the step would run for.
        event: Arc<str>,
        /// How many wait for a worker of this step, this one included.
        waiting: u64,
    }

    /// A step waits for something and has given its worker back.
    "step.idle" StepIdle {
        /// Why it waits.
        reason: IdleReason,
    } optional {
        /// The number of the worker that is free again.
        worker: Option<u32>,
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A step that was idle goes on.
    "step.running" StepRunning {
        /// The number of the step's worker among those of the same step.
        worker: u32,
        /// The number of this step run.
        firing: u64,
    }

    /// A task begins, or one more call of a task that takes several.
    "task.started" TaskStarted {
        /// The task's label; empty where a step is one task.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
    } optional {
        /// The tool, for a task that a worker does.
        tool: Option<Arc<str>>,
        /// The number of a further call of the same attempt.
        call: u32,
    }

    /// A worker says how far it is.
    "task.progress" TaskProgress {
        /// What the worker reports.
        progress: Value,
    }

    /// A task's operation goes on elsewhere; it is asked again later.
    "task.waiting" TaskWaiting {
        /// The task's label.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// When it is asked again.
        until: Timestamp,
    }

    /// A task or a step failed and is tried again.
    "task.retrying" TaskRetrying {
        /// The number of the attempt that failed, from 1.
        attempt: u32,
        /// The wait before the next attempt, in milliseconds.
        delay: Duration,
        /// Why the attempt failed.
        error: Arc<EventError>,
    } optional {
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A task has ended.
    "task.processed" TaskProcessed {
        /// The task's label; empty where a step is one task.
        task: Arc<str>,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How it ended.
        outcome: TaskResult,
    } optional {
        /// The result was taken over from an earlier run.
        reused: bool,
    }

    /// A loop begins.
    "loop.started" LoopStarted {
        /// The kind of loop, in the dialect's word.
        kind: Arc<str>,
        /// What limits it.
        limits: LoopEventLimits,
    }

    /// An iteration begins.
    "loop.iteration.started" IterationStarted {
        /// The number of the iteration, from 0.
        iteration: u64,
    }

    /// An iteration has ended.
    "loop.iteration.done" IterationDone {
        /// The loop's name.
        action_name as "actionName": Arc<str>,
        /// The number of the iteration, from 0.
        iteration: u64,
        /// The kind of loop, in the dialect's word.
        loop_type as "loopType": Arc<str>,
        /// How it ended.
        status: Status,
        /// The loop's condition after it, if that was evaluated.
        condition_result as "conditionResult": Option<bool>,
        /// The iteration's result or a reference to it.
        result: Value,
        /// How long it took, in milliseconds.
        duration: Duration,
    } optional {
        /// What the loop has used of its budget, by name.
        usage: Value,
        /// What the iteration's jobs have used, by name.
        iteration_usage as "turnUsage": Value,
        /// Why it failed.
        error: Option<Arc<EventError>>,
    }

    /// Iterations of a long loop that only compute, in one event.
    "loop.progress" LoopProgress {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
        /// How many of them failed.
        failed: u64,
    }

    /// The judge of a loop has looked at an iteration.
    "loop.judged" LoopJudged {
        /// The number of the iteration, from 0.
        iteration: u64,
        /// Whether the loop is done; null without a verdict.
        done: Option<bool>,
        /// All that the judge said.
        verdict: Value,
    }

    /// A loop has ended.
    "loop.done" LoopDone {
        /// How many iterations it had.
        iterations as "turns": u64,
        /// Why it ended.
        reason: LoopEndReason,
        /// How it ended.
        status: Status,
        /// Its iterations by how they ended.
        stats: LoopStats,
    } optional {
        /// What it has used of its budget, by name.
        usage: Value,
        /// Iterations whose judge gave no verdict.
        unjudged: u64,
    }

    /// A job used more of a budget than was left.
    "budget.exceeded" BudgetExceeded {
        /// The name of what is counted.
        what: Arc<str>,
        /// How much was used.
        used: u64,
        /// How much there was.
        max as "most": u64,
    }

    /// Variables have changed.
    "ctx.patched" ContextPatched {
        /// Whose variables they are.
        scope: PatchScope,
        /// The new values, by name.
        patch: Value,
    }

    /// A step asks somebody outside.
    "input.required" InputRequired {
        /// The name of the event that asks.
        event: Arc<str>,
        /// What it says.
        payload: Value,
        /// The step that asks.
        step: Arc<str>,
    } optional {
        /// The number of this step run.
        firing: Option<u64>,
    }

    /// A form waits for a person.
    "approval.requested" ApprovalRequested {
        /// The name of the event that answers it.
        name: Arc<str>,
        /// Where the answer goes.
        address: Arc<str>,
        /// What is asked.
        form: Value,
    } optional {
        /// Until when it can be answered.
        deadline: Option<Timestamp>,
    }

    /// An event from outside or inside found nobody who waits for it.
    "event.unhandled" EventUnhandled {
        /// The event's name.
        event: Arc<str>,
        /// What became of it.
        reason: Arc<str>,
    } optional {
        /// Whether nothing else goes on in the run.
        idle: Option<bool>,
    }

    /// A report for a job was rejected: its lease is over.
    "job.refused" JobRefused {
        /// The kind of report.
        event: Arc<str>,
        /// The job's number.
        job: u64,
        /// The lease epoch of the report.
        lease_epoch: u32,
        /// Why it was rejected.
        reason: Arc<str>,
    } optional {
        /// The lease epoch of the job.
        expected: Option<u32>,
    }

    /// A message is on its way.
    "message.sent" MessageSent {
        /// The message's number in the run.
        id: Arc<str>,
        /// The sender; empty for one from outside.
        from: Arc<str>,
        /// The receiver.
        to: Arc<str>,
    }

    /// Messages were read.
    "message.delivered" MessageDelivered {
        /// The receiver.
        to: Arc<str>,
        /// The numbers of the messages.
        ids: Vec<Arc<str>>,
    } optional {
        /// An earlier attempt of the receiver has read them already.
        again: bool,
    }

    /// A message will not be read.
    "message.dropped" MessageDropped {
        /// The message's number in the run.
        id: Arc<str>,
        /// The sender; empty for one from outside.
        from: Arc<str>,
        /// The receiver that was named.
        to: Arc<str>,
        /// The code of the reason.
        reason: Arc<str>,
    } optional {
        /// The reason in words.
        message: Option<Arc<str>>,
        /// The receivers that there are.
        known: Option<Vec<Arc<str>>>,
    }

    /// A reader no longer waits for another one to come to rest.
    "mail.hold_timeout" MailHoldTimeout {
        /// The one that did not come to rest.
        to: Arc<str>,
    }

    /// A receiver has used most of the times that it may be given messages.
    "mail.wakes_warning" MailWakesWarning {
        /// The receiver.
        to: Arc<str>,
        /// How often it was given messages.
        wakes: u64,
        /// How often it may be.
        max as "most": u64,
    }

    /// An agent's model answers, piece by piece.
    "agent.output" AgentOutput {
        /// The next piece of the answer.
        delta: Value,
    } optional {
        /// The piece is part of the model's reasoning.
        reasoning: bool,
    }

    /// An agent wanted to use a tool that needs permission.
    "agent.permission" AgentPermission {
        /// The tool.
        tool: Arc<str>,
        /// The answer.
        decision: PermissionDecision,
    } optional {
        /// Why it was refused.
        reason: Option<Arc<str>>,
    }

    /// An agent uses a tool.
    "agent.tool" AgentTool {
        /// The tool.
        tool: Arc<str>,
        /// The arguments, without secrets.
        arguments: Value,
    }

    /// Something about an agent's tools is wrong, and the agent goes on.
    "agent.warning" AgentWarning {
        /// What is wrong.
        message: Arc<str>,
    }

    /// The coordinator tells the user what is going on.
    "coordinator.narration" CoordinatorNarration {
        /// What it says.
        text: Value,
    }

    /// The coordinator sums up at the end.
    "coordinator.synthesis" CoordinatorSynthesis {
    } optional {
        /// What came of the workflow.
        summary: Option<Value>,
    }

    /// The coordinator failed; the steps go on without it.
    "coordinator.failed" CoordinatorFailed {
        /// Why it failed.
        error: Value,
    }

    /// Events that are no longer kept. Made by readers, never stored.
    "events.trimmed" EventsTrimmed {
        /// The first of them.
        from: u64,
        /// The last of them.
        to: u64,
    }
}
