//! Recovery: runs that a process has left before their end are reloaded, a bounded number at a time, and no run can
//! block the others.
//!
//! Recovery is a loop with its own state. A failure that may be temporary is retried later; a poisoned run is
//! quarantined. Each run that is taken over from a dead process has a record that counts how often that happened
//! without progress. A process that dies soon after every start most likely has one run to blame, but which one is
//! unknown. The runs that were present each time are suspects and are reloaded in ever smaller groups, until one was
//! alone when the process died.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use windlass_store::{ClaimResult, RecordChange, RunFilter, RunRow, RunStatus, StoreErrorKind};

use super::{EngineInner, RunEnd, RuntimeEngine};
use crate::clock::real_now;
use crate::{RuntimeError, codec};

/// The number of runs that are claimed and reloaded together.
const RELOAD_BATCH_SIZE: usize = 64;

/// The maximum number of runs whose claims share a commit, and usually their first ticks as well.
const CLAIM_BATCH_SIZE: usize = 256;

/// The number of rows read per batch.
const ROW_BATCH_SIZE: u32 = 256;

/// The interval between two scans for runs whose process has died.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// The first delay after an error of the store.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A run that cannot be reloaded now is retried after this delay, which doubles each time up to the maximum.
const INITIAL_POSTPONE_DELAY: Duration = Duration::from_secs(1);
const MAX_POSTPONE_DELAY: Duration = Duration::from_secs(300);

/// The kind of the records that count how often a run was taken over from a dead process.
const CRASH_RECORD_KIND: &str = "recovery";

/// The maximum difference between the clocks of processes that is no sign of a clock that was set back.
const MAX_CLOCK_DIFFERENCE: windlass_value::Duration = windlass_value::Duration::from_secs(1);

/// A run that has advanced by this many ticks since its crash record began has made progress. A recovery alone adds
/// one or two.
const PROGRESS_TICKS: u64 = 8;

/// The number of consecutive crashes that make a run a suspect, and the number after which it is quarantined.
const SUSPECT_AFTER: u32 = 3;
const QUARANTINE_AFTER: u32 = 6;

/// A process that survives a run for this long was not killed by it: `STABLE_AFTER` for ordinary runs, `PROBATION`
/// for a group of suspects.
const STABLE_AFTER: Duration = Duration::from_secs(10);
const PROBATION: Duration = Duration::from_secs(2);

/// The progress of an engine with the runs that other processes have left before their end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryProgress {
    /// The runs that were present when the engine started have not all been processed.
    pub in_progress: bool,
    /// The number of runs found, and the number of them still to be processed.
    pub found: u64,
    /// The number of them still to be processed.
    pub left: u64,
    /// Counted since the engine started.
    pub reloaded: u64,
    /// The number of runs that were quarantined, counted since the engine started.
    pub quarantined: u64,
    /// The number of times that a reload was postponed.
    pub postponed: u64,
    /// The time that the first recovery took; `None` until it has ended.
    pub duration: Option<Duration>,
}

/// A run whose reload was postponed.
pub(super) struct PostponedReload {
    times: u32,
    until: Instant,
}

/// Returns the number of cores, at least 2: a replay is CPU-bound.
pub(super) fn max_load_concurrency() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// The stored crash count of one run.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CrashRecord {
    times: u32,
    /// The run's tick count at the first of these takeovers.
    ticks: u64,
}

/// A run without a live owner.
struct Orphan {
    run: Arc<str>,
    crash_record: CrashRecord,
}

impl RuntimeEngine {
    /// Returns true until the runs that were left before their end have been reloaded, quarantined or postponed.
    pub fn is_recovering(&self) -> bool {
        self.inner.recovery().in_progress
    }

    /// Returns the current progress. It stays at its initial value in an engine that does not adopt runs.
    pub fn recovery(&self) -> RecoveryProgress {
        *self.inner.recovery()
    }
}

pub(super) async fn keep_recovering(engine: Weak<EngineInner>) {
    let mut pause = INITIAL_RETRY_DELAY;
    loop {
        let Some(inner) = engine.upgrade().filter(|inner| !inner.is_closing()) else { return };
        pause = match inner.recover().await {
            Ok(()) => SCAN_INTERVAL,
            Err(RuntimeError::Closing) => return,
            Err(error) => {
                warn!(%error, "recovery failed");
                (pause * 2).clamp(INITIAL_RETRY_DELAY, SCAN_INTERVAL)
            }
        };
        drop(inner);
        tokio::time::sleep(pause).await;
    }
}

