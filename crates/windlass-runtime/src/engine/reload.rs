//! Reloading runs into memory: mutual exclusion, claims and preconditions.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use windlass_core::{Program, State, TickKind};
use windlass_store::{ClaimResult, RunRow, RunStatus, StoreError, StoreErrorKind, check_run_format};
use windlass_value::{BlobHash, Timestamp};

use super::{
    EngineInner, RunEnd, RunHandle, RunOptions, RunRequest, RuntimeEngine, TrackedRun, new_run_id, quarantine,
    residents,
};
use crate::clock::Clock;
use crate::inspect::final_report;
use crate::recovery::{self, RunImage};
use crate::{RuntimeError, codec};

/// The maximum difference between the clocks of processes that is no sign of a clock that was set back.
const MAX_CLOCK_DIFFERENCE_US: i64 = 1_000_000;

/// The exclusive right to reload a run.
pub(crate) struct ReloadGuard {
    inner: Arc<EngineInner>,
    run: Arc<str>,
}

impl Drop for ReloadGuard {
    fn drop(&mut self) {
        self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}

/// A run replayed into memory, with its start options.
struct ReplayedRun {
    program: Arc<Program>,
    image: RunImage,
    options: RunOptions,
    /// Results of another run that this run reuses.
    reused: Option<Arc<crate::reused_results::ReusedResults>>,
    /// The time that the previous process was up after the run's last tick.
    lived: windlass_value::Duration,
}

impl RuntimeEngine {
    /// Resumes a run and its open descendants after a crash, an eviction or a pause. For an ended run, the handle has
    /// its report.
    pub async fn resume(&self, run: &str) -> Result<RunHandle, RuntimeError> {
        self.attach_run_tree(run, true, true).await
    }

    pub(super) async fn attach_run_tree(
        &self,
        run: &str,
        unpause: bool,
        watch: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let row = self.inner.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))?;
        let handle = self.attach(run, unpause, watch).await?;
        self.inner.reload_descendants(&row).await?;
        Ok(handle)
    }

    pub(super) async fn attach(&self, run: &str, unpause: bool, watch: bool) -> Result<RunHandle, RuntimeError> {
        let guard = self.inner.acquire_reload_guard(&run.into()).await;
        self.attach_with_guard(guard, unpause, watch).await
    }

    pub(super) async fn attach_with_guard(
        &self,
        guard: ReloadGuard,
        unpause: bool,
        watch: bool,
    ) -> Result<RunHandle, RuntimeError> {
        let run = guard.run.clone();
        let row = self.inner.store.run(&run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
        let handle = self.track(&run, watch);
        if let Some(report) = final_report(&row)? {
            self.inner.publish_end(&run, RunEnd::Ended(Arc::new(report)));
            return Ok(handle);
        }
        if row.status == RunStatus::Quarantined && !unpause {
            // Only an explicit resume by an operator reloads it.
            self.inner.untrack(&run);
            return Err(quarantine::quarantine_error(&row));
        }
        if self.inner.is_resident(&run) {
            drop(guard);
            if unpause {
                self.request(&run, &format!("resume:{}", new_run_id()), RunRequest::Resume)?;
            }
            return Ok(handle);
        }
        // In its own task: the caller may disconnect, and a run that is claimed but not in memory would have no owner.
        let inner = self.inner.clone();
        let reloaded = self.inner.runtime.spawn(async move {
            let mut guard = Some(guard);
            let reloaded = inner.claim_and_reload(&run, unpause, &mut guard).await;
            match &reloaded {
                Ok(()) => drop(inner.postponed().remove(&run)),
                Err(_) if guard.is_some() => inner.untrack(&run),
                Err(_) => {}
            }
            reloaded
        });
        reloaded.await.unwrap_or(Err(RuntimeError::Closing)).map(|()| handle)
    }
}

impl EngineInner {
    /// Acquires the reload guard of a run; `None` while another caller holds it.
    pub(crate) fn try_acquire_reload_guard(self: &Arc<Self>, run: &Arc<str>) -> Option<ReloadGuard> {
        let mut reloading = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        reloading.insert(run.clone()).then(|| ReloadGuard { inner: self.clone(), run: run.clone() })
    }

