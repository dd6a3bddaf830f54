//! Looks at all schedules and fires what is due. The time is given: trials give any they like.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_runtime::{RuntimeError, StartOptions, TriggerOptions, real_now};
use windlass_store::{Store, StoreError};
use windlass_value::{Timestamp, Value};

use super::catch_up::{self, Due};
use super::listening::{Listening, again, listening};
use super::poll::{self, Asked};
use super::settings::{self, Answer, Firing};
use super::{TriggerLogEntry, TriggerLogOutcome, prefix, queue, existing_run};
use crate::App;

/// Schedules that another server has changed are seen this late at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Triggers, by their definition and their name.
type Askers = BTreeSet<(Arc<str>, Arc<str>)>;

#[derive(Clone)]
pub struct Scheduler {
    app: App,
    /// Those that ask just now, by their definitions and names.
    asking: Arc<Mutex<Askers>>,
}

/// One that asks. Dropped, it does no longer.
struct Asking {
    scheduler: Scheduler,
    who: (Arc<str>, Arc<str>),
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.scheduler.asking.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.who);
    }
}

/// What became of a time that was due.
enum Fired {
    Started {
        runs: Vec<String>,
        waiting: usize,
    },
    /// It was dealt with before.
    Repeated(String),
    /// As many runs as there may be are there, or there was nothing to start.
    Skipped(String),
    /// It cannot be: tried again, it would not be either.
    Failed(String),
    Later {
        not_before: Option<Timestamp>,
        at: Option<String>,
    },
}

impl Scheduler {
    pub fn new(app: App) -> Scheduler {
        Scheduler { app, asking: Arc::default() }
    }

