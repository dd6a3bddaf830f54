//! Journal checks that every store runs, independent of how it stores the rows.

use crate::JournalRow;

/// Walks over a run's rows in order and collects inconsistencies.
pub struct JournalCheck {
    run: String,
    newest_snapshot: Option<u64>,
    next_tick: Option<u64>,
    next_event: Option<u64>,
    /// One line for each inconsistency found so far.
    pub findings: Vec<String>,
}

impl JournalCheck {
    /// Starts with a run and the tick of its newest snapshot.
    pub fn new(run: &str, newest_snapshot: Option<u64>) -> JournalCheck {
        JournalCheck { run: run.to_owned(), newest_snapshot, next_tick: None, next_event: None, findings: Vec::new() }
    }

    /// Checks the next row.
    pub fn check_row(&mut self, row: &JournalRow) {
        self.check_tick(row.first_tick);
        self.next_tick = Some(row.first_tick + u64::from(row.ticks));
        if row.events > 0 {
            self.check_event(row);
            self.next_event = Some(row.first_event + u64::from(row.events));
        }
    }

    fn check_tick(&mut self, first_tick: u64) {
        match self.next_tick {
            Some(expected) if expected != first_tick => {
                self.report(format!("the journal jumps from tick {expected} to {first_tick}."));
            }
            None if first_tick > self.newest_snapshot.unwrap_or(0) => {
                self.report(format!(
                    "the journal begins at tick {first_tick}, and no snapshot covers what came before."
                ));
            }
            Some(_) | None => {}
        }
    }

    fn check_event(&mut self, row: &JournalRow) {
        if let Some(expected) = self.next_event.filter(|expected| *expected != row.first_event) {
            let (tick, found) = (row.first_tick, row.first_event);
            self.report(format!("the events jump from {expected} to {found} at tick {tick}."));
        }
    }

    /// Completes the check after the last row and returns the findings.
    pub fn finish(mut self) -> Vec<String> {
        let head = self.next_tick.unwrap_or(0);
        if let Some(snapshot) = self.newest_snapshot.filter(|snapshot| *snapshot > head) {
            self.report(format!("the newest snapshot is of tick {snapshot}, but the journal ends at {head}."));
        }
        self.findings
    }

    fn report(&mut self, finding: String) {
        self.findings.push(format!("Run {}: {finding}", self.run));
    }
}
