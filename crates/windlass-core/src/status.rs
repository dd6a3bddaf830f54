//! The status with which a node or a run ends.

use serde::{Deserialize, Serialize};

/// The final status of a node or a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Succeeded,
    Failed,
    Skipped,
    Cancelled,
    TimedOut,
}

impl Status {
    pub const ALL: [Status; 5] =
        [Status::Succeeded, Status::Failed, Status::Skipped, Status::Cancelled, Status::TimedOut];

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
    pub const NONE: StatusSet = StatusSet(0);

    pub fn from_statuses(statuses: impl IntoIterator<Item = Status>) -> StatusSet {
        statuses.into_iter().fold(StatusSet::NONE, StatusSet::with)
    }

    pub fn all() -> StatusSet {
        StatusSet::from_statuses(Status::ALL)
    }

    #[must_use]
    pub fn with(self, status: Status) -> StatusSet {
        StatusSet(self.0 | 1 << status as u8)
    }

    pub fn contains(self, status: Status) -> bool {
        self.0 & 1 << status as u8 != 0
    }

    pub fn iter(self) -> impl Iterator<Item = Status> {
        Status::ALL.into_iter().filter(move |status| self.contains(*status))
    }
}