impl EngineInner {
    pub(super) fn recovery(&self) -> MutexGuard<'_, RecoveryProgress> {
        self.recovery.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans all runs that were running: those have neither messages nor a timer in the store.
    async fn recover(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let begun = Instant::now();
        // Runs that became due while no process was running have waited longest. The store watcher wakes the rest.
        self.wake_due().await;
        let orphans = self.blocking(EngineInner::orphans).await?;
        // After the scan, which has read the rows of all running runs.
        self.look_for_damage().await;
        let (suspects, orphans): (Vec<Orphan>, Vec<Orphan>) =
            orphans.into_iter().partition(|orphan| orphan.crash_record.times > SUSPECT_AFTER);
        let first = self.recovery().in_progress;
        if first {
            let mut recovery = self.recovery();
            (recovery.found, recovery.left) = (orphans.len() as u64, orphans.len() as u64);
        }
        let before = *self.recovery();
        if !orphans.is_empty() {
            info!(runs = orphans.len(), "recovering");
        }
        for group in orphans.chunks(RELOAD_BATCH_SIZE) {
            self.recover_group(group).await?;
            let mut recovery = self.recovery();
            recovery.left = recovery.left.saturating_sub(group.len() as u64);
        }
        if !orphans.is_empty() {
            let now = *self.recovery();
            let (reloaded, quarantined) = (now.reloaded - before.reloaded, now.quarantined - before.quarantined);
            // Each of them was logged. The rest belongs to another process by now.
            let postponed = now.postponed - before.postponed;
            let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            info!(runs = reloaded, quarantined, postponed, duration_ms, "recovered");
        }
        if first {
            self.reload_runs_of_the_future().await?;
            self.recovery().duration = Some(begun.elapsed());
        }
        // Last: an observer that sees the end of the recovery also sees its results.
        self.recovery().in_progress = false;
        self.remove_crash_records_later(orphans.into_iter().map(|orphan| orphan.run).collect());
        self.probe(suspects).await
    }

    /// Reloads waiting runs that were evicted at a time that is still to come: the clock was set back since. They would
    /// wait for that time as well; the reload moves their timers.
    async fn reload_runs_of_the_future(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let filter = RunFilter { status: Some(RunStatus::Waiting), ..RunFilter::default() };
        let now = self.clock.now() + MAX_CLOCK_DIFFERENCE;
        let mut before = None;
        loop {
            let page_filter = filter.clone();
            let rows = self.blocking(move |inner| Ok(inner.store.runs(&page_filter, before, ROW_BATCH_SIZE)?)).await?;
            let Some(last) = rows.last().map(|row| row.number) else { return Ok(()) };
            before = Some(last);
            let is_ahead = |row: &RunRow| row.changed_at > now && row.timer.is_some() && row.owner.is_none();
            let runs: Vec<Arc<str>> = rows.into_iter().filter(is_ahead).map(|row| row.run).collect();
            self.reload_all(runs).await;
        }
    }

    /// Reloads suspects in groups that get smaller with every crash.
    async fn probe(self: &Arc<Self>, mut suspects: Vec<Orphan>) -> Result<(), RuntimeError> {
        if suspects.is_empty() {
            return Ok(());
        }
        warn!(runs = suspects.len(), "suspect runs");
        suspects.sort_by_key(|suspect| suspect.crash_record.times);
        let mut suspects = suspects.as_slice();
        while let Some(first) = suspects.first() {
            if self.is_closing() {
                return Err(RuntimeError::Closing);
            }
            let times = first.crash_record.times;
            let same = suspects.iter().take_while(|suspect| suspect.crash_record.times == times).count();
            let size = match times.saturating_sub(SUSPECT_AFTER) {
                1 => RELOAD_BATCH_SIZE,
                2 => 8,
                _ => 1,
            };
            let (group, rest) = suspects.split_at(same.min(size));
            suspects = rest;
            self.recover_group(group).await?;
            if times <= QUARANTINE_AFTER {
                tokio::time::sleep(PROBATION).await;
                let runs = group.iter().map(|orphan| orphan.run.clone()).collect();
                self.blocking(move |inner| inner.remove_crash_records(runs)).await?;
            }
        }
        Ok(())
    }

