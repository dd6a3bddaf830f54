//! Looks at all schedules and fires what is due. The time is given: trials give any they like.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use windlass_core::plan::Trigger;
use windlass_runtime::{RuntimeError, StartOptions, TriggerOptions, real_now};
use windlass_value::{Timestamp, Value};

use super::catch_up::{self, CatchUp};
use super::poll::{self, Asked};
use super::schedule::Schedule;
use super::settings::{self, CronSettings, Firing, Settings};
use super::{is_full, prefix, was_made};
use crate::App;
use crate::catalog::Definition;

/// Schedules that another server has changed are seen this late at most.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Triggers that ask somebody at the same time. The others wait for the next look.
const ASKING_MAX: usize = 16;

/// How long somebody may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

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

/// A trigger with a schedule.
pub struct Listening {
    pub definition: Arc<Definition>,
    pub trigger: Arc<str>,
    pub kind: Arc<str>,
    /// As the plan has it; None if only its settings say that it is there.
    planned: Option<Trigger>,
    pub schedule: Result<Schedule, String>,
    pub enabled: bool,
    pub catch_up: CatchUp,
    /// When an administrator last turned it on or set its schedule.
    since: Option<Timestamp>,
    /// What its settings say.
    cron: Option<CronSettings>,
}

impl Listening {
    /// When it fires next, if it does.
    pub fn next(&self, firing: &Firing) -> Option<Timestamp> {
        let schedule = self.schedule.as_ref().ok().filter(|_| self.enabled)?;
        let next = schedule.next(self.last(firing))?;
        Some(firing.not_before.map_or(next, |not_before| next.max(not_before)))
    }

    /// The schedule as it is written.
    pub fn written(&self) -> Option<serde_json::Value> {
        match &self.cron {
            Some(cron) => serde_json::to_value(cron).ok(),
            None => {
                self.planned.as_ref()?.settings.get("recurrence").and_then(|value| serde_json::to_value(value).ok())
            }
        }
    }

    fn last(&self, firing: &Firing) -> Timestamp {
        // What the definition says holds from this version on; a schedule beside it does not change with the versions.
        let registered = self.definition.current.registered_at;
        let stated = self.planned.as_ref().map(|_| registered).max(self.since).max(self.definition.enabled_at);
        firing.due.max(stated).unwrap_or(registered)
    }
}

/// All triggers that fire by themselves.
pub fn listening(app: &App) -> Result<Vec<Listening>, RuntimeError> {
    let mut found = Vec::new();
    for definition in app.definitions.all() {
        let fires = |kind: &str| matches!(kind, "recurrence" | "http");
        if !definition.triggers.iter().any(|(_, kind)| fires(kind)) {
            continue;
        }
        let program = app.engine.program(&definition.current.plan())?;
        for trigger in program.plan.triggers.iter().filter(|trigger| fires(&trigger.kind)) {
            let settings: Settings = settings::read(&*app.store, settings::TRIGGER, &definition.name, &trigger.name)?;
            let Some(schedule) = Schedule::of(trigger, definition.current.registered_at).transpose() else { continue };
            let schedule = schedule.and_then(Schedule::coming);
            found.push(Listening {
                trigger: trigger.name.clone(),
                kind: trigger.kind.clone(),
                planned: Some(trigger.clone()),
                schedule,
                enabled: definition.enabled && settings.enabled,
                catch_up: settings.catch_up,
                since: settings.since,
                cron: None,
                definition: definition.clone(),
            });
        }
    }
    for (name, trigger, settings) in settings::added(&*app.store)? {
        let (Some(definition), Some(cron)) = (app.definitions.get(&name), &settings.schedule) else { continue };
        found.push(Listening {
            trigger: trigger.into(),
            kind: "schedule".into(),
            planned: None,
            schedule: Schedule::cron(&cron.cron, cron.time_zone.as_deref()).and_then(Schedule::coming),
            enabled: definition.enabled && settings.enabled,
            catch_up: settings.catch_up,
            since: settings.since,
            cron: settings.schedule.clone(),
            definition,
        });
    }
    Ok(found)
}

/// What became of a time that was due.
enum Fired {
    Started,
    /// As many runs as there may be are under way, or there was nothing to start.
    Skipped,
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
    pub async fn run(self) {
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
        // What cannot be read now is looked at again soon.
        let listening = listening(&self.app).unwrap_or_default();
        let mut next: Option<Timestamp> = None;
        for one in listening {
            // Whoever is slow to answer keeps nobody else waiting.
            if &*one.kind == "http" && self.is_due(&one, now) {
                self.look_apart(one, now);
                continue;
            }
            let due = self.look(&one, now).await.unwrap_or_default();
            next = next.into_iter().chain(due).min();
        }
        next
    }

