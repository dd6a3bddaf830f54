//! The watch: brings back runs whose time has come or who have mail, and passes on what other processes have written.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Inner;
use crate::clock::real_now;

/// Runs brought back in one round.
const RUNS_AT_ONCE: u32 = 256;

/// The longest sleep between two looks.
const ROUND_MAX: Duration = Duration::from_secs(1);

pub(super) async fn watch(engine: Weak<Inner>) {
    let mut mark = 0;
    loop {
        let Some(inner) = engine.upgrade().filter(|inner| !inner.is_closing()) else { return };
        let pause = inner.round(&mut mark).await;
        let nudged = async {
            inner.nudge.notified().await;
        };
        // An error of the store shows where the run is: here it only means to look again later.
        let _ = tokio::time::timeout(pause, nudged).await;
    }
}

impl Inner {
    /// One look at the store. Gives back how long to sleep.
    async fn round(self: &Arc<Self>, mark: &mut u64) -> Duration {
        let changed = self.store.change_mark().is_ok_and(|now| std::mem::replace(mark, now) != now);
        if changed || self.has_released() {
            self.pass_on_mail().await;
        }
        self.wake_due().await;
        let due = self.store.next_due().ok().flatten();
        // What is overdue even now is somebody else's: it must not keep us busy.
        let until_due = due.map(|at| at.since(real_now()).to_std()).filter(|left| !left.is_zero());
        let until_due = until_due.map_or(ROUND_MAX, |left| left.max(Duration::from_millis(1)));
        until_due.min(self.poll_every).min(ROUND_MAX)
    }

    fn has_released(&self) -> bool {
        self.runs().values().any(|tracked| tracked.mailbox.is_none())
    }

    async fn pass_on_mail(self: &Arc<Self>) {
        let Ok(with_mail) = self.store.with_inbox(RUNS_AT_ONCE) else { return };
        for run in with_mail {
            let run: Arc<str> = run.into();
            let (tracked, resident) = {
                let runs = self.runs();
                let tracked = runs.get(&run);
                (tracked.is_some(), tracked.is_some_and(|tracked| tracked.mailbox.is_some()))
            };
            match resident {
                true => {
                    if let Some(mailbox) = self.runs().get(&run).and_then(|tracked| tracked.mailbox.as_ref()) {
                        let _ = mailbox.send(crate::adapters::Mail::Inbox);
                    }
                }
                false if tracked || self.adopt => self.bring_back_quietly(&run).await,
                false => {}
            }
        }
    }

    async fn wake_due(self: &Arc<Self>) {
        let Ok(due) = self.store.due(real_now(), RUNS_AT_ONCE) else { return };
        for row in due {
            let (tracked, resident) = {
                let runs = self.runs();
                (runs.contains_key(&row.run), runs.get(&row.run).is_some_and(|tracked| tracked.mailbox.is_some()))
            };
            if !resident && (tracked || self.adopt) {
                self.bring_back_quietly(&row.run).await;
            }
        }
    }

    /// A run that cannot be brought back now is tried again in the next round, unless it is damaged.
    async fn bring_back_quietly(self: &Arc<Self>, run: &Arc<str>) {
        let Some(_turn) = self.try_turn_to_return(run) else { return };
        if self.is_resident(run) {
            return;
        }
        let known = self.runs().contains_key(run);
        self.track(run, false);
        match self.bring_back(run, false).await {
            Ok(()) => {}
            Err(crate::RuntimeError::Owned { .. }) if known => {}
            Err(crate::RuntimeError::Owned { .. }) => self.untrack(run),
            Err(error) => self.tell_end(run, super::RunEnd::Failed(error)),
        }
    }
}
