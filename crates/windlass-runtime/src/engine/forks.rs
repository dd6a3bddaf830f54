//! Runs created from other runs: a restart from a step, and a retry of failed work.
//!
//! The journal of the source run is replayed to the moment right before a node started, possibly inside a tick. That
//! state is the first snapshot of the new run. The source run does not change.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::state::{ForkOrigin, SetVariableError};
use windlass_core::{ObservedFailures, Program, ReplayPoint, ReplayWatch, State, Values};
use windlass_store::{IterationRow, RunRow, RunStatus};
use windlass_value::{BlobHash, Timestamp, Value};

use super::inherited_history::{self, InheritedHistory, InheritedRows};
use super::snapshots::{StartFromState, referenced_blobs};
use super::starts::input_hash;
use super::{Durability, EngineInner, RunHandle, RunOptions, RuntimeEngine, new_run_id};
use crate::blobs::BlobCache;
use crate::external_input::neutralize_references;
use crate::nearest::{nearest, path_distance};
use crate::recovery::{RunImage, new_state, replay_each};
use crate::reused_results::ReusedResults;
use crate::{RuntimeError, codec, recovery};

/// A request to restart a run from a path, as a new run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RestartRequest {
    /// A path as in events: `sync[3].fetch`, or `sync[3]` for the whole iteration.
    pub from: String,
    /// The occurrence at which to restart, counted from 1; `None` for the last.
    pub occurrence: Option<u64>,
    /// Variable overrides that are visible at the restart point.
    pub set: Vec<(String, Value)>,
    /// The id of the new run. Requests with the same id give the same run.
    pub id: Option<String>,
}

/// The run that another run was created from, and the restart point.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RestartOrigin {
    /// The id of the source run.
    pub run: Arc<str>,
    /// The path that was repeated first.
    pub path: Arc<str>,
    /// The run is a retry: it repeats failed work and reuses results that succeeded after that point.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    /// The occurrence that was asked for, counted from 1; `None` for the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u64>,
    /// The hash of the variable overrides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<BlobHash>,
    /// The restart point in the source run's journal.
    pub at: ReplayPoint,
    /// The number of events that the source run had published by then.
    pub events: u64,
    /// The time of the source run by then.
    pub time: Timestamp,
}

/// A child run from the view of its parent's call.
pub(super) struct ChildCall {
    pub id: Arc<str>,
    pub parent: Arc<str>,
    pub parent_execution_id: i64,
    pub call: u64,
}

impl RestartOrigin {
    fn to_fork_origin(&self) -> ForkOrigin {
        ForkOrigin { run: self.run.clone(), path: self.path.clone(), retry: self.retry }
    }

    /// Reports whether both come from the same request. The starting point of a retry is not part of its request.
    fn is_same_request(&self, other: &RestartOrigin) -> bool {
        let restart_point = |one: &RestartOrigin| (one.path.clone(), one.occurrence, one.set);
        self.run == other.run
            && self.retry == other.retry
            && (self.retry || restart_point(self) == restart_point(other))
    }
}

impl RuntimeEngine {
    /// Creates a run that repeats another run from a step, a task or a loop iteration on. Work before that point keeps
    /// its results; work that was in flight is repeated. The source run may be open and is not touched.
    pub async fn restart(&self, run: &str, restart: RestartRequest) -> Result<RunHandle, RuntimeError> {
        let old = self.inner.load_source_run(run)?;
        let set = (!restart.set.is_empty()).then(|| input_hash(&Value::object(restart.set.iter().cloned())));
        let mut from = RestartOrigin {
            run: old.row.run.clone(),
            path: restart.from.as_str().into(),
            retry: false,
            occurrence: restart.occurrence,
            set,
            at: ReplayPoint::default(),
            events: 0,
            time: Timestamp::default(),
        };
        if let Some(handle) = self.existing_fork(restart.id.as_deref(), &from).await? {
            return Ok(handle);
        }
        from.at = old.find_beginning(&from.path, restart.occurrence)?;
        let mut point = old.fork_point(from.at)?;
        let mut values = BlobCache::default();
        for (name, value) in &restart.set {
            old.set(&mut point.state, &mut values, &from.path, name, &neutralize_references(value.clone()))?;
        }
        point.blobs.extend(values.take_fresh());
        self.fork(old, point, from, restart.id).await
    }

