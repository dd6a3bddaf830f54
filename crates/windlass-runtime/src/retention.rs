//! Automatic retention: which ended runs are removed, in steps that other writers can proceed between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_store::{EndedTree, RecordChange, RemovableTree, RunRow, RunStatus, Store};
use windlass_value::{BlobHash, Duration, Timestamp};

use crate::clean::CleanupReport;
use crate::clock::real_now;
use crate::engine::RunOptions;
use crate::{RuntimeError, codec};

/// The records of the starts whose runs were removed.
const KIND: &str = "removed-start";

/// The number of ended runs that one step examines.
const RUNS_PER_STEP: u32 = 256;

/// Which ended runs are removed. Each run, with its run tree, belongs to the first rule that matches it, else to the
/// bounds of all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionPolicy {
    /// The rules, most important first.
    pub rules: Vec<RetentionRule>,
    /// The bounds of runs that no rule matches.
    pub others: RetentionBounds,
    /// How long after its start the id of a run stays known, although the run was removed: a repeated start is
    /// recognised.
    pub keep_ids: Duration,
}

/// Bounds of the runs of one definition, of one status, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetentionRule {
    /// The name of the definition; every definition by default.
    pub definition: Option<String>,
    /// The status with which the runs have ended; every status by default.
    pub status: Option<RunStatus>,
    /// The bounds of these runs.
    pub bounds: RetentionBounds,
}

/// Bounds of ended runs, all of one rule together. Without any, they are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RetentionBounds {
    /// The time for which a run is kept after its end.
    pub max_age: Option<Duration>,
    /// The number of runs, the newest of all; child runs are not counted.
    pub max_runs: Option<u64>,
    /// The bytes of the newest runs with their child runs and values.
    pub max_bytes: Option<u64>,
}

impl RetentionBounds {
    /// Returns whether all runs are kept.
    pub fn keeps_all(&self) -> bool {
        *self == RetentionBounds::default()
    }
}

impl RetentionPolicy {
    /// Returns whether nothing is ever removed.
    pub fn keeps_all(&self) -> bool {
        self.others.keeps_all() && self.rules.iter().all(|rule| rule.bounds.keeps_all())
    }

    /// Returns the index of the rule that a run belongs to; that of the others is the last.
    fn rule_of(&self, tree: &EndedTree) -> usize {
        let matches = |rule: &RetentionRule| {
            rule.definition.as_ref().is_none_or(|name| *name == tree.definition)
                && rule.status.is_none_or(|status| status == tree.status)
        };
        self.rules.iter().position(matches).unwrap_or(self.rules.len())
    }

    fn bounds(&self, rule: usize) -> RetentionBounds {
        self.rules.get(rule).map_or(self.others, |rule| rule.bounds)
    }
}

/// One pass over all ended runs, newest first. Each step is short.
pub struct RetentionPass {
    policy: RetentionPolicy,
    now: Timestamp,
    /// The number of the last run that was examined.
    before: Option<i64>,
    tallies: Vec<RuleTally>,
    /// Runs to remove: each group with the time before which its runs must have ended.
    found: VecDeque<(Timestamp, Vec<Arc<str>>)>,
    stage: PassStage,
    /// The amount that was freed so far.
    pub report: CleanupReport,
}

/// The runs of one rule that are kept.
#[derive(Clone, Copy, Default)]
struct RuleTally {
    runs: u64,
    bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PassStage {
    Sweeping,
    Examining,
    Forgetting,
    Done,
}

/// The outcome of one step.
#[derive(Debug, Default, PartialEq)]
pub struct RetentionStep {
    /// The removed runs, without their child runs.
    pub removed: Vec<Arc<str>>,
    /// Nothing is left to do.
    pub done: bool,
}

impl RetentionPass {
    /// Begins a pass.
    pub fn new(policy: RetentionPolicy, now: Timestamp) -> RetentionPass {
        RetentionPass {
            tallies: vec![RuleTally::default(); policy.rules.len() + 1],
            policy,
            now,
            before: None,
            found: VecDeque::new(),
            stage: PassStage::Sweeping,
            report: CleanupReport::default(),
        }
    }