    /// Returns the runs whose process is dead: those with messages first, then the oldest. Their crash records count
    /// this takeover.
    fn orphans(&self) -> Result<Vec<Orphan>, RuntimeError> {
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut alive: BTreeMap<String, bool> = BTreeMap::new();
        let mut found = Vec::new();
        let mut before = None;
        loop {
            let rows = self.store.runs(&filter, before, ROW_BATCH_SIZE)?;
            let Some(last) = rows.last().map(|row| row.number) else { break };
            before = Some(last);
            for row in rows {
                if let Err(error) = row.check_format() {
                    self.postpone_for_newer_version(&row.run, &error.into());
                    continue;
                }
                let owned = match row.owner {
                    None => false,
                    Some(owner) if owner == *self.owner.name() => !self.is_lost(&row.run)?,
                    Some(owner) => match alive.get(&owner) {
                        Some(alive) => *alive,
                        None => *alive.entry(owner.clone()).or_insert(self.store.owner_alive(&owner)?),
                    },
                };
                if !owned && !self.is_resident(&row.run) && !self.is_postponed(&row.run) {
                    found.push((row.run, row.ticks));
                }
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let previous_records = self.crash_records()?;
        let mailed: BTreeSet<String> = self.store.with_inbox(ROW_BATCH_SIZE)?.into_iter().collect();
        found.reverse();
        found.sort_by_key(|(run, _)| !mailed.contains(&**run));
        let orphan = |(run, ticks): (Arc<str>, u64)| {
            let stuck = previous_records.get(&run).filter(|record| ticks < record.ticks + PROGRESS_TICKS);
            let crash_record = match stuck {
                Some(record) => CrashRecord { times: record.times + 1, ..*record },
                None => CrashRecord { times: 1, ticks },
            };
            Orphan { run, crash_record }
        };
        Ok(found.into_iter().map(orphan).collect())
    }

    /// Reports whether this engine owns the run but does not have it: it was claimed and not loaded.
    fn is_lost(&self, run: &Arc<str>) -> Result<bool, RuntimeError> {
        let nowhere = || !self.is_resident(run) && !self.is_reloading(run);
        if !nowhere() {
            return Ok(false);
        }
        // It may have ended or been released since it was listed, and if it was reloaded by now it is in memory.
        let row = match self.store.run(run) {
            // Its damage keeps it where it is, and no other run.
            Err(error) if error.kind == StoreErrorKind::Damaged => return Ok(false),
            row => row?,
        };
        let ours = |row: RunRow| row.status == RunStatus::Running && row.owner.as_ref() == Some(self.owner.name());
        Ok(row.is_some_and(ours) && nowhere())
    }

    fn crash_records(&self) -> Result<BTreeMap<Arc<str>, CrashRecord>, RuntimeError> {
        let mut records = BTreeMap::new();
        let mut after = String::new();
        loop {
            let rows = self.store.records(CRASH_RECORD_KIND, &after, ROW_BATCH_SIZE)?;
            let Some(last) = rows.last() else { return Ok(records) };
            after.clone_from(&last.key);
            for row in rows {
                // A record that cannot be decoded is ignored.
                if let Ok(read) = codec::decode::<CrashRecord>(&row.body, "a recovery") {
                    records.insert(Arc::from(row.key), read);
                }
            }
        }
    }

    /// Writes the crash records first: whatever happens next, the store knows that these runs were present.
    async fn recover_group(self: &Arc<Self>, group: &[Orphan]) -> Result<(), RuntimeError> {
        if self.is_closing() {
            return Err(RuntimeError::Closing);
        }
        let (hopeless, group): (Vec<&Orphan>, Vec<&Orphan>) =
            group.iter().partition(|orphan| orphan.crash_record.times > QUARANTINE_AFTER);
        for orphan in hopeless {
            let (run, times) = (orphan.run.clone(), orphan.crash_record.times - 1);
            self.blocking(move |inner| inner.quarantine_crashing_run(&run, times)).await?;
        }
        let at = real_now();
        let put = |orphan: &&Orphan| {
            RecordChange::put(CRASH_RECORD_KIND, &orphan.run, codec::encode(&orphan.crash_record), at)
        };
        let changes: Vec<RecordChange> = group.iter().map(put).collect();
        self.blocking(move |inner| Ok(inner.store.change_records(changes)?)).await?;
        let reloaded = self.reload_all(group.iter().map(|orphan| orphan.run.clone()).collect()).await;
        self.recovery().reloaded += reloaded;
        Ok(())
    }

    /// Quarantines a run: the process died each time it was reloaded, in the end with no other suspect in memory.
    fn quarantine_crashing_run(&self, run: &Arc<str>, crashes: u32) -> Result<(), RuntimeError> {
        let Some(row) = self.store.run(run)? else { return Ok(()) };
        if self.check_runnable(&row).is_err_and(|error| error.needs_newer()) {
            return Ok(());
        }
        let ClaimResult::Owned { owner_epoch } = self.store.claim(run, self.owner.name())? else { return Ok(()) };
        let Some(row) = self.store.run(run)? else { return Ok(()) };
        let why = format!("the process crashed {crashes} times in a row soon after this run was reloaded");
        self.release_or_quarantine(&row, owner_epoch, &RuntimeError::Quarantined { run: run.to_string(), why })?;
        self.remove_crash_records(vec![run.clone()])
    }

    fn remove_crash_records(&self, runs: Vec<Arc<str>>) -> Result<(), RuntimeError> {
        let at = real_now();
        for group in runs.chunks(RELOAD_BATCH_SIZE * 8) {
            let changes = group.iter().map(|run| RecordChange::remove(CRASH_RECORD_KIND, run, at)).collect();
            self.store.change_records(changes)?;
        }
        Ok(())
    }

    fn remove_crash_records_later(self: &Arc<Self>, runs: Vec<Arc<str>>) {
        if runs.is_empty() {
            return;
        }
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(STABLE_AFTER).await;
            if let Some(inner) = engine.upgrade().filter(|inner| !inner.is_closing()) {
                // If this fails, the records only make runs suspects sooner.
                let _ = inner.blocking(move |inner| inner.remove_crash_records(runs)).await;
            }
        });
    }