    /// Creates a run that repeats the failed work of an ended run and everything that depends on it. Other results that
    /// succeeded are reused as long as their tasks have the same input.
    pub async fn retry_failed(&self, run: &str, id: Option<String>) -> Result<RunHandle, RuntimeError> {
        let old = self.inner.load_source_run(run)?;
        let at = ReplayPoint::default();
        let (run, path) = (old.row.run.clone(), "".into());
        let (events, time) = (0, Timestamp::default());
        let mut from = RestartOrigin { run, path, retry: true, occurrence: None, set: None, at, events, time };
        if let Some(handle) = self.existing_fork(id.as_deref(), &from).await? {
            return Ok(handle);
        }
        if !old.row.status.is_final() {
            return Err(RuntimeError::StillOpen(old.row.run.to_string()));
        }
        (from.path, from.at) = old.first_failure()?;
        let point = old.fork_point(from.at)?;
        self.fork(old, point, from, id).await
    }

    /// Creates a child run as a retry of another. Returns false if it has to be started from the beginning.
    pub(super) async fn retry_child(
        &self,
        old: &str,
        plan: BlobHash,
        child_call: ChildCall,
        depth: u64,
        trace: Option<Arc<str>>,
        at: Timestamp,
    ) -> Result<bool, RuntimeError> {
        let ChildCall { id, parent, parent_execution_id, call } = child_call;
        let Ok(old) = self.inner.load_source_run(old) else { return Ok(false) };
        if old.row.plan != plan || !old.row.status.is_final() {
            return Ok(false);
        }
        let Ok((path, moment)) = old.first_failure() else { return Ok(false) };
        let ForkPoint { mut state, history, mut blobs } = old.fork_point(moment)?;
        let (run, events, time) = (old.row.run.clone(), state.events, state.now);
        let from = RestartOrigin { run, path, retry: true, occurrence: None, set: None, at: moment, events, time };
        state.reset_for_fork(&id);
        (state.run.parent, state.run.trace) = (Some(parent.clone()), trace.clone());
        state.run.parent_execution_id = Some(parent_execution_id);
        state.fork_origin = Some(Box::new(from.to_fork_origin()));
        state.shift_time_to(&old.program, at);
        let how = RunOptions { parent: Some((parent, call)), depth, trace, from: Some(from), ..old.fork_options(self) };
        blobs.extend(referenced_blobs(&*self.inner.store, &codec::state_bytes(&state).0)?);
        let guard = self.inner.acquire_reload_guard(&id).await;
        let (program, labels) = (old.program, old.row.labels);
        let beginning = StartFromState { run: id.clone(), plan, program, state, options: how, blobs, history, labels };
        match self.start_from_state(beginning, guard).await {
            Ok(_) => Ok(true),
            // It was created in the meantime, or cancelled before it started.
            Err(RuntimeError::RunExists(_)) if self.inner.store.run(&id)?.is_none() => {
                Err(RuntimeError::CancelledBeforeStart(id.to_string()))
            }
            Err(RuntimeError::RunExists(_)) => self.attach(&id, false, false).await.map(|_| true),
            Err(error) => Err(error),
        }
    }

    /// Returns the run with this id if it was created by the same request.
    async fn existing_fork(&self, id: Option<&str>, from: &RestartOrigin) -> Result<Option<RunHandle>, RuntimeError> {
        let Some(row) = id.map(|id| self.inner.store.run(id)).transpose()?.flatten() else { return Ok(None) };
        let how = RunOptions::from_row(&row)?;
        match how.from.is_some_and(|before| before.is_same_request(from)) {
            true => self.attach_run_tree(&row.run, false, true).await.map(Some),
            false => Err(RuntimeError::RunExists(row.run.to_string())),
        }
    }

