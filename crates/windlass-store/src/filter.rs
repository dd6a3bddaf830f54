//! Filters of run listings, and what a listing counts.

use std::sync::Arc;

use windlass_value::Timestamp;

use crate::{RunLabels, RunStatus};

/// Filter of a listing: a run must match every part.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunFilter {
    /// The run has this status.
    pub status: Option<RunStatus>,
    /// The run has any of these; an empty list is no condition.
    pub statuses: Vec<RunStatus>,
    /// A condition on running runs only; it excludes no run of another status.
    pub running: Option<RunningFilter>,
    /// The run's definition has exactly this name.
    pub definition: Option<String>,
    /// The run's plan has this dialect.
    pub dialect: Option<String>,
    /// Only runs that have not ended.
    pub unfinished: bool,
    /// A substring of the run's id or of its definition's name, compared without regard to ASCII case.
    pub search: Option<String>,
    /// The run is, or is not, a child run.
    pub parent: Option<ParentFilter>,
    /// Created at this time or later.
    pub since: Option<Timestamp>,
    /// Created before this time.
    pub until: Option<Timestamp>,
    /// The run has all of these labels, with these values.
    pub labels: RunLabels,
}

/// Filter of running runs by their owner. A run whose owner is dead was interrupted: its process was killed, or
/// released it before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunningFilter {
    /// One of these owners has the run.
    OwnedBy(Vec<String>),
    /// None of these owners has the run.
    NotOwnedBy(Vec<String>),
}

impl RunningFilter {
    /// Returns whether a run with this owner matches.
    pub fn matches(&self, owner: Option<&str>) -> bool {
        let is_among = |owners: &[String]| owner.is_some_and(|owner| owners.iter().any(|one| one == owner));
        match self {
            RunningFilter::OwnedBy(owners) => is_among(owners),
            RunningFilter::NotOwnedBy(owners) => !is_among(owners),
        }
    }
}

/// The number of runs that have a status, as far as they were counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusCount {
    /// The status that was counted.
    pub status: RunStatus,
    /// The number of runs with this status.
    pub runs: u64,
    /// There are older runs that were not examined.
    pub more: bool,
}

impl RunFilter {
    /// Returns whether the filter names a definition, a parent run or a label: such runs are seldom very many, all
    /// statuses together.
    pub fn is_narrow(&self) -> bool {
        self.definition.is_some() || matches!(self.parent, Some(ParentFilter::Run(_))) || !self.labels.is_empty()
    }
}

/// Filter by parent run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParentFilter {
    /// Runs without a parent run.
    TopLevel,
    /// Child runs of this run.
    Run(Arc<str>),
}
