//! A run in another process, followed through the store.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::Limits;
use windlass_runtime::show::{Seen, StoredEvent, StoredEvents, live_owner, report_of};
use windlass_runtime::{FinalReport, RuntimeError};
use windlass_store::{Store, StoreScan};

use crate::failure::Failure;
use crate::host::Interrupts;
use crate::image;
use crate::progress::Progress;

/// Between two looks at the store. The look itself is one cheap question.
pub(crate) const POLL: Duration = Duration::from_millis(25);

/// Even if the store says that nothing was written: an owner that dies writes nothing.
const LOOK_EVERY: u32 = 40;

/// Tells whether it is worth looking again.
#[derive(Default)]
pub(crate) struct Changes {
    mark: Option<u64>,
    asked: u32,
}

impl Changes {
    pub(crate) fn any(&mut self, store: &dyn StoreScan) -> Result<bool, Failure> {
        let mark = Some(store.change_mark()?);
        self.asked += 1;
        let changed = self.mark != mark || self.asked.is_multiple_of(LOOK_EVERY);
        self.mark = mark;
        Ok(changed)
    }
}

pub(crate) enum Followed {
    Ended(Box<FinalReport>),
    /// Whoever ran it has let go of it or died.
    Orphaned,
    Interrupted,
}

pub(crate) async fn follow(
    store: &dyn Store,
    run: &Arc<str>,
    limits: &Limits,
    interrupts: &mut Interrupts,
    progress: &mut Progress,
) -> Result<Followed, Failure> {
    // Its first events may be dropped by now, and are of no interest any more.
    let begun = look(store, run, limits, progress);
    let mut events = StoredEvents::new(run.clone(), begun.as_ref().map_or(0, |begun| begun.image.state.events));
    progress.seed(begun.as_ref());
    let mut changes = Changes::default();
    let followed = loop {
        if changes.any(store)? {
            show(&mut events, store, progress)?;
            let row = store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_string()))?;
            if let Some(report) = report_of(&row)? {
                // Events written between the two looks.
                show(&mut events, store, progress)?;
                break Followed::Ended(Box::new(report));
            }
            if live_owner(store, &row)?.is_none() {
                break Followed::Orphaned;
            }
        }
        progress.beat();
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = interrupts.next() => break Followed::Interrupted,
        }
    };
    progress.finish();
    Ok(followed)
}

/// What the run is doing already, for those who show it. Whoever cannot be told shows less; why, others will say.
pub(crate) fn look(store: &dyn Store, run: &str, limits: &Limits, progress: &Progress) -> Option<Seen> {
    if progress.is_quiet() { None } else { image::load(store, run, limits).ok() }
}

fn show(events: &mut StoredEvents, store: &dyn Store, progress: &mut Progress) -> Result<(), Failure> {
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
