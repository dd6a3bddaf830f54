//! Who does a pipeline's tasks. A pipeline is one job: its worker holds it under a lease, and the answer to each report is
//! the next task or the lease's end. Everything that is handed out raises the epoch, so what comes late is known.

use std::sync::Arc;

use windlass_value::{Duration, Value};

use super::budget::Amounts;
use super::pipeline::with_label;
use crate::reduce::Reducer;
use crate::state::{Body, FrameId, OpenJob, Timer};
use crate::{Command, EffectKey, Job};

/// What a task is handed out under.
struct Lease {
    job: u64,
    dispatch: u32,
    worker: u32,
}

impl Reducer<'_> {
    /// Hands the current task to the pipeline's worker; to the next free one, if it has none.
    pub(super) fn hand_out(
        &mut self,
        id: FrameId,
        tool: Arc<str>,
        input: Value,
        timeout: Option<Duration>,
        reserved: Amounts,
    ) {
        let path = self.path(id);
        let input = self.slim(input);
        let Some((label, hidden)) = self.program_task(id).map(|task| (task.label.clone(), task.hidden)) else { return };
        let Lease { job, dispatch, worker } = self.take_lease(id);
        let Some(frame) = self.state.frames.get_mut(id) else { return };
        let generation = frame.generation;
        let Body::Pipeline(body) = &mut frame.body else { return };
        body.job = Some(job);
        // What the node was given stays what its operation began with.
        let goes_on = body.again.take().is_some();
        if !goes_on {
            body.sent = true;
            body.tool = Some(tool.clone());
            body.inputs = input.clone();
        }
        let (attempt, visit) = (body.attempt, body.visits.get(&body.pc).copied().unwrap_or(0));
        let (group, call) = (body.group, if goes_on { body.call } else { 0 });
        let path = with_label(path, &label);
        let key = EffectKey { path: path.clone(), generation, visit, group, call };
        let (cancelled, resting) = (None, false);
        let tried = body.tried.clone();
        let (at, resumed) = (self.attempt_begun_at(id), self.goes_on_with(id));
        let open = OpenJob {
            frame: id,
            dispatch,
            worker,
            tool,
            input,
            key,
            attempt,
            timeout,
            cancelled,
            resting,
            at,
            resumed,
            tried,
            reserved,
        };
        if !hidden {
            let mut fields = vec![
                ("task", Value::Str(label)),
                ("attempt", Value::from(attempt)),
                ("tool", Value::Str(open.tool.clone())),
            ];
            fields.extend((call > 0).then(|| ("call", Value::from(call))));
            self.publish(path, "task.started", fields);
        }
        self.work.output.commands.push(Command::RunWorker(job_of(job, &open)));
        self.state.jobs.insert(job, Box::new(open));
    }

    /// The lease that the pipeline holds, the one that it has given back, or its first: each time with the next epoch.
    fn take_lease(&mut self, id: FrameId) -> Lease {
        let body = self.pipeline_mut(id);
        let (held, given_back) = body.map(|body| (body.job, body.given_back.take())).unwrap_or_default();
        let held = held.and_then(|job| Some((job, self.state.jobs.get(&job)?)));
        if let Some((job, open)) = held {
            return Lease { job, dispatch: open.dispatch + 1, worker: open.worker };
        }
        let worker = self.free_worker();
        if let Some((job, dispatch)) = given_back {
            return Lease { job, dispatch: dispatch + 1, worker };
        }
        self.state.next_job += 1;
        Lease { job: self.state.next_job - 1, dispatch: 0, worker }
    }

    fn free_worker(&mut self) -> u32 {
        self.state.free_workers.pop_first().unwrap_or_else(|| {
            self.state.workers += 1;
            self.state.workers - 1
        })
    }

    /// The worker is lost: the same task with the same key, for another.
    pub(in crate::reduce) fn hand_out_again(&mut self, job: u64) {
        let worker = self.free_worker();
        let Some(open) = self.state.jobs.get_mut(&job) else { return };
        open.dispatch += 1;
        open.worker = worker;
        let command = Command::RunWorker(job_of(job, open));
        self.work.output.commands.push(command);
    }

    /// The worker has reported. Unless the run is paused it keeps the lease, for the pipeline's next task.
    pub(in crate::reduce) fn put_to_rest(&mut self, job: u64) {
        let Some(open) = self.state.jobs.get_mut(&job) else { return };
        if !self.program.plan.leases_pipelines() {
            let frame = open.frame;
            self.close_job(job);
            return self.forget_job(frame);
        }
        open.resting = true;
        open.input = Value::Null;
        if self.state.paused {
            self.give_back(job);
        }
    }

    /// The pipeline waits for so long: a short while with its worker, else without.
    pub(super) fn rest_for(&mut self, id: FrameId, wait: Duration) {
        if wait > self.program.limits.lease_hold {
            self.leave_worker(id);
        }
    }

    /// The pipeline goes on without a worker, for now.
    pub(super) fn leave_worker(&mut self, id: FrameId) {
        if let Some(job) = self.pipeline_mut(id).and_then(|body| body.job) {
            self.give_back(job);
        }
    }

    /// Somebody else may have the worker; the pipeline takes up its job where it was left.
    pub(in crate::reduce) fn give_back(&mut self, job: u64) {
        let Some(open) = self.state.jobs.get(&job).filter(|open| open.resting) else { return };
        let (frame, dispatch) = (open.frame, open.dispatch);
        self.close_job(job);
        self.forget_job(frame);
        if let Some(body) = self.pipeline_mut(frame) {
            body.given_back = Some((job, dispatch));
        }
    }

    /// Nobody can say how long it takes until the next tasks: all workers at rest are let go.
    pub(in crate::reduce) fn give_all_back(&mut self) {
        let resting = self.state.jobs.iter().filter(|(_, open)| open.resting).map(|(job, _)| *job);
        for job in resting.collect::<Vec<_>>() {
            self.give_back(job);
        }
    }

    /// The task is no longer wanted; until its worker confirms, or has had its grace, it keeps its slot.
    pub(in crate::reduce) fn call_off(&mut self, job: u64) {
        let key = self.set_timer(self.now() + self.program.limits.cancel_grace, Timer::Grace(job));
        if let Some(open) = self.state.jobs.get_mut(&job) {
            open.cancelled = Some(key);
            self.work.output.commands.push(Command::CancelWorker { job });
        }
    }

    /// A cancelled job is no longer waited for: its worker has confirmed, or has had its grace.
    pub(in crate::reduce) fn job_gone(&mut self, job: u64) {
        let Some(frame) = self.close_job(job) else { return };
        self.forget_job(frame);
        self.close_if_empty(frame);
    }

    /// Takes a job out of the state; its worker's number is free again.
    pub(in crate::reduce) fn close_job(&mut self, job: u64) -> Option<FrameId> {
        self.settle_job(job, None);
        let open = self.state.jobs.remove(&job)?;
        self.state.free_workers.insert(open.worker);
        if let Some(key) = open.cancelled {
            self.state.timers.remove(&key);
        }
        if open.resting {
            self.work.output.commands.push(Command::EndLease { job, dispatch: open.dispatch });
        }
        Some(open.frame)
    }

    fn forget_job(&mut self, id: FrameId) {
        if let Some(body) = self.pipeline_mut(id) {
            body.job = None;
        }
    }

    /// Whose job it is, if whoever speaks for it is busy with it. Older reports do not say their epoch.
    pub(in crate::reduce) fn spoken_for(&self, job: u64, dispatch: Option<u32>) -> Option<FrameId> {
        let open = self.state.jobs.get(&job).filter(|open| open.is_out(dispatch.unwrap_or(open.dispatch)))?;
        Some(open.frame)
    }

    /// Somebody speaks of a job that is not, or no longer, theirs. It changes nothing, and people can see it.
    pub(in crate::reduce) fn refuse(&mut self, what: &'static str, job: u64, dispatch: Option<u32>) {
        if !self.program.plan.leases_pipelines() {
            return self.late(what);
        }
        let open = self.state.jobs.get(&job);
        let (path, epoch) = (open.map(|open| open.key.path.clone()), open.map(|open| open.dispatch));
        let mut fields = vec![("event", Value::from(what)), ("job", Value::from(job))];
        fields.extend(dispatch.map(|dispatch| ("epoch", Value::from(dispatch))));
        fields.extend(epoch.map(|epoch| ("expected", Value::from(epoch))));
        fields.push(("reason", "its lease is over; it changed nothing".into()));
        self.publish(path.unwrap_or_default(), "job.refused", fields);
    }
}

fn job_of(job: u64, open: &OpenJob) -> Job {
    Job {
        job,
        dispatch: open.dispatch,
        worker: open.worker,
        tool: open.tool.clone(),
        input: open.input.clone(),
        key: open.key.clone(),
        attempt: open.attempt,
        path: open.key.path.clone(),
        timeout: open.timeout,
        at: open.at,
        resumed: open.resumed.clone(),
        tried: open.tried.clone(),
    }
}
