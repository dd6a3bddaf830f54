//! What an engine tells those who look after it. Names of runs and reasons, never values.

use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// Runs were left in the middle by a process that is gone; they are being brought back.
    Recovering { runs: u64 },
    /// All of them were looked at once.
    Recovered { runs: u64, set_aside: u64, postponed: u64, took: Duration },
    /// Nobody goes on with the run before a person has looked.
    SetAside { run: Arc<str>, why: String },
    /// The run cannot be brought back now; it is tried again later.
    Postponed { run: Arc<str>, why: String },
    /// Runs that were at work each time the process died quickly: they come back a few at a time.
    Suspects { runs: u64 },
    /// The store did not answer; recovery looks again soon.
    Trouble { why: String },
}

/// Must not take long.
pub type NoticeHook = Arc<dyn Fn(&Notice) + Send + Sync>;

impl super::Inner {
    pub(super) fn notice(&self, notice: &Notice) {
        if let Some(hook) = &self.notices {
            hook(notice);
        }
    }
}
