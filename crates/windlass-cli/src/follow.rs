//! Follows a run of another process through the store.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::Limits;
use windlass_runtime::inspect::{StoredEvent, StoredEvents, StoredRun, final_report, live_owner};
use windlass_runtime::{FinalReport, RuntimeError};
use windlass_store::{Store, StoreScan};

use crate::failure::CliFailure;
use crate::host::Interrupts;
use crate::image;
use crate::progress::ProgressDisplay;

/// The interval between two looks at the store, each of which is one cheap query.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// The number of polls after which the run is read even if nothing was written: an owner that dies writes nothing.
const CHECK_EVERY_POLLS: u32 = 40;

/// Detects whether the store has changed since the last poll.
#[derive(Default)]
pub(crate) struct ChangePoller {
    mark: Option<u64>,
    polls: u32,
}

impl ChangePoller {
    pub(crate) fn has_changed(&mut self, store: &dyn StoreScan) -> Result<bool, CliFailure> {
        let mark = Some(store.change_mark()?);
        self.polls += 1;
        let changed = self.mark != mark || self.polls.is_multiple_of(CHECK_EVERY_POLLS);
        self.mark = mark;
        Ok(changed)
    }
}

pub(crate) enum FollowOutcome {
    Ended(Box<FinalReport>),
    /// The owner has released the run or died.
    Orphaned,
    Interrupted,
}

pub(crate) async fn follow(
    store: &dyn Store,
    run: &Arc<str>,
    limits: &Limits,
    interrupts: &mut Interrupts,
    progress: &mut ProgressDisplay,
) -> Result<FollowOutcome, CliFailure> {
    // The first events may be trimmed by now; they are no longer of interest.
    let begun = load_for_progress(store, run, limits, progress);
    let mut events = StoredEvents::new(run.clone(), begun.as_ref().map_or(0, |begun| begun.image.state.events));
    progress.seed(begun.as_ref());
    let mut changes = ChangePoller::default();
    let followed = loop {
        if changes.has_changed(store)? {
            show_new_events(&mut events, store, progress)?;
            let row = store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
            if let Some(report) = final_report(&row)? {
                // Reads events written between the two looks.
                show_new_events(&mut events, store, progress)?;
                break FollowOutcome::Ended(Box::new(report));
            }
            if live_owner(store, &row)?.is_none() {
                break FollowOutcome::Orphaned;
            }
        }
        progress.beat();
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = interrupts.next() => break FollowOutcome::Interrupted,
        }
    };
    progress.finish();
    Ok(followed)
}

/// Loads the current state for the progress display. Returns `None` on an error: the display then shows less, and
/// another operation reports the error.
pub(crate) fn load_for_progress(
    store: &dyn Store,
    run: &str,
    limits: &Limits,
    progress: &ProgressDisplay,
) -> Option<StoredRun> {
    if progress.is_quiet() { None } else { image::load(store, run, limits).ok() }
}

fn show_new_events(
    events: &mut StoredEvents,
    store: &dyn Store,
    progress: &mut ProgressDisplay,
) -> Result<(), CliFailure> {
    if progress.is_quiet() {
        return Ok(());
    }
    loop {
        let pieces = events.read(store)?;
        if pieces.is_empty() {
            return Ok(());
        }
        for piece in pieces {
            if let StoredEvent::Event(event) = piece {
                progress.event(&event);
            }
        }
    }
}
