//! Leases of pipelines. A pipeline is one job: its worker holds it under a lease, and the response to each report is
//! the next task or the end of the lease. Every dispatch raises the lease epoch, so that stale reports are
//! recognized.
//!
//! | job | dispatch | report | lease expired | cancel | return | grace | pipeline ends |
//! |---|---|---|---|---|---|---|---|
//! | none | running, with the first epoch | rejected | rejected | – | none | – | none |
//! | running | – | resting | running, with the next epoch | cancelled | running | – | gone |
//! | resting | running, with the next epoch | rejected | returned | – | returned | – | gone, and its lease ends |
//! | cancelled | – | gone | gone | – | cancelled | gone | gone |
//! | returned | running, with the next epoch | rejected | rejected | – | returned | – | gone |
//!
//! – is impossible and a fault. *Rejected* is legitimate, and an event reports it: the lease has ended.

use std::sync::Arc;

use windlass_value::{Duration, Value, interned};

use super::pipeline::with_label;
use crate::reduce::Reducer;
use crate::reduce::budget::Amounts;
use crate::reduce::fault::{FaultResult, no_job};
use crate::state::{FrameId, OpenJob, Timer};
use crate::{Command, EffectKey, EventKind, Job};

/// The lease under which a task is dispatched.
struct Lease {
    job: u64,
    lease_epoch: u32,
    worker: u32,
}