    /// Makes one step: examines some runs, removes some, or frees some data.
    pub fn step(&mut self, store: &dyn Store) -> Result<RetentionStep, RuntimeError> {
        let mut removed = Vec::new();
        match self.stage {
            PassStage::Sweeping => self.sweep(store)?,
            PassStage::Examining => match self.found.pop_front() {
                Some((cutoff, runs)) => removed = self.remove(store, cutoff, runs)?,
                None => self.examine(store)?,
            },
            PassStage::Forgetting => self.forget_ids(store)?,
            PassStage::Done => {}
        }
        Ok(RetentionStep { removed, done: self.stage == PassStage::Done })
    }

    /// Makes all steps.
    pub fn finish(mut self, store: &dyn Store) -> Result<CleanupReport, RuntimeError> {
        while !self.step(store)?.done {}
        Ok(self.report)
    }

    /// Returns the runs that a pass would remove, newest first.
    pub fn preview(mut self, store: &dyn Store) -> Result<Vec<RemovableTree>, RuntimeError> {
        let mut all = Vec::new();
        self.stage = PassStage::Examining;
        while self.stage == PassStage::Examining {
            self.examine(store)?;
            for (cutoff, runs) in self.found.drain(..) {
                for run in runs {
                    all.extend(described(store, &run, cutoff)?);
                }
            }
        }
        Ok(all)
    }

    fn sweep(&mut self, store: &dyn Store) -> Result<(), RuntimeError> {
        let swept = store.sweep()?;
        self.report.blobs += swept.blobs;
        self.report.bytes += swept.bytes;
        if !swept.more {
            self.stage = PassStage::Examining;
        }
        Ok(())
    }

    /// Examines a page of runs, and finds those beyond a bound of their rule.
    fn examine(&mut self, store: &dyn Store) -> Result<(), RuntimeError> {
        let page = store.ended_trees(self.before, RUNS_PER_STEP)?;
        let Some(last) = page.last() else {
            self.stage = PassStage::Forgetting;
            return Ok(());
        };
        self.before = Some(last.number);
        let mut found: BTreeMap<Timestamp, Vec<Arc<str>>> = BTreeMap::new();
        for tree in page {
            if let Some(cutoff) = self.cutoff(store, &tree)? {
                found.entry(cutoff).or_default().push(tree.run);
            }
        }
        self.found.extend(found);
        Ok(())
    }

    /// Returns the time before which all of a tree must have ended to be removed; `None` keeps it.
    fn cutoff(&mut self, store: &dyn Store, tree: &EndedTree) -> Result<Option<Timestamp>, RuntimeError> {
        let rule = self.policy.rule_of(tree);
        let bounds = self.policy.bounds(rule);
        if let Some(age) = bounds.max_age {
            let cutoff = Timestamp(self.now.0.saturating_sub_unsigned(age.0));
            if tree.ended_at < cutoff {
                return Ok(Some(cutoff));
            }
        }
        let bytes = match bounds.max_bytes {
            Some(_) => described(store, &tree.run, Timestamp(i64::MAX))?.map_or(0, |tree| tree.bytes),
            None => 0,
        };
        let tally = &mut self.tallies[rule];
        let exceeds = bounds.max_runs.is_some_and(|max| tally.runs >= max)
            || bounds.max_bytes.is_some_and(|max| tally.bytes.saturating_add(bytes) > max);
        if exceeds {
            // It ended before now, unless it has virtual time.
            return Ok(Some(Timestamp(i64::MAX)));
        }
        tally.runs += 1;
        tally.bytes = tally.bytes.saturating_add(bytes);
        Ok(None)
    }

    /// Removes a part of a group. The ids of the runs are recorded first: at no moment are both unknown.
    fn remove(
        &mut self,
        store: &dyn Store,
        cutoff: Timestamp,
        mut runs: Vec<Arc<str>>,
    ) -> Result<Vec<Arc<str>>, RuntimeError> {
        self.keep_ids(store, &runs)?;
        let removal = store.remove_all(&runs, cutoff)?;
        self.report.runs += removal.runs;
        let left = runs.split_off(removal.done.min(runs.len()));
        if !left.is_empty() {
            self.found.push_front((cutoff, left));
        }
        self.stage = PassStage::Sweeping;
        let mut removed = Vec::new();
        for run in runs {
            // A run tree that has an open run, or was changed meanwhile, has stayed.
            if store.run(&run)?.is_none() {
                removed.push(run);
            }
        }
        Ok(removed)
    }

