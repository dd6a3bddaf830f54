//! The status under which users see a run. A stored run says `running` from its first tick to its end, even if its
//! process was killed: only a live owner makes that true.

use std::collections::BTreeMap;

use windlass_store::{RunFilter, RunRow, RunStatus, RunningFilter, Store, StoreError};

/// The status of a run in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListedStatus {
    /// The status that the store has.
    Stored(RunStatus),
    /// The run has work to do and no live owner: its process was killed, or released it before its end.
    Interrupted,
    /// The run's row is damaged: what the listing shows of it may be wrong.
    Damaged,
}

impl ListedStatus {
    /// Returns all statuses, in the order of listings.
    pub fn all() -> impl Iterator<Item = ListedStatus> {
        let stored = RunStatus::ALL.into_iter().flat_map(|status| {
            let interrupted = (status == RunStatus::Running).then_some(ListedStatus::Interrupted);
            std::iter::once(ListedStatus::Stored(status)).chain(interrupted)
        });
        stored.chain([ListedStatus::Damaged])
    }

    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            ListedStatus::Stored(status) => status.as_str(),
            ListedStatus::Interrupted => "interrupted",
            ListedStatus::Damaged => "damaged",
        }
    }

    /// Returns the status of this name; the inverse of [`ListedStatus::as_str`].
    pub fn parse(word: &str) -> Option<ListedStatus> {
        ListedStatus::all().find(|status| status.as_str() == word)
    }
}

/// Returns the status of one run.
pub fn listed_status(store: &dyn Store, row: &RunRow) -> Result<ListedStatus, StoreError> {
    OwnerProbe::new(store).status(row)
}

/// Finds the statuses of many runs. Each owner is probed once.
pub struct OwnerProbe<'a> {
    store: &'a dyn Store,
    alive: BTreeMap<String, bool>,
}

impl<'a> OwnerProbe<'a> {
    /// Creates a probe that has asked for no owner yet.
    pub fn new(store: &'a dyn Store) -> OwnerProbe<'a> {
        OwnerProbe { store, alive: BTreeMap::new() }
    }

    /// Returns the status of a run.
    pub fn status(&mut self, row: &RunRow) -> Result<ListedStatus, StoreError> {
        match row.status {
            RunStatus::Running if !self.is_owned(row)? => Ok(ListedStatus::Interrupted),
            stored => Ok(ListedStatus::Stored(stored)),
        }
    }

    fn is_owned(&mut self, row: &RunRow) -> Result<bool, StoreError> {
        let Some(owner) = &row.owner else { return Ok(false) };
        if let Some(alive) = self.alive.get(owner) {
            return Ok(*alive);
        }
        let alive = self.store.owner_alive(owner)?;
        self.alive.insert(owner.clone(), alive);
        Ok(alive)
    }
}

/// Restricts a filter to runs with any of these statuses; an empty list is no condition. Damaged runs are listed by
/// [`StoreDamage`](windlass_store::StoreDamage).
pub fn filter_by_status(
    store: &dyn Store,
    filter: RunFilter,
    statuses: &[ListedStatus],
) -> Result<RunFilter, StoreError> {
    let running = statuses.contains(&ListedStatus::Stored(RunStatus::Running));
    let interrupted = statuses.contains(&ListedStatus::Interrupted);
    let running = match (running, interrupted) {
        (true, false) => Some(RunningFilter::OwnedBy(store.live_owners()?)),
        (false, true) => Some(RunningFilter::NotOwnedBy(store.live_owners()?)),
        (true, true) | (false, false) => None,
    };
    let stored = |status: &ListedStatus| match status {
        ListedStatus::Stored(status) => Some(*status),
        ListedStatus::Interrupted => Some(RunStatus::Running),
        // Scans leave damaged rows out.
        ListedStatus::Damaged => None,
    };
    let stored: Vec<RunStatus> = statuses.iter().filter_map(stored).collect();
    if stored.is_empty() && !statuses.is_empty() {
        // No run has two statuses.
        let (status, statuses) = (Some(RunStatus::Pending), vec![RunStatus::Succeeded]);
        return Ok(RunFilter { status, statuses, ..filter });
    }
    Ok(RunFilter { statuses: stored, running, ..filter })
}

/// The number of runs that have a status, as far as they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedCount {
    /// The status that was counted.
    pub status: ListedStatus,
    /// The number of runs with this status.
    pub runs: u64,
    /// There are older runs that were not examined.
    pub more: bool,
}

/// Counts runs by status, at most `max_per_status` of each.
pub fn count_by_status(
    store: &dyn Store,
    filter: &RunFilter,
    max_per_status: u32,
) -> Result<Vec<ListedCount>, StoreError> {
    let mut counts = Vec::new();
    for count in store.counts(filter, max_per_status)? {
        if count.status != RunStatus::Running {
            counts.push(ListedCount { status: ListedStatus::Stored(count.status), runs: count.runs, more: count.more });
            continue;
        }
        for status in [ListedStatus::Stored(RunStatus::Running), ListedStatus::Interrupted] {
            let filter = filter_by_status(store, filter.clone(), &[status])?;
            let counted = store.counts(&filter, max_per_status)?;
            counts.extend(counted.into_iter().map(|one| ListedCount { status, runs: one.runs, more: one.more }));
        }
    }
    Ok(counts)
}