impl Reducer<'_> {
    /// Dispatches the current task to the pipeline's worker; to the next free one, if it has none.
    pub(super) fn dispatch_task(
        &mut self,
        id: FrameId,
        tool: Arc<str>,
        input: Value,
        timeout: Option<Duration>,
        reserved: Amounts,
    ) -> FaultResult {
        let path = self.path(id);
        let input = self.move_to_blob(input);
        let task = self.pipeline_frame(id)?.task;
        let (label, hidden) = (task.label.clone(), task.hidden);
        let Lease { job, lease_epoch, worker } = self.take_lease(id)?;
        let generation = self.frame(id)?.generation;
        let body = self.pipeline_frame_mut(id)?;
        body.job = Some(job);
        // The node's recorded input stays the one its operation began with.
        let continues = body.next_call_input.take().is_some();
        if !continues {
            body.sent = true;
            body.tool = Some(tool.clone());
            body.inputs = input.clone();
        }
        let (attempt, visit) = (body.attempt, body.visits.get(&body.pc).copied().unwrap_or(0));
        let (group, call) = (body.group, if continues { body.call } else { 0 });
        let path = with_label(path, &label);
        let key = EffectKey { path: path.clone(), generation, visit, group, call };
        let previous_attempts = body.previous_attempts.clone();
        let (at, resumed) = (self.attempt_started_at(id)?, self.take_resume_data(id)?);
        let job = Job { job, lease_epoch, worker, tool, input, key, attempt, timeout, at, resumed, previous_attempts };
        if !hidden {
            let tool = Some(job.tool.clone());
            self.publish(path, EventKind::TaskStarted { task: label, attempt, tool, call });
        }
        self.work.output.commands.push(Command::RunWorker(job.clone()));
        let open = OpenJob { frame: id, job, cancelled: None, resting: false, reserved };
        self.state.jobs.insert(open.job.job, Box::new(open));
        Ok(())
    }

    /// Returns the lease that the pipeline holds, the one that it has returned, or its first: each time with the next
    /// lease epoch.
    fn take_lease(&mut self, id: FrameId) -> FaultResult<Lease> {
        let body = self.pipeline_frame_mut(id)?;
        let (held, returned) = (body.job, body.returned_lease.take());
        if let Some(job) = held {
            let open = self.state.jobs.get(&job).filter(|open| open.resting);
            let open = open.ok_or_else(|| no_job(job, "a job at rest whose lease its pipeline holds"))?;
            return Ok(Lease { job, lease_epoch: open.job.lease_epoch + 1, worker: open.job.worker });
        }
        let worker = self.free_worker();
        if let Some((job, lease_epoch)) = returned {
            return Ok(Lease { job, lease_epoch: lease_epoch + 1, worker });
        }
        self.state.next_job += 1;
        Ok(Lease { job: self.state.next_job - 1, lease_epoch: 0, worker })
    }

    fn free_worker(&mut self) -> u32 {
        self.state.free_workers.pop_first().unwrap_or_else(|| {
            self.state.workers += 1;
            self.state.workers - 1
        })
    }

    /// Dispatches the task of a lost worker again, with the same key, to another worker.
    pub(in crate::reduce) fn redispatch(&mut self, job: u64) -> FaultResult {
        let worker = self.free_worker();
        let open = self.state.jobs.get_mut(&job).ok_or_else(|| no_job(job, "a job whose worker is lost"))?;
        open.job.lease_epoch += 1;
        open.job.worker = worker;
        self.work.output.commands.push(Command::RunWorker(open.job.clone()));
        Ok(())
    }

    /// Records that the worker has reported. Unless the run is paused, it keeps the lease for the pipeline's next task.
    pub(in crate::reduce) fn rest_job(&mut self, job: u64) -> FaultResult {
        let open = self.state.jobs.get_mut(&job).ok_or_else(|| no_job(job, "a job whose worker has reported"))?;
        open.resting = true;
        open.job.input = Value::Null;
        if self.state.paused {
            self.return_lease(job)?;
        }
        Ok(())
    }

    /// Keeps the worker during a short wait and returns it for a long one.
    pub(super) fn hold_or_return_worker(&mut self, id: FrameId, wait: Duration) -> FaultResult {
        if wait > self.program.limits.lease_hold { self.return_worker(id) } else { Ok(()) }
    }

    /// Returns the pipeline's worker for now.
    pub(in crate::reduce) fn return_worker(&mut self, id: FrameId) -> FaultResult {
        match self.pipeline_frame_mut(id)?.job {
            Some(job) => self.return_lease(job),
            None => Ok(()),
        }
    }

    /// Frees the worker of a resting job; the pipeline later continues the job where it stopped. A busy worker is not
    /// freed.
    pub(in crate::reduce) fn return_lease(&mut self, job: u64) -> FaultResult {
        let open = self.state.jobs.get(&job).ok_or_else(|| no_job(job, "a job that a worker holds"))?;
        if !open.resting {
            return Ok(());
        }
        let (frame, lease_epoch) = (open.frame, open.job.lease_epoch);
        self.close_job(job)?;
        self.forget_job(frame)?;
        self.pipeline_frame_mut(frame)?.returned_lease = Some((job, lease_epoch));
        Ok(())
    }

    /// Returns all resting workers, because the time until the next tasks is unknown.
    pub(in crate::reduce) fn return_resting_leases(&mut self) -> FaultResult {
        let resting = self.state.jobs.iter().filter(|(_, open)| open.resting).map(|(job, _)| *job);
        resting.collect::<Vec<_>>().into_iter().try_for_each(|job| self.return_lease(job))
    }

    /// Cancels a job; it keeps its slot until its worker confirms or its grace period is over.
    pub(in crate::reduce) fn cancel_job(&mut self, job: u64) -> FaultResult {
        let key = self.set_timer(self.now() + self.program.limits.cancel_grace, Timer::Grace(job));
        let open = self.state.jobs.get_mut(&job).ok_or_else(|| no_job(job, "a job that is being cancelled"))?;
        open.cancelled = Some(key);
        self.work.output.commands.push(Command::CancelWorker { job });
        Ok(())
    }

    /// Removes a cancelled job: its worker has confirmed, or its grace period is over.
    pub(in crate::reduce) fn job_cancelled(&mut self, job: u64) -> FaultResult {
        let frame = self.close_job(job)?;
        self.forget_job(frame)?;
        self.close_if_empty(frame)
    }

    /// Removes a job from the state and frees its worker's number.
    pub(in crate::reduce) fn close_job(&mut self, job: u64) -> FaultResult<FrameId> {
        self.account_job(job, None)?;
        let open = self.state.jobs.remove(&job).ok_or_else(|| no_job(job, "a job that ends"))?;
        self.state.free_workers.insert(open.job.worker);
        if let Some(key) = open.cancelled {
            self.state.timers.remove(&key);
        }
        if open.resting {
            self.work.output.commands.push(Command::EndLease { job, lease_epoch: open.job.lease_epoch });
        }
        Ok(open.frame)
    }

    fn forget_job(&mut self, id: FrameId) -> FaultResult {
        self.pipeline_frame_mut(id)?.job = None;
        Ok(())
    }

    /// Returns the frame of the job, if this lease epoch is current and a worker executes the job.
    pub(in crate::reduce) fn frame_of_dispatched(&self, job: u64, lease_epoch: u32) -> Option<FrameId> {
        let open = self.state.jobs.get(&job).filter(|open| open.is_dispatched_under(lease_epoch))?;
        Some(open.frame)
    }

    /// Rejects a stale report for a job. It changes nothing, and an event reports it.
    pub(in crate::reduce) fn reject_report(&mut self, what: &'static str, job: u64, lease_epoch: u32) {
        let open = self.state.jobs.get(&job);
        let (path, expected) = (open.map(|open| open.job.path().clone()), open.map(|open| open.job.lease_epoch));
        let (event, reason) = (interned(what), interned("its lease has ended; the report changed nothing"));
        let refused = EventKind::JobRefused { event, job, reason, lease_epoch, expected };
        self.publish(path.unwrap_or_default(), refused);
    }
}