    fn keep_ids(&self, store: &dyn Store, runs: &[Arc<str>]) -> Result<(), RuntimeError> {
        let mut changes = Vec::new();
        for run in runs {
            let Some(row) = store.run(run)? else { continue };
            let until = Timestamp(row.created_at.0.saturating_add_unsigned(self.policy.keep_ids.0));
            if until > self.now {
                let body = codec::encode(&RemovedStart::from_row(&row, until));
                changes.push(RecordChange::put(KIND, run, body, self.now));
            }
        }
        if !changes.is_empty() {
            store.change_records(changes)?;
        }
        Ok(())
    }

    /// Removes the records of ids whose time has passed.
    fn forget_ids(&mut self, store: &dyn Store) -> Result<(), RuntimeError> {
        let mut after = String::new();
        loop {
            let page = store.records(KIND, &after, RUNS_PER_STEP)?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.key);
            let is_over = |body: &[u8]| match codec::decode::<RemovedStart>(body, "a removed start") {
                Ok(removed) => removed.until <= self.now,
                Err(_) => false,
            };
            let over = page.iter().filter(|record| is_over(&record.body));
            let changes: Vec<_> = over.map(|record| RecordChange::remove(KIND, &record.key, self.now)).collect();
            if !changes.is_empty() {
                store.change_records(changes)?;
            }
        }
        self.stage = PassStage::Done;
        Ok(())
    }
}

/// Returns a run tree that can be removed, with its size.
fn described(store: &dyn Store, run: &str, cutoff: Timestamp) -> Result<Option<RemovableTree>, RuntimeError> {
    let Some(row) = store.run(run)? else { return Ok(None) };
    let next = store.removable(cutoff, row.number - 1, 1)?.pop();
    Ok(next.filter(|tree| tree.number == row.number))
}

/// The record of a run that retention has removed, for as long as its id stays known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemovedStart {
    /// Name of the definition.
    pub definition: String,
    /// Hash of the plan.
    pub plan: BlobHash,
    /// The status with which the run has ended.
    pub status: RunStatus,
    /// The time until which the id is known.
    pub until: Timestamp,
    /// The options of the run, encoded.
    options: Vec<u8>,
}

impl RemovedStart {
    fn from_row(row: &RunRow, until: Timestamp) -> RemovedStart {
        let (definition, plan, options) = (row.definition.clone(), row.plan, row.options.clone());
        RemovedStart { definition, plan, status: row.status, until, options }
    }

    /// Decodes the start options of the run.
    pub fn options(&self) -> Result<RunOptions, RuntimeError> {
        codec::decode(&self.options, "the run's options")
    }
}

/// Returns what is known of a run that retention has removed.
pub fn removed_start(store: &dyn Store, run: &str) -> Result<Option<RemovedStart>, RuntimeError> {
    let Some(record) = store.record(KIND, run)? else { return Ok(None) };
    let removed: RemovedStart = codec::decode(&record.body, "a removed start")?;
    Ok(Some(removed).filter(|removed| removed.until > real_now()))
}

#[cfg(test)]
mod tests {
    use windlass_store::conformance::batches::{creation, tick};
    use windlass_store::{BatchVerdict, MemoryStore, NewRun, RunBatch, RunFilter, StatusChange, StoreScan, StoreWrite};

    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    /// Creates an ended run of a definition, with a body of this many bytes.
    fn ended(store: &MemoryStore, run: &str, definition: &str, status: RunStatus, at: i64, bytes: usize) {
        let batch = creation(run);
        let create = batch.create.clone().map(|new| NewRun { definition: definition.to_owned(), ..new });
        let status = Some(StatusChange { status, at: Timestamp(at), result: None });
        let record = tick(run, 0, vec![1; bytes]).record;
        let verdicts = store.append(vec![RunBatch { create, status, record, ..batch }]).expect("append");
        assert_eq!(verdicts, [BatchVerdict::Committed]);
    }

    fn left(store: &MemoryStore) -> Vec<String> {
        let rows = store.runs(&RunFilter::default(), None, 999).expect("read");
        rows.iter().rev().map(|row| row.run.to_string()).collect()
    }

