//! Results of an earlier run that a retry reuses instead of calling a tool again.
//!
//! Only the locations of the results are kept in memory. A reused result enters as an ordinary tick, so it is as
//! durable as a computed one. The journal of the new run records which results were reused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use windlass_core::state::FrameId;
use windlass_core::{
    Command, EffectKey, ExpectedValue, Job, Program, ReplayPoint, ReplayWatch, State, Status, TaskOutcome, TickKind,
};
use windlass_store::{Store, StoreRead};
use windlass_value::Value;

use crate::RuntimeError;
use crate::adapter::ChildStart;
use crate::codec::{self, TickEntryHeader};
use crate::recovery::{self, RunImage, replay_each};

/// The number of journal rows read per batch.
const ROW_BATCH_SIZE: u32 = 64;

/// A digest of a task and its input.
type TaskDigest = [u8; 16];

pub(crate) struct ReusedResults {
    store: Arc<dyn Store>,
    run: Arc<str>,
    results: BTreeMap<TaskDigest, Vec<ResultLocation>>,
    /// Child runs that did not succeed, the last one for each call.
    failed: BTreeMap<TaskDigest, String>,
    /// The ticks whose results were reused.
    used: Mutex<BTreeSet<u64>>,
    /// The journal of the new run is no longer complete: which results were reused is uncertain.
    in_doubt: bool,
}

/// The location of a result.
#[derive(Clone, Copy, Debug)]
struct ResultLocation {
    tick: u64,
    /// The generation and the visit of the task's key.
    entry: (u32, u32),
}

/// A task that is in progress while the old run is read.
struct OpenTask {
    digest: TaskDigest,
    entry: (u32, u32),
    lease_epoch: u32,
    /// The node that requested the task failed in spite of its result, so the result is not reused.
    discarded: bool,
}

impl ReusedResults {
    pub(crate) fn new(store: Arc<dyn Store>, run: Arc<str>) -> ReusedResults {
        ReusedResults {
            store,
            run,
            results: BTreeMap::new(),
            failed: BTreeMap::new(),
            used: Mutex::default(),
            in_doubt: false,
        }
    }

    /// Reads the results of the old run from this image on. Results of frames that started at `discarded` are excluded.
    pub(crate) fn read(
        &mut self,
        program: &Program,
        image: RunImage,
        discarded: Vec<ReplayPoint>,
    ) -> Result<(), RuntimeError> {
        let mut image = image;
        let mut jobs: BTreeMap<u64, OpenTask> = BTreeMap::new();
        let mut calls: BTreeMap<u64, (OpenTask, String)> = BTreeMap::new();
        let busy = image.state.jobs.values().filter(|open| !open.resting).map(|open| &open.job);
        for job in busy.filter(|job| job.key.call == 0) {
            let digest = task_digest(&job.tool, &job.key, &job.input);
            jobs.insert(
                job.job,
                OpenTask {
                    digest,
                    entry: generation_and_visit(&job.key),
                    lease_epoch: job.lease_epoch,
                    discarded: false,
                },
            );
        }
        for (call, open) in &image.state.calls {
            let digest = task_digest(&open.definition, &open.key, &open.input);
            let open_call =
                OpenTask { digest, entry: generation_and_visit(&open.key), lease_epoch: 0, discarded: false };
            calls.insert(*call, (open_call, codec::child_id(&self.run, &open.key)));
        }
        let store = self.store.clone();
        let mut watch = Some(Box::new(ReplayWatch::marking_frames(discarded)));
        let run = self.run.clone();
        replay_each(
            &*store,
            &run,
            program,
            &mut image,
            u64::MAX,
            &mut watch,
            &mut |state, tick_entry, output, watch| {
                self.note_result(state, tick_entry, &mut jobs, &mut calls);
                let is_discarded = |frame: Option<FrameId>| match (frame, &watch) {
                    (Some(frame), Some(watch)) => watch.is_marked(state, frame),
                    _ => false,
                };
                for command in &output.commands {
                    match command {
                        Command::RunWorker(job) => note_job(state, job, &mut jobs, &is_discarded),
                        Command::StartChild { call, definition, input, key } => {
                            let discarded = is_discarded(state.calls.get(call).map(|open| open.frame));
                            let digest = task_digest(definition, key, input);
                            let open_call =
                                OpenTask { digest, entry: generation_and_visit(key), lease_epoch: 0, discarded };
                            calls.insert(*call, (open_call, codec::child_id(&run, key)));
                        }
                        _ => {}
                    }
                }
                Ok(())
            },
        )
    }

    fn note_result(
        &mut self,
        state: &State,
        tick_entry: &TickEntryHeader,
        jobs: &mut BTreeMap<u64, OpenTask>,
        calls: &mut BTreeMap<u64, (OpenTask, String)>,
    ) {
        let tick = state.ticks - 1;
        match &tick_entry.tick.kind {
            TickKind::StepResult { job, lease_epoch, outcome } => {
                let unfinished = outcome.next_call.is_some() || outcome.suspension.is_some();
                if jobs.get(job).is_none_or(|open| open.lease_epoch != *lease_epoch)
                    || (outcome.error.is_none() && unfinished)
                {
                    return;
                }
                if let Some(open) = jobs.remove(job).filter(|open| outcome.error.is_none() && !open.discarded) {
                    self.results.entry(open.digest).or_default().push(ResultLocation { tick, entry: open.entry });
                }
            }
            TickKind::CallResult { call, status, .. } => match calls.remove(call) {
                Some((open, _)) if *status == Status::Succeeded && !open.discarded => {
                    self.results.entry(open.digest).or_default().push(ResultLocation { tick, entry: open.entry });
                }
                Some((open, child)) if *status != Status::Succeeded => _ = self.failed.insert(open.digest, child),
                _ => {}
            },
            _ => {}
        }
    }