    async fn fork(
        &self,
        old: SourceRun,
        point: ForkPoint,
        mut from: RestartOrigin,
        id: Option<String>,
    ) -> Result<RunHandle, RuntimeError> {
        let ForkPoint { mut state, history, mut blobs } = point;
        (from.events, from.time) = (state.events, state.now);
        let run: Arc<str> = id.clone().unwrap_or_else(new_run_id).into();
        self.inner.check_tools(&run, &old.program)?;
        state.reset_for_fork(&run);
        state.fork_origin = Some(Box::new(from.to_fork_origin()));
        state.shift_time_to(&old.program, self.inner.clock.now());
        let how = RunOptions { from: Some(from.clone()), ..old.fork_options(self) };
        blobs.extend(referenced_blobs(&*self.inner.store, &codec::state_bytes(&state).0)?);
        let guard = self.inner.acquire_reload_guard(&run).await;
        let (plan, program, labels) = (old.row.plan, old.program, old.row.labels);
        let beginning = StartFromState { run, plan, program, state, options: how, blobs, history, labels };
        match self.start_from_state(beginning, guard).await {
            // A concurrent request was faster.
            Err(RuntimeError::RunExists(run)) => {
                self.existing_fork(id.as_deref(), &from).await?.ok_or(RuntimeError::RunExists(run))
            }
            created => created,
        }
    }
}

impl EngineInner {
    fn load_source_run(&self, run: &str) -> Result<SourceRun, RuntimeError> {
        let row = self.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
        let how = RunOptions::from_row(&row)?;
        if how.in_memory {
            return Err(RuntimeError::InMemoryOnly(run.to_owned()));
        }
        let program = self.program(&row.plan)?;
        Ok(SourceRun { store: self.store.clone(), row, options: how, program })
    }