    fn retain(store: &MemoryStore, policy: RetentionPolicy) -> CleanupReport {
        let previewed = RetentionPass::new(policy.clone(), NOW).preview(store).expect("previewed");
        let report = RetentionPass::new(policy, NOW).finish(store).expect("finished");
        assert_eq!(previewed.iter().map(|tree| tree.runs).sum::<u64>(), report.runs, "the preview says the same");
        report
    }

    fn bounds(max_age: Option<u64>, max_runs: Option<u64>, max_bytes: Option<u64>) -> RetentionBounds {
        RetentionBounds { max_age: max_age.map(Duration), max_runs, max_bytes }
    }

    #[test]
    fn each_rule_bounds_its_own_runs_by_age_count_and_size() {
        let store = MemoryStore::new();
        for (run, definition, status, at, bytes) in [
            ("old", "a", RunStatus::Succeeded, 100, 10),
            ("old-failure", "a", RunStatus::Failed, 100, 10),
            ("b1", "b", RunStatus::Succeeded, NOW.0, 10),
            ("b2", "b", RunStatus::Failed, NOW.0, 10),
            ("b3", "b", RunStatus::Cancelled, NOW.0, 10),
            ("c1", "c", RunStatus::Succeeded, NOW.0, 6_000),
            ("c2", "c", RunStatus::Succeeded, NOW.0, 6_000),
            ("new", "a", RunStatus::Succeeded, NOW.0, 10),
        ] {
            ended(&store, run, definition, status, at, bytes);
        }
        store.append(vec![creation("open")]).expect("append");
        let rule = |definition: Option<&str>, status, bounds| RetentionRule {
            definition: definition.map(str::to_owned),
            status,
            bounds,
        };
        let policy = RetentionPolicy {
            rules: vec![
                rule(Some("a"), Some(RunStatus::Failed), RetentionBounds::default()),
                rule(Some("b"), None, bounds(None, Some(2), None)),
                rule(Some("c"), None, bounds(None, None, Some(10_000))),
            ],
            others: bounds(Some(1_000), None, None),
            keep_ids: Duration(0),
        };
        assert_eq!(retain(&store, policy.clone()).runs, 3);
        assert_eq!(left(&store), ["old-failure", "b2", "b3", "c2", "new", "open"]);
        assert_eq!(retain(&store, policy), CleanupReport::default(), "nothing is left to do");
        assert!(RetentionPolicy::default().keeps_all());
    }

    #[test]
    fn a_run_stays_with_a_child_run_that_is_open() {
        let store = MemoryStore::new();
        let child = creation("child");
        let create = child.create.clone().map(|new| NewRun { parent: Some("parent".into()), ..new });
        let ended = StatusChange { status: RunStatus::Succeeded, at: Timestamp(100), result: None };
        let end = RunBatch { status: Some(ended), ..tick("parent", 0, vec![1]) };
        for batch in [creation("parent"), RunBatch { create, ..child }, end] {
            assert_eq!(store.append(vec![batch]).expect("append"), [BatchVerdict::Committed]);
        }
        let policy = RetentionPolicy { others: bounds(None, Some(0), None), ..RetentionPolicy::default() };
        assert_eq!(retain(&store, policy.clone()).runs, 0);
        let ended = StatusChange { status: RunStatus::Succeeded, at: Timestamp(100), result: None };
        store.append(vec![RunBatch { status: Some(ended), ..tick("child", 0, vec![1]) }]).expect("append");
        assert_eq!(retain(&store, policy).runs, 2);
    }

    #[test]
    fn ids_are_known_for_their_own_time() {
        let store = MemoryStore::new();
        for number in 0..600 {
            ended(&store, &format!("r{number}"), "a", RunStatus::Succeeded, 100, 10);
        }
        let policy = RetentionPolicy {
            others: bounds(Some(1_000), None, None),
            keep_ids: Duration(u64::MAX / 4),
            ..RetentionPolicy::default()
        };
        assert_eq!(retain(&store, policy.clone()).runs, 600);
        let removed = removed_start(&store, "r7").expect("read").expect("known");
        assert_eq!((&*removed.definition, removed.status), ("a", RunStatus::Succeeded));
        let later = Timestamp(i64::MAX);
        assert!(RetentionPass::new(policy, later).finish(&store).is_ok());
        assert_eq!(removed_start(&store, "r7").expect("read"), None);
    }
}
