//! The watch: brings back runs whose time has come or who have mail, and passes on what other processes have written.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use windlass_store::{RunFilter, RunStatus, StoreError, StoreErrorKind};

use super::{Inner, Tracked};
use crate::clock::real_now;

/// Runs brought back in one round.
const RUNS_AT_ONCE: u32 = 256;

/// The longest sleep between two looks.
const ROUND_MAX: Duration = Duration::from_secs(1);

/// How often runs are looked for whose process has died.
const ORPHANS_EVERY: Duration = Duration::from_secs(5);

/// What the last rounds have looked at.
#[derive(Default)]
struct Seen {
    mark: Option<u64>,
    orphans_at: Option<Instant>,
}

pub(super) async fn watch(engine: Weak<Inner>) {
    let mut seen = Seen::default();
    loop {
        let Some(inner) = engine.upgrade().filter(|inner| !inner.is_closing()) else { return };
        let pause = inner.round(&mut seen).await;
        let nudged = async {
            inner.nudge.notified().await;
        };
        // An error of the store shows where the run is: here it only means to look again later.
        let _ = tokio::time::timeout(pause, nudged).await;
    }
}

impl Inner {
    /// One look at the store. Gives back how long to sleep.
    async fn round(self: &Arc<Self>, seen: &mut Seen) -> Duration {
        let changed = match self.store.change_mark() {
            Ok(now) => seen.mark.replace(now) != Some(now),
            Err(error) => {
                self.stop_if_lost(&error);
                false
            }
        };
        if changed || self.has_released() {
            self.pass_on_mail().await;
        }
        self.wake_due().await;
        self.look_elsewhere().await;
        if self.adopt && seen.orphans_at.is_none_or(|at| at.elapsed() >= ORPHANS_EVERY) {
            seen.orphans_at = Some(Instant::now());
            self.adopt_orphans().await;
            self.recovered();
        }
        let due = self.store.next_due().ok().flatten();
        // What is overdue even now is somebody else's: it must not keep us busy.
        let until_due = due.map(|at| at.since(real_now()).to_std()).filter(|left| !left.is_zero());
        let until_due = until_due.map_or(ROUND_MAX, |left| left.max(Duration::from_millis(1)));
        until_due.min(self.poll_every).min(ROUND_MAX)
    }

    /// A store that refuses all further work will never move a run again: whoever waits is told.
    fn stop_if_lost(&self, error: &StoreError) {
        if matches!(error.kind, StoreErrorKind::Io | StoreErrorKind::Stopped) {
            let runs: Vec<Arc<str>> = self.runs().keys().cloned().collect();
            for run in runs {
                self.stop_run(&run, error.clone().into());
            }
        }
    }

    fn has_released(&self) -> bool {
        self.runs().values().any(|tracked| tracked.mailbox.is_none())
    }

    async fn pass_on_mail(self: &Arc<Self>) {
        let Ok(mut with_mail) = self.store.with_inbox(RUNS_AT_ONCE) else { return };
        if with_mail.len() >= RUNS_AT_ONCE as usize {
            // So much mail that nobody takes must not hide that of our own runs.
            let own: Vec<Arc<str>> = self.runs().keys().cloned().collect();
            let has_mail = |run: &Arc<str>| self.store.inbox(run, 1).is_ok_and(|mail| !mail.is_empty());
            with_mail.extend(own.into_iter().filter(has_mail).map(|run| run.to_string()));
        }
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

    /// Runs that somebody waits for here while another process has them: they end there, or become free.
    async fn look_elsewhere(self: &Arc<Self>) {
        let elsewhere = |tracked: &Tracked| tracked.elsewhere && tracked.mailbox.is_none();
        let runs: Vec<Arc<str>> =
            self.runs().iter().filter(|(_, tracked)| elsewhere(tracked)).map(|(run, _)| run.clone()).collect();
        for run in runs {
            let ended = self.store.run(&run).is_ok_and(|row| row.is_some_and(|row| row.status.is_final()));
            if ended || self.is_free(&run) {
                self.bring_back_quietly(&run).await;
            }
        }
    }

    /// Runs that were being worked on when their process died have neither mail nor a timer in the store.
    async fn adopt_orphans(self: &Arc<Self>) {
        let filter = RunFilter { status: Some(RunStatus::Running), ..RunFilter::default() };
        let mut before = None;
        while let Ok(rows) = self.store.runs(&filter, before, RUNS_AT_ONCE)
            && let Some(last) = rows.last().map(|row| row.number)
        {
            before = Some(last);
            for row in rows {
                if self.is_free(&row.run) {
                    self.bring_back_quietly(&row.run).await;
                }
            }
        }
    }

    /// Looks before it claims, which is a write: a run that is not there yet, or whose owner is alive, is left alone.
    fn is_free(&self, run: &str) -> bool {
        let Ok(Some(row)) = self.store.run(run) else { return false };
        !row.owner.is_some_and(|owner| self.store.owner_alive(&owner).unwrap_or(true))
    }

    /// A run that cannot be brought back now is tried again in the next round, unless it is damaged.
    pub(super) async fn bring_back_quietly(self: &Arc<Self>, run: &Arc<str>) {
        let Some(_turn) = self.try_turn_to_return(run) else { return };
        if self.is_resident(run) {
            return;
        }
        let known = self.runs().contains_key(run);
        if !known && !self.is_free(run) {
            return;
        }
        self.track(run, false);
        match self.bring_back(run, false).await {
            Ok(()) => {}
            Err(crate::RuntimeError::Owned { .. }) if known => {}
            Err(crate::RuntimeError::Owned { .. }) => self.untrack(run),
            Err(error) => self.tell_end(run, super::RunEnd::Failed(error)),
        }
    }
}