    /// Loads the results that a retry can reuse from its source run, as far as the journal still has them.
    pub(super) fn load_reused_results(
        &self,
        run: &Arc<str>,
        from: Option<&RestartOrigin>,
    ) -> Result<Option<Arc<ReusedResults>>, RuntimeError> {
        let Some(from) = from.filter(|from| from.retry) else { return Ok(None) };
        let old = match self.load_source_run(&from.run) {
            Ok(old) => old,
            // It was removed in the meantime: everything is repeated.
            Err(RuntimeError::NoSuchRun(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let (failures, _) = old.failures()?;
        let image = old.image_at(from.at.tick)?;
        let mut reused = ReusedResults::new(self.store.clone(), old.row.run.clone());
        reused.read(&old.program, image, failures.not_reusable)?;
        reused.exclude_used_by(run)?;
        Ok(Some(Arc::new(reused)))
    }
}

/// A source run at the moment from which a new run continues.
struct ForkPoint {
    state: State,
    history: Vec<IterationRow>,
    /// The stored values of the history.
    blobs: Vec<(BlobHash, Vec<u8>)>,
}

/// The run that another run is created from.
struct SourceRun {
    store: Arc<dyn windlass_store::Store>,
    row: RunRow,
    options: RunOptions,
    program: Arc<Program>,
}

impl SourceRun {
    /// Returns the start options for a run that is forked from this one: it has no parent.
    fn fork_options(&self, engine: &RuntimeEngine) -> RunOptions {
        RunOptions {
            virtual_time: self.options.virtual_time,
            input: self.options.input,
            parent: None,
            depth: 0,
            delivery: None,
            trace: None,
            in_memory: engine.inner.durability == Durability::InMemory,
            from: None,
            run_tree: self.options.run_tree.clone(),
            mock_file: engine.inner.mock_file.clone(),
        }
    }

    /// Returns the path and the start of the first failure. For a run that did not end successfully by itself, falls
    /// back to the first node that was cancelled.
    fn first_failure(&self) -> Result<(Arc<str>, ReplayPoint), RuntimeError> {
        let (failures, kept_from) = self.failures()?;
        let cut = failures.cancelled.filter(|_| !matches!(self.row.status, RunStatus::Succeeded | RunStatus::Skipped));
        let failed = failures.first.or(cut).ok_or_else(|| RuntimeError::NothingFailed(self.row.run.to_string()))?;
        let began = failed.began_at.ok_or_else(|| self.began_before_error(&failed.path, kept_from))?;
        Ok((failed.path, began))
    }

    fn new_state(&self) -> State {
        new_state(&self.row.run, self.row.execution_id, &self.program, self.row.created_at)
    }

    /// Returns the run at the first moment that is retained.
    fn oldest_image(&self) -> Result<RunImage, RuntimeError> {
        let first = self.store.journal(&self.row.run, 0, 1)?.first().map_or(0, |row| row.first_tick);
        let snapshot = self.store.oldest_snapshot(&self.row.run)?.filter(|snapshot| snapshot.tick == 0 || first > 0);
        let state =
            snapshot.map(|snapshot| recovery::decode_checked_state(&self.program, &snapshot.body)).transpose()?;
        Ok(RunImage::new(state.unwrap_or_else(|| self.new_state())))
    }

    /// Returns the run after this number of ticks.
    fn image_at(&self, tick: u64) -> Result<RunImage, RuntimeError> {
        let snapshot = self.store.snapshot(&self.row.run, Some(tick))?;
        let state =
            snapshot.map(|snapshot| recovery::decode_checked_state(&self.program, &snapshot.body)).transpose()?;
        let mut image = RunImage::new(state.unwrap_or_else(|| self.new_state()));
        let mut iterations = Vec::new();
        let store = &*self.store;
        replay_each(store, &self.row.run, &self.program, &mut image, tick, &mut None, &mut |_, _, output, _| {
            iterations.extend(output.iterations);
            Ok(())
        })?;
        image.iterations = iterations;
        Ok(image)
    }

    fn replay(
        &self,
        image: &mut RunImage,
        to: u64,
        watch: Option<ReplayWatch>,
        observe: &mut dyn FnMut(&mut ReplayWatch),
    ) -> Result<Option<ReplayWatch>, RuntimeError> {
        let mut watch = watch.map(Box::new);
        replay_each(&*self.store, &self.row.run, &self.program, image, to, &mut watch, &mut |_, _, _, watch| {
            watch.into_iter().for_each(&mut *observe);
            Ok(())
        })?;
        Ok(watch.map(|watch| *watch))
    }

    /// Returns when the node at the path started: for the n-th time, or last.
    fn find_beginning(&self, path: &Arc<str>, occurrence: Option<u64>) -> Result<ReplayPoint, RuntimeError> {
        let mut image = self.oldest_image()?;
        let kept_from = image.state.ticks;
        let (mut times, mut found) = (0, None);
        self.replay(&mut image, u64::MAX, Some(ReplayWatch::at_path(path.clone())), &mut |watch| {
            for moment in watch.take_begun() {
                times += 1;
                if occurrence.is_none_or(|requested| requested == times) {
                    found = Some(moment);
                }
            }
        })?;
        // Earlier occurrences cannot be counted.
        if times == 0 || (occurrence.is_some() && kept_from > 0) {
            return Err(match kept_from {
                0 => self.no_such_path_error(path)?,
                _ => self.began_before_error(path, kept_from),
            });
        }
        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        let (run, path) = (self.row.run.to_string(), path.to_string());
        let occurrence = occurrence.unwrap_or_default();
        found.ok_or(RuntimeError::NoSuchOccurrence { run, path, times, occurrence })
    }

    fn began_before_error(&self, path: &str, tick: u64) -> RuntimeError {
        RuntimeError::BeganBefore { run: self.row.run.to_string(), path: path.to_owned(), tick }
    }

    fn no_such_path_error(&self, path: &Arc<str>) -> Result<RuntimeError, RuntimeError> {
        let mut best: Option<((usize, u64), Arc<str>)> = None;
        self.replay(&mut self.oldest_image()?, u64::MAX, Some(ReplayWatch::all_paths()), &mut |watch| {
            for begun in watch.take_paths() {
                let away = path_distance(path, &begun);
                if best.as_ref().is_none_or(|(before, _)| away < *before) {
                    best = Some((away, begun));
                }
            }
        })?;
        let nearest = nearest(path, best.iter().map(|(_, path)| &**path)).map(str::to_owned);
        Ok(RuntimeError::NoSuchPath { run: self.row.run.to_string(), path: path.to_string(), nearest })
    }

    /// Returns the failures, and the first tick that was available to find them.
    fn failures(&self) -> Result<(ObservedFailures, u64), RuntimeError> {
        let mut image = self.oldest_image()?;
        let kept_from = image.state.ticks;
        let watch = self.replay(&mut image, u64::MAX, Some(ReplayWatch::for_failures()), &mut |_| {})?;
        let mut failures = watch.and_then(|watch| watch.observed_failures().cloned()).unwrap_or_default();
        failures.not_reusable.sort_unstable();
        Ok((failures, kept_from))
    }

    /// Returns the run right before a node started.
    fn fork_point(&self, at: ReplayPoint) -> Result<ForkPoint, RuntimeError> {
        let mut image = self.image_at(at.tick)?;
        let replayed = std::mem::take(&mut image.iterations);
        let watch = self.replay(&mut image, at.tick + 1, Some(ReplayWatch::stop_before(at.item)), &mut |_| {})?;
        if !watch.is_some_and(|watch| watch.has_stopped()) {
            let why = format!("tick {} changed between planning the fork and executing it", at.tick);
            return Err(RuntimeError::Quarantined { run: self.row.run.to_string(), why });
        }
        let ended_later = self.iterations_after(at.tick, image.iterations.len())?;
        let mut history = InheritedHistory::read(&*self.store, &self.row.run, &ended_later)?;
        // The newest iterations of an open run may not have their rows yet.
        history.extend(replayed.into_iter().chain(image.iterations));
        let InheritedRows { rows, blobs } = history.into_rows(&*self.store, &self.program.limits)?;
        Ok(ForkPoint { state: image.state, history: rows, blobs })
    }

    /// Returns the iterations that ended in this tick, without the first `skipped` of them, and later.
    fn iterations_after(&self, tick: u64, skipped: usize) -> Result<BTreeSet<(Arc<str>, u64)>, RuntimeError> {
        let mut image = self.image_at(tick)?;
        let mut ended = Vec::new();
        let store = &*self.store;
        replay_each(store, &self.row.run, &self.program, &mut image, u64::MAX, &mut None, &mut |_, _, output, _| {
            ended.extend(output.iterations.iter().map(inherited_history::key));
            Ok(())
        })?;
        Ok(ended.into_iter().skip(skipped).collect())
    }

    fn set(
        &self,
        state: &mut State,
        values: &mut BlobCache,
        path: &str,
        name: &str,
        value: &Value,
    ) -> Result<(), RuntimeError> {
        let cap = self.program.limits.max_inline_bytes;
        let value = match value.size_up_to(cap) > cap {
            true => Value::Stored(Arc::new(values.put(value))),
            false => value.clone(),
        };
        let unknown = |known: Vec<Arc<str>>| RuntimeError::NoSuchVariable {
            path: path.to_owned(),
            name: name.to_owned(),
            nearest: nearest(name, known.iter().map(|name| &**name)).map(str::to_owned),
        };
        let frame = state.next_frame().ok_or_else(|| unknown(Vec::new()))?;
        state.set_variable(frame, name, value).map_err(|unset| match unset {
            SetVariableError::NoSuchVariable(known) => unknown(known),
            SetVariableError::WrongKind(error) => RuntimeError::Input(error.message.to_string()),
        })
    }
}
