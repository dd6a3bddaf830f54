//! Checks all schedules and fires due triggers. The time is a parameter, so that tests can pass any time.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_runtime::{RunStartOptions, RuntimeError, TriggerOptions, real_now};
use windlass_store::{Store, StoreError};
use windlass_value::{Timestamp, Value};

use super::catch_up::{self, DueTimes};
use super::poll::{self, PollResult};
use super::settings::{self, PollReply, TriggerProgress};
use super::timed::{TimedTrigger, reload_trigger, timed_triggers};
use super::{TriggerLogEntry, TriggerLogOutcome, delivery_prefix, existing_run, queue};
use crate::App;

/// Maximum delay until schedules changed by another server are noticed.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Triggers by definition and name.
type PollingTriggers = BTreeSet<(Arc<str>, Arc<str>)>;

#[derive(Clone)]
pub struct TriggerScheduler {
    app: App,
    /// Triggers with a poll in progress.
    polling: Arc<Mutex<PollingTriggers>>,
}

/// A poll in progress; dropping it ends the registration.
struct TriggerPollGuard {
    scheduler: TriggerScheduler,
    trigger_key: (Arc<str>, Arc<str>),
}

impl Drop for TriggerPollGuard {
    fn drop(&mut self) {
        self.scheduler.polling.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.trigger_key);
    }
}

/// The result of handling one due time.
enum FiringResult {
    Started {
        runs: Vec<String>,
        waiting: usize,
    },
    /// It was handled before.
    Repeated(String),
    /// The concurrency limit is reached, or there was nothing to start.
    Skipped(String),
    /// It failed permanently: a retry would fail as well.
    Failed(String),
    Later {
        not_before: Option<Timestamp>,
        at: Option<String>,
    },
}

impl TriggerScheduler {
    pub fn new(app: App) -> TriggerScheduler {
        TriggerScheduler { app, polling: Arc::default() }
    }

