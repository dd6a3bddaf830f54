//! The status with which a node or a run ends.

use serde::{Deserialize, Serialize};

/// The final status of a node or a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ended with its output.
    Succeeded,
    /// It ended with an error.
    Failed,
    /// It did not run, on purpose: a condition was false or a dependency was not met.
    Skipped,
    /// It was ended early on request.
    Cancelled,
    /// It took longer than its timeout.
    TimedOut,
}

impl Status {
    /// All statuses, in the order of declaration.
    pub const ALL: [Status; 5] =
        [Status::Succeeded, Status::Failed, Status::Skipped, Status::Cancelled, Status::TimedOut];

    /// Returns the name used in events, stores and the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Succeeded => "succeeded",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
            Status::Cancelled => "cancelled",
            Status::TimedOut => "timed_out",
        }
    }

    /// Returns true unless the status is a success or a deliberate skip.
    pub fn is_bad(self) -> bool {
        !matches!(self, Status::Succeeded | Status::Skipped)
    }
}

/// A set of statuses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct StatusSet(u8);

impl StatusSet {
    /// The empty set.
    pub const NONE: StatusSet = StatusSet(0);

    /// Creates a set of these statuses.
    pub fn from_statuses(statuses: impl IntoIterator<Item = Status>) -> StatusSet {
        statuses.into_iter().fold(StatusSet::NONE, StatusSet::with)
    }

    /// Creates the set of all statuses.
    pub fn all() -> StatusSet {
        StatusSet::from_statuses(Status::ALL)
    }

    /// Returns the set with one more status.
    #[must_use]
    pub fn with(self, status: Status) -> StatusSet {
        StatusSet(self.0 | 1 << status as u8)
    }

    /// Returns true if the status is in the set.
    pub fn contains(self, status: Status) -> bool {
        self.0 & 1 << status as u8 != 0
    }

    /// Returns the statuses of the set, in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| self.contains(*status))
    }
}