    pub(super) async fn acquire_reload_guard(self: &Arc<Self>, run: &Arc<str>) -> ReloadGuard {
        loop {
            if let Some(guard) = self.try_acquire_reload_guard(run) {
                return guard;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) fn is_reloading(&self, run: &str) -> bool {
        self.reloading.lock().unwrap_or_else(PoisonError::into_inner).contains(run)
    }

    /// Loads a run without a live owner and resumes it. `guard` is moved into the run when its loop is launched.
    async fn claim_and_reload(
        self: &Arc<Self>,
        run: &Arc<str>,
        unpause: bool,
        guard: &mut Option<ReloadGuard>,
    ) -> Result<(), RuntimeError> {
        if self.is_closing() {
            return Err(RuntimeError::Closing);
        }
        let id = run.clone();
        let claim = self.blocking(move |inner| {
            // Checked before the run is touched: a program that has the tools can resume it.
            if let Some(row) = inner.store.run(&id)?.filter(|row| !row.status.is_final()) {
                inner.check_runnable(&row)?;
            }
            Ok(inner.store.claim(&id, inner.owner.name())?)
        });
        let claim = claim.await?;
        self.resume_claimed(run, claim, unpause, guard).await
    }

    /// Resumes a claimed run.
    pub(super) async fn resume_claimed(
        self: &Arc<Self>,
        run: &Arc<str>,
        claim: ClaimResult,
        unpause: bool,
        guard: &mut Option<ReloadGuard>,
    ) -> Result<(), RuntimeError> {
        let owner_epoch = match claim {
            ClaimResult::Owned { owner_epoch } => owner_epoch,
            ClaimResult::HeldBy(owner) => return Err(RuntimeError::Owned { run: run.to_string(), owner }),
            ClaimResult::NoSuchRun => return Err(RuntimeError::NoSuchRun(run.to_string())),
            ClaimResult::Ended => return self.publish_stored_end(run),
            ClaimResult::NeedsNewer { format } => return Ok(check_run_format(run, format)?),
            ClaimResult::Damaged { reason } => return Err(StoreError::new(StoreErrorKind::Damaged, reason).into()),
        };
        let ReplayedRun { program, image, options: how, reused, lived } = self.load(run, owner_epoch).await?;
        let mut first = vec![match self.was_idle_since_eviction(run, owner_epoch, &image.state) {
            true => TickKind::TimerDue,
            false => TickKind::Restart { lived },
        }];
        // Its own parent may have yet to learn of the cancellation.
        if how.parent.is_some() && self.store.is_cancelled_above(run)? {
            let reason = "cancelled with a run above it".into();
            first.push(TickKind::CancelRun { reason, request: None, by_caller: true });
        }
        if unpause && image.state.paused {
            first.push(TickKind::Resume { request: None });
        }
        let clock = match how.virtual_time {
            // Virtual time continues from where it was.
            true => {
                let mut clock = Clock::virtual_time();
                clock.skip_to(image.state.now);
                clock
            }
            false => Clock::Real,
        };
        let clock_offset = self.offset_of_timers(run, owner_epoch, how.virtual_time, image.state.now);
        let launch = residents::Launch {
            run: run.clone(),
            program,
            image,
            first,
            owner_epoch,
            create: None,
            clock,
            clock_offset,
            parent: how.parent,
            run_tree: how.run_tree,
            reused,
            reload_guard: guard.take(),
        };
        let launched = self.launch(launch).await;
        if matches!(launched, Err(RuntimeError::Closing)) {
            self.store.release(run, owner_epoch)?;
        }
        launched
    }

    /// Reads a run and replays the ticks after its newest snapshot, on a blocking thread and with limited concurrency.
    /// If that fails, the run is released or quarantined.
    async fn load(self: &Arc<Self>, run: &Arc<str>, owner_epoch: u64) -> Result<ReplayedRun, RuntimeError> {
        let (inner, id) = (self.clone(), run.clone());
        let _permit = self.loads.acquire().await.map_err(|_| RuntimeError::Closing)?;
        let loading = tokio::task::spawn_blocking(move || inner.load_blocking(&id));
        let loaded = match loading.await {
            Ok(loaded) => loaded,
            Err(stopped) => match stopped.try_into_panic() {
                Ok(panic) => Err(quarantine::panic_error(run, &*panic)),
                // The process is shutting down.
                Err(_) => Err(RuntimeError::Closing),
            },
        };
        if let Err(error) = &loaded
            && let Some(row) = self.store.run(run)?
        {
            self.release_or_quarantine(&row, owner_epoch, error)?;
        }
        loaded
    }

    fn load_blocking(&self, run: &Arc<str>) -> Result<ReplayedRun, RuntimeError> {
        let row = self.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
        let how = RunOptions::from_row(&row)?;
        if how.in_memory {
            return Err(RuntimeError::InMemoryOnly(run.to_string()));
        }
        let program = self.program(&row.plan)?;
        let image = recovery::load(&*self.store, &row, &program)?;
        let reused = self.load_reused_results(run, how.from.as_ref())?;
        let lived = match program.plan.timeout.is_some() && !how.virtual_time {
            true => self.time_lived(&row, &image.state)?,
            // Virtual time skips waits, so a heartbeat says nothing about it.
            false => windlass_value::Duration::ZERO,
        };
        Ok(ReplayedRun { program, image, options: how, reused, lived })
    }

    /// Returns the time for which the process that wrote the run's last tick was up after that tick. A process that was
    /// killed was up until its last heartbeat.
    fn time_lived(&self, row: &RunRow, state: &State) -> Result<windlass_value::Duration, RuntimeError> {
        // A fork or a restored snapshot has not been executed under this id.
        let Some(owner) = row.previous_owner.as_ref().filter(|_| state.ticks > 0) else {
            return Ok(windlass_value::Duration::ZERO);
        };
        let until = match self.store.owner_alive(owner)? {
            true => self.clock.now(),
            false => self.store.last_heartbeat(owner)?.unwrap_or(state.now).min(self.clock.now()),
        };
        // A quarantined run waits for an operator, whatever its process does.
        let until = if row.status == RunStatus::Quarantined { until.min(row.changed_at) } else { until };
        Ok(until.since(state.now))
    }

    /// Returns the offset of the clock under which the run's timers were set, as far as it is known.
    ///
    /// This engine knows it for a run that it has evicted. For any other run the wall clock is the only witness: if it
    /// shows an earlier time than the run has seen, it was set back in between. The timers then continue from here.
    fn offset_of_timers(&self, run: &str, owner_epoch: u64, virtual_time: bool, seen: Timestamp) -> i64 {
        let is_ours = |tracked: &&TrackedRun| tracked.evicted_epoch.is_some_and(|before| before + 1 == owner_epoch);
        if let Some(evicted) = self.runs().get(run).filter(is_ours).and_then(|tracked| tracked.evicted_clock) {
            return evicted.offset;
        }
        let (offset, now) = (self.clock.offset(), self.clock.now());
        let is_behind = !virtual_time && now.0.saturating_add(MAX_CLOCK_DIFFERENCE_US) < seen.0;
        if is_behind { offset.saturating_add(seen.0 - now.0) } else { offset }
    }

    /// Reports whether only this engine has owned the run since it was evicted, and no job was running then. The time
    /// since the eviction then counts towards the run's timeout; a `Restart` tick would exclude it.
    fn was_idle_since_eviction(&self, run: &str, owner_epoch: u64, state: &State) -> bool {
        let evicted_epoch = self.runs().get(run).and_then(|tracked| tracked.evicted_epoch);
        state.is_quiet() && evicted_epoch.is_some_and(|before| before + 1 == owner_epoch)
    }

    /// Checks whether this engine has everything the run needs; otherwise the run would fail through no fault in its
    /// definition.
    pub(super) fn check_runnable(&self, row: &RunRow) -> Result<(), RuntimeError> {
        let missing = |tools: String| RuntimeError::MissingTools { run: row.run.to_string(), tools };
        match self.program(&row.plan) {
            Ok(program) => self.check_tools(&row.run, &program),
            Err(error @ RuntimeError::Plan(_)) => match self.unknown_language(&row.plan)? {
                Some(language) => Err(missing(format!("the language `{language}`"))),
                None => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    fn unknown_language(&self, plan: &BlobHash) -> Result<Option<Arc<str>>, RuntimeError> {
        let Some(row) = self.store.plan(plan)? else { return Ok(None) };
        let plan = codec::decode_plan(&row.body)?;
        let known = |name: &str| self.languages.iter().any(|language| language.name() == name);
        Ok(plan.expressions.into_iter().map(|source| source.language).find(|name| !known(name)))
    }

    pub(super) fn check_tools(&self, run: &Arc<str>, program: &Program) -> Result<(), RuntimeError> {
        let mut tools = program.plan.missing_tools(|tool| self.pool.tools().get(tool).is_some());
        tools.sort_unstable();
        tools.dedup();
        match tools.is_empty() {
            true => Ok(()),
            false => Err(RuntimeError::MissingTools { run: run.to_string(), tools: tools.join(", ") }),
        }
    }

    fn publish_stored_end(&self, run: &Arc<str>) -> Result<(), RuntimeError> {
        let row = self.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
        if let Some(report) = final_report(&row)? {
            self.publish_end(run, RunEnd::Ended(Arc::new(report)));
        }
        Ok(())
    }
}