    /// Reloads runs without a live owner, several at a time: their claims share a commit, and so do their first ticks.
    /// Returns how many are in memory now.
    pub(super) async fn reload_all(self: &Arc<Self>, runs: Vec<Arc<str>>) -> u64 {
        let mut reloaded = 0;
        for group in runs.chunks(CLAIM_BATCH_SIZE) {
            reloaded += self.reload_group(group).await;
        }
        reloaded
    }

    async fn reload_group(self: &Arc<Self>, group: &[Arc<str>]) -> u64 {
        let candidates = group.iter().filter(|run| !self.is_resident(run) && !self.is_postponed(run));
        let guards = candidates.filter_map(|run| Some((run.clone(), self.try_acquire_reload_guard(run)?)));
        // Checked once more: the previous holder of the guard may have reloaded it.
        let guards: Vec<_> = guards.filter(|(run, _)| !self.is_resident(run)).collect();
        let runs: Vec<Arc<str>> = guards.iter().map(|(run, _)| run.clone()).collect();
        let claims = match self.blocking(move |inner| inner.claim_runnable(&runs)).await {
            Ok(claims) => claims,
            Err(RuntimeError::Closing) => return 0,
            Err(error) => {
                warn!(%error, "reload failed");
                return 0;
            }
        };
        let mut tasks = tokio::task::JoinSet::new();
        for ((run, guard), claim) in guards.into_iter().zip(claims) {
            let inner = self.clone();
            tasks.spawn(async move { inner.reload_claimed(&run, claim, guard).await });
        }
        tasks.join_all().await.into_iter().map(u64::from).sum()
    }

    /// Checks the runs before it claims them, since a claim is a write. Runs that this engine cannot execute, that have
    /// a live owner or that are quarantined are left unchanged.
    fn claim_runnable(&self, runs: &[Arc<str>]) -> Result<Vec<Result<ClaimResult, RuntimeError>>, RuntimeError> {
        let checks: Vec<Result<(), RuntimeError>> = runs.iter().map(|run| self.check_reloadable(run)).collect();
        let runnable = runs.iter().zip(&checks).filter(|(_, looked)| looked.is_ok()).map(|(run, _)| run.clone());
        let runnable: Vec<Arc<str>> = runnable.collect();
        let claims =
            if runnable.is_empty() { Vec::new() } else { self.store.claim_all(&runnable, self.owner.name())? };
        let mut claims = claims.into_iter();
        let claim = |looked: Result<(), RuntimeError>| looked.and_then(|()| claims.next().ok_or(RuntimeError::Closing));
        Ok(checks.into_iter().map(claim).collect())
    }

