//! Which triggers fire by themselves, and when each does so next.

use std::sync::Arc;

use windlass_core::plan::Trigger;
use windlass_runtime::RuntimeError;
use windlass_triggers::Schedule;
use windlass_value::{Duration, Timestamp, Value};

use super::settings::{self, CronSettings, Firing, Settings};
use super::{ASKS, CatchUp, TIMED};
use crate::App;
use crate::catalog::Definition;

/// What was noted for a time this much later than now was noted by a clock that was wrong.
const MAX_CLOCK_SKEW: i64 = 5 * 60 * 1_000_000;

fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.0 > now.0.saturating_add(MAX_CLOCK_SKEW)
}

/// A trigger with a schedule.
pub(crate) struct Listening {
    pub definition: Arc<Definition>,
    pub trigger: Arc<str>,
    pub kind: Arc<str>,
    /// As the plan has it; None if only its settings say that it is there.
    pub(super) planned: Option<Trigger>,
    pub schedule: Result<Schedule, String>,
    pub enabled: bool,
    pub catch_up: CatchUp,
    /// What was due before is no concern of it.
    since: Timestamp,
    /// What its settings say.
    cron: Option<CronSettings>,
}

impl Listening {
    /// When it fires next, if it does.
    pub(crate) fn next(&self, firing: &Firing, now: Timestamp) -> Option<Timestamp> {
        let schedule = self.schedule.as_ref().ok().filter(|_| self.enabled)?;
        // Whoever was asked has said when to ask again.
        firing.not_before.filter(|_| self.asks()).or_else(|| schedule.next(self.last(firing, now)))
    }

    pub(super) fn asks(&self) -> bool {
        &*self.kind == ASKS
    }

    /// The schedule as it is written.
    pub(crate) fn written(&self) -> Option<serde_json::Value> {
        match (&self.cron, &self.planned) {
            (Some(cron), _) => serde_json::to_value(cron).ok(),
            (None, Some(planned)) => {
                let text = |name: &str| planned.settings.get(name).and_then(Value::as_str).map(str::to_owned);
                match text("cron") {
                    Some(cron) => serde_json::to_value(CronSettings { cron, time_zone: text("timeZone") }).ok(),
                    None => planned.settings.get("recurrence").and_then(|value| serde_json::to_value(value).ok()),
                }
            }
            (None, None) => None,
        }
    }

    /// Up to here everything is dealt with.
    pub(super) fn last(&self, firing: &Firing, now: Timestamp) -> Timestamp {
        let known = |at: Timestamp| Some(at).filter(|at| !is_ahead(*at, now));
        firing.due.and_then(known).max(known(self.since)).unwrap_or(now)
    }

    /// Forgets what a clock has noted that was far ahead, and is put right: from now on it counts from now. What comes has
    /// names of its own, so nothing is started twice. Gives whether there was anything to forget.
    pub(super) fn distrust(&self, firing: &mut Firing, now: Timestamp, max_wait: Duration) -> bool {
        let late = firing.not_before.is_some_and(|not_before| not_before > now + max_wait);
        if late {
            (firing.not_before, firing.ask_at) = (None, None);
        }
        let ahead = firing.due.map_or(is_ahead(self.since, now), |due| is_ahead(due, now));
        if ahead {
            firing.due = Some(now);
        }
        late || ahead
    }

    /// What its runs begin with.
    pub(super) fn input(&self) -> Value {
        let written = self.planned.as_ref().and_then(|trigger| trigger.settings.get("input")).cloned();
        written.unwrap_or_else(|| Value::object::<&str, Value>([]))
    }

    /// Whether times that were found for the one are times of the other.
    pub(super) fn has_times_of(&self, other: &Listening) -> bool {
        self.enabled && self.since == other.since && self.written() == other.written()
    }
}

/// All triggers that fire by themselves.
pub(crate) fn listening(app: &App) -> Result<Vec<Listening>, RuntimeError> {
    let mut found = Vec::new();
    for definition in app.definitions.all() {
        of_definition(app, &definition, &mut found)?;
    }
    for (name, trigger, settings) in settings::added(&*app.store)? {
        found.extend(app.definitions.get(&name).and_then(|definition| added(definition, &trigger, &settings)));
    }
    Ok(found)
}

/// The same trigger as it is now.
pub(crate) fn again(app: &App, one: &Listening) -> Result<Option<Listening>, RuntimeError> {
    let Some(definition) = app.definitions.get(&one.definition.name) else { return Ok(None) };
    if one.planned.is_none() {
        let settings: Settings = settings::read(&*app.store, settings::TRIGGER, &definition.name, &one.trigger)?;
        return Ok(added(definition, &one.trigger, &settings));
    }
    let mut found = Vec::new();
    of_definition(app, &definition, &mut found)?;
    Ok(found.into_iter().find(|own| own.trigger == one.trigger))
}

/// Those that its own text has.
fn of_definition(app: &App, definition: &Arc<Definition>, found: &mut Vec<Listening>) -> Result<(), RuntimeError> {
    let fires = |kind: &str| TIMED.contains(&kind);
    if !definition.triggers.iter().any(|(_, kind)| fires(kind)) {
        return Ok(());
    }
    let program = app.engine.program(&definition.current.plan())?;
    for trigger in program.plan.triggers.iter().filter(|trigger| fires(&trigger.kind)) {
        let settings: Settings = settings::read(&*app.store, settings::TRIGGER, &definition.name, &trigger.name)?;
        let begun = definition.since(&trigger.name);
        let Some(schedule) = Schedule::of(trigger, begun).transpose() else { continue };
        let written = trigger.settings.get("catchUp").and_then(Value::as_str).and_then(CatchUp::of);
        let stated = Some(begun).max(settings.since).max(definition.enabled_at);
        found.push(Listening {
            trigger: trigger.name.clone(),
            kind: trigger.kind.clone(),
            planned: Some(trigger.clone()),
            schedule: schedule.and_then(Schedule::coming),
            enabled: definition.enabled && settings.enabled,
            catch_up: settings.catch_up.or(written).unwrap_or_default(),
            since: stated.unwrap_or(begun),
            cron: None,
            definition: definition.clone(),
        });
    }
    Ok(())
}

/// One that its settings add.
fn added(definition: Arc<Definition>, trigger: &str, settings: &Settings) -> Option<Listening> {
    let cron = settings.schedule.as_ref()?;
    // A schedule beside the definition does not change with its versions.
    let stated = settings.since.max(definition.enabled_at).unwrap_or(definition.current.registered_at);
    Some(Listening {
        trigger: trigger.into(),
        kind: "schedule".into(),
        planned: None,
        schedule: Schedule::cron(&cron.cron, cron.time_zone.as_deref()).and_then(Schedule::coming),
        enabled: definition.enabled && settings.enabled,
        catch_up: settings.catch_up.unwrap_or_default(),
        since: stated,
        cron: Some(cron.clone()),
        definition,
    })
}
