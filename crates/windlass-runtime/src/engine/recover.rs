//! Recovery: runs that a process has left in the middle come back, a bounded number at a time, and none of them can hold
//! up the rest.
//!
//! It is a loop with a state of its own: what fails for a reason that may pass is tried again later, what is poisoned is
//! set aside. Each run that is taken over from the dead has a record that counts how often that happened without it having
//! got anywhere. A process that dies soon after every start has most likely one run to blame, and nobody knows which: those
//! that were there each time are suspects, and come back in ever smaller groups, until one was alone when the process died.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use windlass_store::{ClaimResult, RecordChange, RunFilter, RunRow, RunStatus};

use super::{EngineInner, RunEnd, RuntimeEngine};
use crate::clock::real_now;
use crate::{RuntimeError, codec};

/// Runs that are claimed together, and brought back together.
const RELOAD_BATCH_SIZE: usize = 64;

/// Rows read at once.
const ROW_BATCH_SIZE: u32 = 256;

/// How often runs are looked for whose process has died.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// After an error of the store.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A run that cannot be brought back now is tried again after this long, then after twice as long.
const INITIAL_POSTPONE_DELAY: Duration = Duration::from_secs(1);
const MAX_POSTPONE_DELAY: Duration = Duration::from_secs(300);

/// Records of one kind in the store: how often a run was taken over from the dead.
const CRASH_RECORD_KIND: &str = "recovery";

/// A run that has got so many ticks further since has got somewhere. A recovery alone adds one or two.
const PROGRESS_TICKS: u64 = 8;

/// So many in a row make a suspect; and so many make it clear.
const SUSPECT_AFTER: u32 = 3;
const QUARANTINE_AFTER: u32 = 6;

/// What a process survives for this long was not what killed the one before.
const STABLE_AFTER: Duration = Duration::from_secs(10);
const PROBATION: Duration = Duration::from_secs(2);

/// How far an engine is with the runs that others have left in the middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecoveryProgress {
    /// Those that were there when the engine began have not all been looked at.
    pub in_progress: bool,
    /// How many there were, and how many of them are left.
    pub found: u64,
    pub left: u64,
    /// Since the engine began.
    pub reloaded: u64,
    pub quarantined: u64,
    /// Times that one could not be brought back for now.
    pub postponed: u64,
    pub duration: Option<Duration>,
}

/// A run that could not be brought back.
pub(super) struct PostponedReload {
    times: u32,
    until: Instant,
}

/// As many as there are cores: a replay computes.
pub(super) fn max_load_concurrency() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// What the store keeps of recoveries of one run.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct CrashRecord {
    times: u32,
    /// Where it stood the last time.
    ticks: u64,
}

/// A run that nobody alive owns.
struct Orphan {
    run: Arc<str>,
    crash_record: CrashRecord,
}

impl RuntimeEngine {
    /// True until the runs that were left in the middle have been brought back, set aside or put off.
    pub fn is_recovering(&self) -> bool {
        self.inner.recovery().in_progress
    }

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
                warn!(why = %error, "trouble");
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