    /// Checks whether a run may be reloaded. The caller holds the reload guard of the run, which is not in memory.
    fn check_reloadable(&self, run: &Arc<str>) -> Result<(), RuntimeError> {
        let row = self.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
        row.check_format()?;
        if row.status.is_final() {
            return Ok(());
        }
        if row.status == RunStatus::Quarantined {
            return Err(super::quarantine::quarantine_error(&row));
        }
        // A run that this engine owns and does not have in memory was released without notice, or never loaded.
        let is_alive = |owner: &String| owner != self.owner.name() && self.store.owner_alive(owner).unwrap_or(true);
        if let Some(owner) = row.owner.clone().filter(is_alive) {
            return Err(RuntimeError::Owned { run: run.to_string(), owner });
        }
        match self.check_runnable(&row) {
            // A plan that cannot be loaded is found when the run is loaded, which quarantines it.
            Err(error) if error.is_poison() => Ok(()),
            fits => fits,
        }
    }

    /// Reloads one run of a group. Returns true if it is in memory now.
    async fn reload_claimed(
        self: &Arc<Self>,
        run: &Arc<str>,
        claim: Result<ClaimResult, RuntimeError>,
        guard: super::ReloadGuard,
    ) -> bool {
        let mut guard = Some(guard);
        let was_tracked = self.runs().contains_key(run);
        let reloaded = match claim {
            Ok(claim) => {
                self.track(run, false);
                self.resume_claimed(run, claim, false, &mut guard).await
            }
            Err(error) => Err(error),
        };
        match reloaded {
            Ok(()) => {
                self.postponed().remove(run);
                true
            }
            Err(RuntimeError::Owned { .. }) if was_tracked => false,
            Err(RuntimeError::Owned { .. } | RuntimeError::NoSuchRun(_)) => {
                self.postponed().remove(run);
                self.untrack(run);
                false
            }
            Err(error) => {
                // A loop that has started has published its end, and may have postponed the run already.
                let loop_started = guard.is_none();
                let already_postponed = loop_started && self.adopt && error.is_transient();
                if error.needs_newer() {
                    self.postpone_for_newer_version(run, &error);
                } else if error.is_poison() {
                    // Messages and timers do not wake it, so that the engine does not look at it again for each of
                    // them.
                    self.postpone_silently(run);
                } else if !already_postponed && !matches!(error, RuntimeError::Closing) {
                    self.postpone(run, &error);
                }
                if !loop_started {
                    self.publish_end(run, RunEnd::Failed(error));
                }
                false
            }
        }
    }

    pub(super) fn postponed(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, PostponedReload>> {
        self.postponed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_postponed(&self, run: &str) -> bool {
        self.postponed().get(run).is_some_and(|postponed| postponed.until > Instant::now())
    }

    /// Reloads the postponed runs that are due. This engine may still own them, so no other engine would.
    pub(super) async fn reload_postponed(self: &Arc<Self>) {
        let now = Instant::now();
        let due = |(run, postponed): (&Arc<str>, &PostponedReload)| (postponed.until <= now).then(|| run.clone());
        let runs: Vec<Arc<str>> = self.postponed().iter().filter_map(due).collect();
        if !runs.is_empty() {
            self.reload_all(runs).await;
        }
    }

    /// Postpones a run that a newer program has written. That is logged once; the run is left unchanged.
    fn postpone_for_newer_version(&self, run: &Arc<str>, error: &RuntimeError) {
        let postponed = PostponedReload { times: 0, until: Instant::now() + MAX_POSTPONE_DELAY };
        if self.postponed().insert(run.clone(), postponed).is_none() {
            warn!(run = &**run, %error, "postponed");
        }
    }

    /// Postpones a run without logging. An operator may resume it at any time.
    fn postpone_silently(&self, run: &Arc<str>) {
        let until = Instant::now() + MAX_POSTPONE_DELAY;
        self.postponed().insert(run.clone(), PostponedReload { times: 0, until });
    }

    pub(super) fn postpone(&self, run: &Arc<str>, error: &RuntimeError) {
        let mut postponed = self.postponed();
        let times = postponed.get(run).map_or(0, |before| before.times);
        let wait = (INITIAL_POSTPONE_DELAY * 2_u32.saturating_pow(times.min(8))).min(MAX_POSTPONE_DELAY);
        postponed.insert(run.clone(), PostponedReload { times: times + 1, until: Instant::now() + wait });
        drop(postponed);
        self.recovery().postponed += 1;
        warn!(run = &**run, %error, "postponed");
    }

    /// Runs work on a thread that may block on the disk.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&EngineInner) -> Result<T, RuntimeError> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let inner = self.clone();
        tokio::task::spawn_blocking(move || work(&inner)).await.unwrap_or(Err(RuntimeError::Closing))
    }
}