    fn is_due(&self, one: &Listening, now: Timestamp) -> bool {
        let firing = settings::read(&*self.app.store, settings::FIRING, &one.definition.name, &one.trigger);
        firing.is_ok_and(|firing| one.next(&firing).is_some_and(|next| next <= now))
    }

    /// In a task of its own, unless it is at it already or too many others are.
    fn look_apart(&self, one: Listening, now: Timestamp) {
        let who = (one.definition.name.clone(), one.trigger.clone());
        {
            let mut asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
            if asking.len() >= ASKING_MAX || !asking.insert(who.clone()) {
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
            drop(asking);
            // What could not be noted is asked again at the next look.
            if looked.is_ok() {
                app.definitions.wake();
            }
        });
    }

    async fn look(&self, one: &Listening, now: Timestamp) -> Result<Option<Timestamp>, RuntimeError> {
        let Ok(schedule) = &one.schedule else { return Ok(None) };
        let name = &one.definition.name;
        let mut firing: Firing = settings::read(&*self.app.store, settings::FIRING, name, &one.trigger)?;
        if firing.not_before.is_some_and(|not_before| not_before > now) {
            return Ok(firing.not_before);
        }
        let (times, newest) = catch_up::due(schedule, one.last(&firing), now, one.catch_up);
        let Some(newest) = newest else { return Ok(one.next(&firing)) };
        // What was due while it was turned off is not made up for.
        let times = if one.enabled { times } else { Vec::new() };
        // Asking once is enough, however often it was due.
        let asks = &*one.kind == "http";
        for due in times.iter().rev().take(if asks { 1 } else { usize::MAX }).rev() {
            let fired = if asks {
                self.ask(one, &firing, *due, now).await?
            } else {
                self.fire(one, *due, nothing(), Value::Null).await?
            };
            let kind = if asks { "http" } else { "schedule" };
            (firing.not_before, firing.ask_at) = (None, None);
            match fired {
                Fired::Started => {
                    self.app.metrics.fired(kind, "started");
                    (firing.last_at, firing.last_error) = (Some(*due), None);
                }
                Fired::Skipped => self.app.metrics.fired(kind, "skipped"),
                Fired::Later { not_before, at } => (firing.not_before, firing.ask_at) = (not_before, at),
                Fired::Failed(why) => {
                    self.app.metrics.fired(kind, "failed");
                    firing.last_error = Some(why);
                }
            }
            // After each: whoever goes on after a crash begins with the one that was not noted.
            firing.due = Some(*due);
            settings::note(&*self.app.store, name, &one.trigger, &firing)?;
        }
        if firing.due != Some(newest) {
            firing.due = Some(newest);
            settings::note(&*self.app.store, name, &one.trigger, &firing)?;
        }
        Ok(one.next(&firing))
    }

    async fn ask(
        &self,
        one: &Listening,
        firing: &Firing,
        due: Timestamp,
        now: Timestamp,
    ) -> Result<Fired, RuntimeError> {
        let inputs = one.planned.as_ref().and_then(|trigger| trigger.settings.get("inputs")).cloned();
        let inputs = inputs.unwrap_or_default();
        let asked = poll::ask(self.app.engine.tools(), &inputs, firing.ask_at.as_deref(), now);
        let late = || Asked::Failed(format!("there was no answer within {} s", ANSWERS_WITHIN.as_secs()));
        match tokio::time::timeout(ANSWERS_WITHIN, asked).await.unwrap_or_else(|_| late()) {
            Asked::Fires { body, beside } => self.fire(one, due, body, beside).await,
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
                if is_full(&*self.app.store, name, trigger, Some(&delivery))? {
                    return Ok(Fired::Skipped);
                }
                let options = TriggerOptions { delivery: Some(delivery), beside, ..TriggerOptions::default() };
                self.app.engine.trigger(plan, &trigger.name, input, options).await.map(|found| found.runs.len())
            }
            None => {
                let options = StartOptions { id: Some(format!("{delivery}-0")), ..StartOptions::default() };
                self.app.engine.start(plan, input, options).await.map(|_| 1)
            }
        };
        match started {
            Ok(0) => Ok(Fired::Skipped),
            Ok(_) => Ok(Fired::Started),
            // Another server was faster, or this one before it crashed.
            Err(error) if was_made(&error).is_some() => Ok(Fired::Started),
            Err(RuntimeError::Owned { .. }) => Ok(Fired::Started),
            Err(error @ (RuntimeError::Store(_) | RuntimeError::Closing)) => Err(error),
            Err(error) => Ok(Fired::Failed(error.to_string())),
        }
    }
}

/// What a schedule delivers.
fn nothing() -> Value {
    Value::object::<&str, Value>([])
}