    /// One look at all runs that were being worked on: those have neither mail nor a timer in the store.
    async fn recover(self: &Arc<Self>) -> Result<(), RuntimeError> {
        let begun = Instant::now();
        // Whoever's time has come while nobody was there has waited longest.
        self.wake_due().await;
        let orphans = self.blocking(EngineInner::orphans).await?;
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
            // Each of them was told of. The rest is somebody else's by now.
            let postponed = now.postponed - before.postponed;
            let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            info!(runs = reloaded, set_aside = quarantined, postponed, took_ms, "recovered");
        }
        if first {
            self.recovery().duration = Some(begun.elapsed());
        }
        // Last: whoever sees that it is over has been told how.
        self.recovery().in_progress = false;
        self.remove_crash_records_later(orphans.into_iter().map(|orphan| orphan.run).collect());
        self.probe(suspects).await
    }

    /// Suspects come back in groups that get smaller with every time that it ended badly.
    async fn probe(self: &Arc<Self>, mut suspects: Vec<Orphan>) -> Result<(), RuntimeError> {
        if suspects.is_empty() {
            return Ok(());
        }
        warn!(runs = suspects.len(), "suspects");
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

    /// Those whose process is dead, those with mail first, then the oldest. Their strikes count this time.
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
                    Some(owner) if owner == self.owner.name => !self.is_lost(&row.run)?,
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

    /// Whether the run is this engine's, and nowhere in it: somebody has claimed it and did not get any further.
    fn is_lost(&self, run: &Arc<str>) -> Result<bool, RuntimeError> {
        let nowhere = || !self.is_resident(run) && !self.is_reloading(run);
        if !nowhere() {
            return Ok(false);
        }
        // It may have ended or been let go of since it was listed; and whoever has it by now has it in memory.
        let row = self.store.run(run)?;
        let ours = |row: RunRow| row.status == RunStatus::Running && row.owner.as_ref() == Some(&self.owner.name);
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
                // A record that cannot be read counts for nothing.
                if let Ok(read) = codec::decode::<CrashRecord>(&row.body, "a recovery") {
                    records.insert(Arc::from(row.key), read);
                }
            }
        }
    }

    /// The strikes are written first: whatever happens next, it is known that these runs were there.
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

    /// The process has died each time the run was brought back, and in the end nothing else was.
    fn quarantine_crashing_run(&self, run: &Arc<str>, crashes: u32) -> Result<(), RuntimeError> {
        let Some(row) = self.store.run(run)? else { return Ok(()) };
        if self.check_runnable(&row).is_err_and(|error| error.needs_newer()) {
            return Ok(());
        }
        let ClaimResult::Owned { owner_epoch } = self.store.claim(run, &self.owner.name)? else { return Ok(()) };
        let Some(row) = self.store.run(run)? else { return Ok(()) };
        let why = format!("the process has died {crashes} times in a row soon after the run was brought back");
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
                // If that cannot be, the records only make suspects sooner.
                let _ = inner.blocking(move |inner| inner.remove_crash_records(runs)).await;
            }
        });
    }

    /// Brings back runs that nobody alive owns, several at a time: their claims share a commit, and so do their first
    /// ticks. Gives back how many are there now.
    pub(super) async fn reload_all(self: &Arc<Self>, runs: Vec<Arc<str>>) -> u64 {
        let mut reloaded = 0;
        for group in runs.chunks(RELOAD_BATCH_SIZE) {
            reloaded += self.reload_group(group).await;
        }
        reloaded
    }

    async fn reload_group(self: &Arc<Self>, group: &[Arc<str>]) -> u64 {
        let candidates = group.iter().filter(|run| !self.is_resident(run) && !self.is_postponed(run));
        let guards = candidates.filter_map(|run| Some((run.clone(), self.try_acquire_reload_guard(run)?)));
        // Looked at once more: whoever had the turn before may have brought it back.
        let guards: Vec<_> = guards.filter(|(run, _)| !self.is_resident(run)).collect();
        let runs: Vec<Arc<str>> = guards.iter().map(|(run, _)| run.clone()).collect();
        let claims = match self.blocking(move |inner| inner.claim_runnable(&runs)).await {
            Ok(claims) => claims,
            Err(RuntimeError::Closing) => return 0,
            Err(error) => {
                warn!(why = %error, "trouble");
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

    /// Looks before it claims, which is a write: what this engine cannot run, what has a live owner and what is set aside
    /// is left alone.
    fn claim_runnable(&self, runs: &[Arc<str>]) -> Result<Vec<Result<ClaimResult, RuntimeError>>, RuntimeError> {
        let checks: Vec<Result<(), RuntimeError>> = runs.iter().map(|run| self.check_reloadable(run)).collect();
        let runnable = runs.iter().zip(&checks).filter(|(_, looked)| looked.is_ok()).map(|(run, _)| run.clone());
        let runnable: Vec<Arc<str>> = runnable.collect();
        let claims =
            if runnable.is_empty() { Vec::new() } else { self.store.claim_all(&runnable, &self.owner.name)? };
        let mut claims = claims.into_iter();
        let claim = |looked: Result<(), RuntimeError>| looked.and_then(|()| claims.next().ok_or(RuntimeError::Closing));
        Ok(checks.into_iter().map(claim).collect())
    }

    /// Whoever asks has the turn of the run, which is not in memory.
    fn check_reloadable(&self, run: &Arc<str>) -> Result<(), RuntimeError> {
        let row = self.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
        row.check_format()?;
        if row.status.is_final() {
            return Ok(());
        }
        if row.status == RunStatus::Quarantined {
            return Err(super::quarantine::quarantine_error(&row));
        }
        // One that is this engine's own and not in memory was let go of without a word, or never got there.
        let is_alive = |owner: &String| *owner != self.owner.name && self.store.owner_alive(owner).unwrap_or(true);
        if let Some(owner) = row.owner.clone().filter(is_alive) {
            return Err(RuntimeError::Owned { run: run.to_string(), owner });
        }
        match self.check_runnable(&row) {
            // A plan that cannot be loaded is found when the run is, and sets it aside.
            Err(error) if error.is_poison() => Ok(()),
            fits => fits,
        }
    }

    /// What becomes of one run of a group. True if it is in memory now.
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
                // A loop that was there has told of its end, and may have put it off already.
                let loop_started = guard.is_none();
                let already_postponed = loop_started && self.adopt && error.is_transient();
                if error.needs_newer() {
                    self.postpone_for_newer_version(run, &error);
                } else if error.is_poison() {
                    // Mail and timers do not wake it: nobody looks at it again for each of them.
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

    /// Brings back those whose time has come. This engine may own them still, so nobody else would.
    pub(super) async fn reload_postponed(self: &Arc<Self>) {
        let now = Instant::now();
        let due = |(run, postponed): (&Arc<str>, &PostponedReload)| (postponed.until <= now).then(|| run.clone());
        let runs: Vec<Arc<str>> = self.postponed().iter().filter_map(due).collect();
        if !runs.is_empty() {
            self.reload_all(runs).await;
        }
    }

    /// A newer program has written it. That is reported once; the run stays as it is.
    fn postpone_for_newer_version(&self, run: &Arc<str>, error: &RuntimeError) {
        let postponed = PostponedReload { times: 0, until: Instant::now() + MAX_POSTPONE_DELAY };
        if self.postponed().insert(run.clone(), postponed).is_none() {
            warn!(run = &**run, why = %error, "postponed");
        }
    }

    /// A person may bring it back at any time; whatever else would is put off, without a word.
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
        warn!(run = &**run, why = %error, "postponed");
    }

    /// On a thread that may wait for the disk.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&EngineInner) -> Result<T, RuntimeError> + Send + 'static,
    ) -> Result<T, RuntimeError> {
        let inner = self.clone();
        tokio::task::spawn_blocking(move || work(&inner)).await.unwrap_or(Err(RuntimeError::Closing))
    }
}