    /// Until the server stops.
    pub(crate) async fn run(self) {
        let mut draining = self.app.draining();
        let mut changes = self.app.definitions.changes();
        loop {
            let now = real_now();
            let next = self.step(now).await;
            let wait = next.map_or(LOOK_EVERY, |next| Duration::from_micros(next.since(now).0).min(LOOK_EVERY));
            tokio::select! {
                _ = draining.wait_for(|draining| *draining) => return,
                _ = changes.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Fires all that is due at this time; gives the next time at which something is.
    pub async fn step(&self, now: Timestamp) -> Option<Timestamp> {
        if let Err(error) = queue::admit_all(&self.app).await {
            self.trouble("", "", &error);
        }
        // What cannot be read now is looked at again soon.
        let listening = listening(&self.app).unwrap_or_else(|error| {
            self.trouble("", "", &error);
            Vec::new()
        });
        let mut next: Option<Timestamp> = None;
        let mut askers: Vec<(Timestamp, Listening)> = Vec::new();
        for one in listening {
            // Whoever is slow to answer keeps nobody else waiting.
            if let Some(due) = self.asks_since(&one, now) {
                askers.push((due, one));
                continue;
            }
            let due = self.look(&one, now).await.unwrap_or_else(|error| {
                self.trouble(&one.definition.name, &one.trigger, &error);
                None
            });
            next = next.into_iter().chain(due).min();
        }
        // There is room for some: those who have waited longest come first, or the slow ones would keep it for ever.
        askers.sort_by_key(|(due, _)| *due);
        askers.into_iter().for_each(|(_, one)| self.look_apart(one, now));
        next
    }

    fn trouble(&self, definition: &str, trigger: &str, error: &RuntimeError) {
        let what = TriggerLogOutcome::Failed { why: format!("it is tried again soon: {error}") };
        let (definition, trigger) = (definition.to_owned(), trigger.to_owned());
        TriggerLogEntry { definition, trigger, kind: String::new(), outcome: what, due: None }.log();
    }

    /// Since when one that asks is to do so, if it is.
    fn asks_since(&self, one: &Listening, now: Timestamp) -> Option<Timestamp> {
        if !one.asks() {
            return None;
        }
        let firing = settings::read(&*self.app.store, settings::FIRING, &one.definition.name, &one.trigger);
        firing.ok().and_then(|firing| one.next(&firing, now)).filter(|next| *next <= now)
    }

    /// In a task of its own, unless it is at it already or too many others are.
    fn look_apart(&self, one: Listening, now: Timestamp) {
        let who = (one.definition.name.clone(), one.trigger.clone());
        {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if asking.len() >= self.app.options.limits.max_poll_concurrency || !asking.insert(who.clone()) {
                return;
            }
        }
        let asking = Asking { scheduler: self.clone(), who };
        tokio::spawn(async move {
            let app = asking.scheduler.app.clone();
            let mut draining = app.draining();
            let looked = tokio::select! {
                _ = draining.wait_for(|draining| *draining) => return,
                looked = asking.scheduler.look(&one, now) => looked,
            };
            // What could not be noted is asked again at the next look.
            match looked {
                Ok(_) => {
                    drop(asking);
                    app.definitions.wake();
                }
                Err(error) => asking.scheduler.trouble(&one.definition.name, &one.trigger, &error),
            }
        });
    }

    async fn look(&self, one: &Listening, now: Timestamp) -> Result<Option<Timestamp>, RuntimeError> {
        let Ok(schedule) = &one.schedule else { return Ok(None) };
        let name = &one.definition.name;
        let mut firing: Firing = settings::read(&*self.app.store, settings::FIRING, name, &one.trigger)?;
        if one.distrust(&mut firing, now, self.app.options.limits.max_poll_wait) {
            self.keep(one, &firing).await?;
        }
        if one.asks()
            && let Some(Answer { due, body, beside }) = settings::kept_answer(&*self.app.store, name, &one.trigger)?
        {
            // A stop or a crash came before all its runs were made. Nobody says it again.
            let fired = self.fire(one, due, body, beside).await?;
            self.note(one, &mut firing, due, fired);
            (firing.not_before, firing.ask_at) = (None, None);
            firing.due = firing.due.max(Some(due));
            self.settle(one, &firing).await?;
        }
        let Due { times, newest, missed } = match firing.not_before.filter(|_| one.asks()) {
            Some(at) if at > now => return Ok(one.next(&firing, now)),
            // Whoever was asked wants to be asked now, whatever the schedule says.
            Some(at) => Due { times: vec![at], newest: Some(at), missed: 0 },
            None => catch_up::due(schedule, one.last(&firing, now), now, one.catch_up, &self.app.options.limits),
        };
        let Some(newest) = newest else { return Ok(one.next(&firing, now)) };
        // What was due while it was turned off is not made up for.
        let times = if one.enabled { times } else { Vec::new() };
        // Asking once is enough, however often it was due.
        let max_firings = if one.asks() { 1 } else { usize::MAX };
        let skipped = times.len().saturating_sub(max_firings);
        if one.enabled && missed + skipped > 0 && !one.asks() {
            self.tell(one, None, TriggerLogOutcome::Missed { times: missed + skipped });
        }
        for due in times.iter().skip(skipped) {
            // Each may take a while: somebody may have turned it off, or have set another schedule.
            let Some(current) = again(&self.app, one)?.filter(|current| current.has_times_of(one)) else {
                return Ok(Some(now));
            };
            let fired = match one.asks() {
                true => self.ask(&current, &firing, *due, now).await?,
                false => self.fire(&current, *due, current.input(), Value::Null).await?,
            };
            (firing.not_before, firing.ask_at) = (None, None);
            self.note(&current, &mut firing, *due, fired);
            // After each: whoever goes on after a crash begins with the one that was not noted.
            firing.due = Some(*due);
            self.settle(one, &firing).await?;
        }
        if firing.due != Some(newest) {
            (firing.not_before, firing.ask_at) = (None, None);
            firing.due = Some(newest);
            self.keep(one, &firing).await?;
        }
        Ok(one.next(&firing, now))
    }

    /// On a thread that may wait for its turn to write.
    async fn keep(&self, one: &Listening, firing: &Firing) -> Result<(), RuntimeError> {
        let firing = firing.clone();
        self.at_store(one, move |store, name, trigger| settings::note(store, name, trigger, &firing)).await
    }

    /// The same, in one with forgetting the answer that led to it.
    async fn settle(&self, one: &Listening, firing: &Firing) -> Result<(), RuntimeError> {
        let firing = firing.clone();
        self.at_store(one, move |store, name, trigger| settings::settle(store, name, trigger, &firing)).await
    }

    async fn at_store(
        &self,
        one: &Listening,
        write: impl FnOnce(&dyn Store, &str, &str) -> Result<(), StoreError> + Send + 'static,
    ) -> Result<(), RuntimeError> {
        let (store, name, trigger) = (self.app.store.clone(), one.definition.name.clone(), one.trigger.clone());
        let written = tokio::task::spawn_blocking(move || write(&*store, &name, &trigger));
        Ok(written.await.map_err(|_| RuntimeError::Closing)??)
    }

    fn note(&self, one: &Listening, firing: &mut Firing, due: Timestamp, fired: Fired) {
        let count = |outcome| self.app.metrics.record_firing(if one.asks() { "http" } else { "schedule" }, outcome);
        match fired {
            Fired::Started { runs, waiting } => {
                count("started");
                (firing.last_at, firing.last_error) = (Some(due), None);
                self.tell(one, Some(due), TriggerLogOutcome::Fired { runs, waiting });
            }
            Fired::Repeated(run) => {
                (firing.last_at, firing.last_error) = (Some(due), None);
                self.tell(one, Some(due), TriggerLogOutcome::Repeated { run });
            }
            Fired::Skipped(why) => {
                count("skipped");
                firing.skipped = Some((due, why.clone()));
                self.tell(one, Some(due), TriggerLogOutcome::Skipped { why });
            }
            Fired::Later { not_before, at } => (firing.not_before, firing.ask_at) = (not_before, at),
            Fired::Failed(why) => {
                count("failed");
                firing.last_error = Some(why.clone());
                self.tell(one, Some(due), TriggerLogOutcome::Failed { why });
            }
        }
    }

    fn tell(&self, one: &Listening, due: Option<Timestamp>, what: TriggerLogOutcome) {
        let (definition, trigger) = (one.definition.name.to_string(), one.trigger.to_string());
        TriggerLogEntry { definition, trigger, kind: one.kind.to_string(), outcome: what, due }.log();
    }

    async fn ask(
        &self,
        one: &Listening,
        firing: &Firing,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<Fired, RuntimeError> {
        // What is answered would be lost, if nothing may start.
        if let Some(trigger) = &one.planned
            && let Err(bounds) = queue::has_room(&self.app, &one.definition.name, trigger).await?
        {
            return Ok(Fired::Skipped(bounds.limit_reached_message()));
        }
        let inputs = one.planned.as_ref().and_then(|trigger| trigger.settings.get("inputs")).cloned();
        let inputs = inputs.unwrap_or_default();
        let limits = &self.app.options.limits;
        let asked = poll::ask(self.app.engine.tools(), &inputs, firing.ask_at.as_deref(), now, limits.max_poll_wait);
        let within = limits.max_poll_time;
        let late =
            || Asked::Failed(format!("there was no answer within {within} (`server.max_poll_time` in windlass.toml)"));
        match tokio::time::timeout(within.to_std(), asked).await.unwrap_or_else(|_| late()) {
            Asked::Fires { body, beside } => {
                // Meanwhile there may be another version; and somebody may have turned it off.
                match again(&self.app, one)?.filter(|current| current.enabled) {
                    Some(current) => {
                        // Before anything comes of it: whoever was asked says it once.
                        let answer = Answer { due, body: body.clone(), beside: beside.clone() };
                        let keep = move |store: &dyn Store, name: &str, trigger: &str| {
                            settings::keep_answer(store, name, trigger, &answer)
                        };
                        self.at_store(&current, keep).await?;
                        self.fire(&current, due, body, beside).await
                    }
                    None => Ok(Fired::Skipped("it was turned off while it asked".to_owned())),
                }
            }
            Asked::Later { not_before, at } => Ok(Fired::Later { not_before, at }),
            Asked::Failed(why) => Ok(Fired::Failed(why)),
        }
    }

    /// Named by the time that was due: made twice, it starts nothing twice.
    async fn fire(&self, one: &Listening, due: Timestamp, input: Value, beside: Value) -> Result<Fired, RuntimeError> {
        let name = &one.definition.name;
        let time = due.to_string().replace(".000Z", "Z").replace(['-', ':'], "");
        let delivery = format!("{}{time}", prefix(name, &one.trigger));
        let plan = one.definition.current.plan();
        let started = match &one.planned {
            Some(trigger) => {
                let ticket = match queue::admit(&self.app, name, trigger, &delivery).await? {
                    Ok(place) => place,
                    Err(bounds) => return Ok(Fired::Skipped(bounds.limit_reached_message())),
                };
                let held = ticket.is_limited();
                let options = TriggerOptions { delivery: Some(delivery), beside, held, ..TriggerOptions::default() };
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
                let options = StartOptions { id: Some(format!("{delivery}-0")), ..StartOptions::default() };
                self.app.engine.start(plan, input, options).await.map(|run| (vec![run], 0))
            }
        };
        match started {
            Ok((runs, _)) if runs.is_empty() => Ok(Fired::Skipped("its conditions let nothing start".to_owned())),
            Ok((runs, waiting)) => match runs.iter().any(|run| run.created) {
                true => Ok(Fired::Started { runs: runs.iter().map(|run| run.run.to_string()).collect(), waiting }),
                false => Ok(Fired::Repeated(runs[0].run.to_string())),
            },
            // Another server was faster, or this one before it crashed.
            Err(RuntimeError::Owned { run, .. }) => Ok(Fired::Repeated(run)),
            Err(error @ (RuntimeError::Store(_) | RuntimeError::Closing)) => Err(error),
            Err(error) => match existing_run(&error) {
                Some(run) => Ok(Fired::Repeated(run.to_owned())),
                None => Ok(Fired::Failed(error.to_string())),
            },
        }
    }
}