    /// Excludes the results that the new run has already reused: after a crash its journal records them.
    pub(crate) fn exclude_used_by(&mut self, run: &str) -> Result<(), RuntimeError> {
        let mut used = BTreeSet::new();
        let mut from = 0;
        loop {
            let rows = self.store.journal(run, from, ROW_BATCH_SIZE)?;
            let Some(last) = rows.last() else { break };
            self.in_doubt |= from == 0 && rows.first().is_some_and(|row| row.first_tick > 0);
            from = last.first_tick + u64::from(last.ticks);
            for row in &rows {
                let entries: Vec<TickEntryHeader> = codec::decode(&row.body, "the journal")?;
                used.extend(entries.iter().filter_map(|entry| match &entry.tick.kind {
                    TickKind::StepResult { outcome, .. } | TickKind::CallResult { outcome, .. } => outcome.reused,
                    _ => None,
                }));
            }
        }
        *self.used.get_mut().unwrap_or_else(PoisonError::into_inner) = used;
        Ok(())
    }

    /// Returns the result of a task, if the old run has it. Each result is reused once.
    pub(crate) fn reuse_job(&self, job: &Job) -> Option<TaskOutcome> {
        // A task that continues an operation has started in this run.
        if job.key.call > 0 || job.resumed.is_some() {
            return None;
        }
        self.reuse(&task_digest(&job.tool, &job.key, &job.input), generation_and_visit(&job.key))
    }

    /// Returns the result of a child run, if the old run has it.
    pub(crate) fn reuse_call(&self, child: &ChildStart) -> Option<TaskOutcome> {
        self.reuse(&task_digest(&child.definition, &child.key, &child.input), generation_and_visit(&child.key))
    }

    /// Returns the failed child run of the old run that this child is to retry.
    pub(crate) fn failed_call(&self, child: &ChildStart) -> Option<String> {
        self.failed.get(&task_digest(&child.definition, &child.key, &child.input)).cloned()
    }

    fn reuse(&self, digest: &TaskDigest, entry: (u32, u32)) -> Option<TaskOutcome> {
        let found = self.results.get(digest)?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = found.iter().filter(|found| !used.contains(&found.tick));
        let same = left.clone().find(|found| found.entry == entry);
        // Otherwise the first unused result of the same task with the same input from another visit, unless it is
        // uncertain which results were reused.
        let found = same.or_else(|| left.next().filter(|_| !self.in_doubt))?;
        // A result that cannot be read is computed again.
        let outcome = self.load_outcome(found.tick).ok().flatten()?;
        used.insert(found.tick);
        Some(TaskOutcome { reused: Some(found.tick), ..outcome })
    }

    fn load_outcome(&self, tick: u64) -> Result<Option<TaskOutcome>, RuntimeError> {
        let Some(row) = self.store.journal(&self.run, tick, 1)?.pop() else { return Ok(None) };
        let entries: Vec<TickEntryHeader> = codec::decode(&row.body, "the journal")?;
        let at = tick.checked_sub(row.first_tick).and_then(|at| entries.into_iter().nth(at as usize));
        match at.map(|entry| entry.tick.kind) {
            Some(TickKind::StepResult { outcome, .. } | TickKind::CallResult { outcome, .. }) => {
                resolve_outcome(&*self.store, outcome).map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn note_job(
    state: &State,
    job: &Job,
    jobs: &mut BTreeMap<u64, OpenTask>,
    is_discarded: &dyn Fn(Option<FrameId>) -> bool,
) {
    if job.key.call > 0 || job.resumed.is_some() {
        // The same operation continues: it is identified by its first input.
        if let Some(open) = jobs.get_mut(&job.job) {
            open.lease_epoch = job.lease_epoch;
        }
        return;
    }
    let discarded = is_discarded(state.jobs.get(&job.job).map(|open| open.frame));
    let digest = task_digest(&job.tool, &job.key, &job.input);
    jobs.insert(
        job.job,
        OpenTask { digest, entry: generation_and_visit(&job.key), lease_epoch: job.lease_epoch, discarded },
    );
}

/// Returns the digest of a task. Attempts do not count: a task that succeeded in the end succeeded.
fn task_digest(tool: &str, key: &EffectKey, input: &Value) -> TaskDigest {
    let mut hasher = blake3::Hasher::new();
    for part in [tool.as_bytes(), key.path.as_bytes(), &windlass_value::encode(input)] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut digest = TaskDigest::default();
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    digest
}

fn generation_and_visit(key: &EffectKey) -> (u32, u32) {
    (key.generation, key.visit)
}

/// Returns the outcome with all stored values resolved: the new run stores them itself.
fn resolve_outcome(store: &dyn StoreRead, mut outcome: TaskOutcome) -> Result<TaskOutcome, RuntimeError> {
    let resolve_in_place = |value: &mut Value| -> Result<(), RuntimeError> {
        *value = recovery::resolve(store, value)?;
        Ok(())
    };
    resolve_in_place(&mut outcome.output)?;
    resolve_in_place(&mut outcome.facts)?;
    resolve_in_place(&mut outcome.private)?;
    if let Some(side_outputs) = &mut outcome.side_outputs {
        for sent in &mut side_outputs.sends {
            resolve_in_place(&mut sent.payload)?;
        }
        for change in &mut side_outputs.state_changes {
            resolve_in_place(&mut change.value)?;
            if let ExpectedValue::Value(was) = &mut change.expected {
                resolve_in_place(was)?;
            }
        }
    }
    Ok(outcome)
}