    /// Runs until the server stops.
    pub(crate) async fn run(self) {
        let mut draining = self.app.draining();
        let mut changes = self.app.definitions.changes();
        loop {
            let now = real_now();
            let next = self.fire_due(now).await;
            let wait = next.map_or(CHECK_INTERVAL, |next| Duration::from_micros(next.since(now).0).min(CHECK_INTERVAL));
            tokio::select! {
                _ = draining.wait_for(|draining| *draining) => return,
                _ = changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Fires everything that is due at this time; returns the next due time.
    pub async fn fire_due(&self, now: Timestamp) -> Option<Timestamp> {
        if let Err(error) = queue::admit_all(&self.app).await {
            self.log_error("", "", &error);
        }
        // After a read error, the schedules are checked again soon.
        let listening = timed_triggers(&self.app).unwrap_or_else(|error| {
            self.log_error("", "", &error);
            Vec::new()
        });
        let mut next: Option<Timestamp> = None;
        let mut polling: Vec<(Timestamp, TimedTrigger)> = Vec::new();
        for timed in listening {
            // Polls run separately, so that a slow service delays no other trigger.
            if let Some(due) = self.poll_due_since(&timed, now) {
                polling.push((due, timed));
                continue;
            }
            let due = self.check_trigger(&timed, now).await.unwrap_or_else(|error| {
                self.log_error(&timed.definition.name, &timed.trigger, &error);
                None
            });
            next = next.into_iter().chain(due).min();
        }
        // Poll slots are limited: triggers that have waited longest go first, so that slow services cannot occupy all
        // slots.
        polling.sort_by_key(|(due, _)| *due);
        polling.into_iter().for_each(|(_, one)| self.spawn_poll(one, now));
        next
    }

    fn log_error(&self, definition: &str, trigger: &str, error: &RuntimeError) {
        let what = TriggerLogOutcome::Failed { reason: format!("it will be retried: {error}") };
        let (definition, trigger) = (definition.to_owned(), trigger.to_owned());
        TriggerLogEntry { definition, trigger, kind: String::new(), outcome: what, due: None }.log();
    }

    /// Returns since when a polling trigger has been due, if it is.
    fn poll_due_since(&self, timed: &TimedTrigger, now: Timestamp) -> Option<Timestamp> {
        if !timed.is_polling() {
            return None;
        }
        let firing = settings::read(&*self.app.store, settings::FIRING, &timed.definition.name, &timed.trigger);
        firing.ok().and_then(|firing| timed.next(&firing, now)).filter(|next| *next <= now)
    }

    /// Starts a poll in its own task, unless one is in progress or the limit is reached.
    fn spawn_poll(&self, timed: TimedTrigger, now: Timestamp) {
        let trigger_key = (timed.definition.name.clone(), timed.trigger.clone());
        {
            let mut polling = self.polling.lock().unwrap_or_else(PoisonError::into_inner);
            if polling.len() >= self.app.options.limits.max_poll_concurrency || !polling.insert(trigger_key.clone()) {
                return;
            }
        }
        let guard = TriggerPollGuard { scheduler: self.clone(), trigger_key };
        tokio::spawn(async move {
            let app = guard.scheduler.app.clone();
            let mut draining = app.draining();
            let checked = tokio::select! {
                _ = draining.wait_for(|draining| *draining) => return,
                looked = guard.scheduler.check_trigger(&timed, now) => looked,
            };
            // A result that could not be stored is polled again at the next check.
            match checked {
                Ok(_) => {
                    drop(guard);
                    app.definitions.wake();
                }
                Err(error) => guard.scheduler.log_error(&timed.definition.name, &timed.trigger, &error),
            }
        });
    }

    async fn check_trigger(&self, timed: &TimedTrigger, now: Timestamp) -> Result<Option<Timestamp>, RuntimeError> {
        let Ok(schedule) = &timed.schedule else { return Ok(None) };
        let name = &timed.definition.name;
        let mut firing: TriggerProgress = settings::read(&*self.app.store, settings::FIRING, name, &timed.trigger)?;
        if timed.reset_future_times(&mut firing, now, self.app.options.limits.max_poll_wait) {
            self.store_progress(timed, &firing).await?;
        }
        if timed.is_polling()
            && let Some(PollReply { due, body, trigger_metadata }) =
                settings::read_reply(&*self.app.store, name, &timed.trigger)?
        {
            // A stop or a crash came before all runs of the stored reply were created. The service will not repeat it.
            let fired = self.fire(timed, (due, firing.clock_resets), body, trigger_metadata).await?;
            self.record_result(timed, &mut firing, due, fired);
            (firing.not_before, firing.poll_at) = (None, None);
            firing.due = firing.due.max(Some(due));
            self.store_progress_and_forget_reply(timed, &firing).await?;
        }
        let DueTimes { times, newest, missed } = match firing.not_before.filter(|_| timed.is_polling()) {
            Some(at) if at > now => return Ok(timed.next(&firing, now)),
            // The service has requested a poll at this time, whatever the schedule says.
            Some(at) => DueTimes { times: vec![at], newest: Some(at), missed: 0 },
            None => catch_up::due_times(
                schedule,
                timed.handled_until(&firing, now),
                now,
                timed.catch_up,
                &self.app.options.limits,
            ),
        };
        let Some(newest) = newest else { return Ok(timed.next(&firing, now)) };
        // Times due while the trigger was disabled are not caught up.
        let times = if timed.enabled { times } else { Vec::new() };
        // One poll is enough, however often it was due.
        let max_firings = if timed.is_polling() { 1 } else { usize::MAX };
        let skipped = times.len().saturating_sub(max_firings);
        if timed.enabled && missed + skipped > 0 && !timed.is_polling() {
            self.log(timed, None, TriggerLogOutcome::Missed { times: missed + skipped });
        }
        for due in times.iter().skip(skipped) {
            // Each firing may take a while: the trigger may have been disabled or rescheduled meanwhile.
            let Some(current) = reload_trigger(&self.app, timed)?.filter(|current| current.has_same_times(timed))
            else {
                return Ok(Some(now));
            };
            let fired = match timed.is_polling() {
                true => self.poll(&current, &firing, *due, now).await?,
                false => self.fire(&current, (*due, firing.clock_resets), current.input(), Value::Null).await?,
            };
            (firing.not_before, firing.poll_at) = (None, None);
            self.record_result(&current, &mut firing, *due, fired);
            // Stored after each firing, so that recovery after a crash begins with the first unrecorded one.
            firing.due = Some(*due);
            self.store_progress_and_forget_reply(timed, &firing).await?;
        }
        if firing.due != Some(newest) {
            (firing.not_before, firing.poll_at) = (None, None);
            firing.due = Some(newest);
            self.store_progress(timed, &firing).await?;
        }
        Ok(timed.next(&firing, now))
    }

    /// Stores the progress on a thread that may wait for the write lock.
    async fn store_progress(&self, timed: &TimedTrigger, firing: &TriggerProgress) -> Result<(), RuntimeError> {
        let firing = firing.clone();
        self.write_store(timed, move |store, name, trigger| settings::store_progress(store, name, trigger, &firing))
            .await
    }

    /// Stores the progress and deletes the stored reply that led to it, in one transaction.
    async fn store_progress_and_forget_reply(
        &self,
        timed: &TimedTrigger,
        firing: &TriggerProgress,
    ) -> Result<(), RuntimeError> {
        let firing = firing.clone();
        self.write_store(timed, move |store, name, trigger| {
            settings::store_progress_and_forget_reply(store, name, trigger, &firing)
        })
        .await
    }

    async fn write_store(
        &self,
        timed: &TimedTrigger,
        write: impl FnOnce(&dyn Store, &str, &str) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), RuntimeError> {
        let (store, name, trigger) = (self.app.store.clone(), timed.definition.name.clone(), timed.trigger.clone());
        let written = tokio::task::spawn_blocking(move || write(&*store, &name, &trigger));
        Ok(written.await.map_err(|_| RuntimeError::Closing)??)
    }

    fn record_result(&self, timed: &TimedTrigger, firing: &mut TriggerProgress, due: Timestamp, fired: FiringResult) {
        let count =
            |outcome| self.app.metrics.record_firing(if timed.is_polling() { "http" } else { "schedule" }, outcome);
        match fired {
            FiringResult::Started { runs, waiting } => {
                count("started");
                (firing.last_at, firing.last_error) = (Some(due), None);
                self.log(timed, Some(due), TriggerLogOutcome::Fired { runs, waiting });
            }
            FiringResult::Repeated(run) => {
                (firing.last_at, firing.last_error) = (Some(due), None);
                self.log(timed, Some(due), TriggerLogOutcome::Repeated { run });
            }
            FiringResult::Skipped(why) => {
                count("skipped");
                firing.skipped = Some((due, why.clone()));
                self.log(timed, Some(due), TriggerLogOutcome::Skipped { reason: why });
            }
            FiringResult::Later { not_before, at } => (firing.not_before, firing.poll_at) = (not_before, at),
            FiringResult::Failed(why) => {
                count("failed");
                firing.last_error = Some(why.clone());
                self.log(timed, Some(due), TriggerLogOutcome::Failed { reason: why });
            }
        }
    }

    fn log(&self, timed: &TimedTrigger, due: Option<Timestamp>, what: TriggerLogOutcome) {
        let (definition, trigger) = (timed.definition.name.to_string(), timed.trigger.to_string());
        TriggerLogEntry { definition, trigger, kind: timed.kind.to_string(), outcome: what, due }.log();
    }

    async fn poll(
        &self,
        timed: &TimedTrigger,
        firing: &TriggerProgress,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<FiringResult, RuntimeError> {
        // Checked first: a reply would be lost if nothing may start.
        if let Some(trigger) = &timed.definition_trigger
            && let Err(bounds) = queue::has_room(&self.app, &timed.definition.name, trigger).await?
        {
            return Ok(FiringResult::Skipped(bounds.limit_reached_message()));
        }
        let inputs = timed.definition_trigger.as_ref().and_then(|trigger| trigger.settings.get("inputs")).cloned();
        let inputs = inputs.unwrap_or_default();
        let limits = &self.app.options.limits;
        let poll =
            poll::send_poll(self.app.engine.tools(), &inputs, firing.poll_at.as_deref(), now, limits.max_poll_wait);
        let timeout = limits.max_poll_time;
        let timed_out = || {
            PollResult::Failed(format!(
                "there was no response within {timeout} (`server.max_poll_time` in windlass.toml)"
            ))
        };
        match tokio::time::timeout(timeout.to_std(), poll).await.unwrap_or_else(|_| timed_out()) {
            PollResult::Fires { body, trigger_metadata } => {
                // There may be a new version meanwhile, or the trigger may have been disabled.
                match reload_trigger(&self.app, timed)?.filter(|current| current.enabled) {
                    Some(current) => {
                        // Stored before anything is started, because the service sends a reply only once.
                        let answer = PollReply { due, body: body.clone(), trigger_metadata: trigger_metadata.clone() };
                        let keep = move |store: &dyn Store, name: &str, trigger: &str| {
                            settings::store_reply(store, name, trigger, &answer)
                        };
                        self.write_store(&current, keep).await?;
                        self.fire(&current, (due, firing.clock_resets), body, trigger_metadata).await
                    }
                    None => Ok(FiringResult::Skipped("it was disabled during the poll".to_owned())),
                }
            }
            PollResult::Later { not_before, at } => Ok(FiringResult::Later { not_before, at }),
            PollResult::Failed(why) => Ok(FiringResult::Failed(why)),
        }
    }

    /// Fires for a due time. The time is part of the delivery's name, so a repetition starts nothing twice.
    async fn fire(
        &self,
        timed: &TimedTrigger,
        (due, clock_resets): (Timestamp, u32),
        input: Value,
        trigger_metadata: Value,
    ) -> Result<FiringResult, RuntimeError> {
        let name = &timed.definition.name;
        let time = due.to_string().replace(".000Z", "Z").replace(['-', ':'], "");
        // After the clock was set back the same times come again.
        let again = if clock_resets > 0 { format!("r{clock_resets}") } else { String::new() };
        let delivery = format!("{}{time}{again}", delivery_prefix(name, &timed.trigger));
        let plan = timed.definition.current.plan();
        let started = match &timed.definition_trigger {
            Some(trigger) => {
                let ticket = match queue::admit(&self.app, name, trigger, &delivery).await? {
                    Ok(place) => place,
                    Err(bounds) => return Ok(FiringResult::Skipped(bounds.limit_reached_message())),
                };
                let held = ticket.is_limited();
                let options = TriggerOptions {
                    delivery: Some(delivery),
                    metadata: trigger_metadata,
                    held,
                    ..TriggerOptions::default()
                };
                match self.app.engine.trigger(plan, &trigger.name, input, options).await {
                    Ok(found) => {
                        let waiting = ticket.finish(&found.runs).await?;
                        Ok((found.runs, waiting))
                    }
                    Err(error) => {
                        ticket.finish_unknown().await?;
                        Err(error)
                    }
                }
            }
            None => {
                let options = RunStartOptions { id: Some(format!("{delivery}-0")), ..RunStartOptions::default() };
                self.app.engine.start(plan, input, options).await.map(|run| (vec![run], 0))
            }
        };
        match started {
            Ok((runs, _)) if runs.is_empty() => Ok(FiringResult::Skipped("its conditions do not hold".to_owned())),
            Ok((runs, waiting)) => match runs.iter().any(|run| run.created) {
                true => {
                    Ok(FiringResult::Started { runs: runs.iter().map(|run| run.run.to_string()).collect(), waiting })
                }
                false => Ok(FiringResult::Repeated(runs[0].run.to_string())),
            },
            // Another server was faster, or this one before a crash.
            Err(RuntimeError::Owned { run, .. }) => Ok(FiringResult::Repeated(run)),
            Err(error @ (RuntimeError::Store(_) | RuntimeError::Closing)) => Err(error),
            Err(error) => match existing_run(&error) {
                Some(run) => Ok(FiringResult::Repeated(run.to_owned())),
                None => Ok(FiringResult::Failed(error.to_string())),
            },
        }
    }
}
