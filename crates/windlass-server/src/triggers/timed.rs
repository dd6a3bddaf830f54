//! Triggers that fire by the clock, and their next times.

use std::sync::Arc;

use windlass_core::plan::Trigger;
use windlass_runtime::RuntimeError;
use windlass_store::StoreErrorKind;
use windlass_triggers::Schedule;
use windlass_value::{Duration, Timestamp, Value};

use super::settings::{self, CronSettings, StoredTriggerSettings, TriggerProgress};
use super::{CatchUp, POLLING_KIND, TIMED_KINDS, TriggerLogEntry, TriggerLogOutcome};
use crate::App;
use crate::catalog::Definition;

/// Maximum plausible clock difference in microseconds: a recorded time further in the future came from a wrong clock.
const MAX_CLOCK_SKEW: i64 = 5 * 60 * 1_000_000;

fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.0 > now.0.saturating_add(MAX_CLOCK_SKEW)
}

/// A trigger with a schedule.
pub(crate) struct TimedTrigger {
    pub definition: Arc<Definition>,
    pub trigger: Arc<str>,
    pub kind: Arc<str>,
    /// The trigger of the plan; None if only its settings define it.
    pub(super) definition_trigger: Option<Trigger>,
    pub schedule: Result<Schedule, String>,
    pub enabled: bool,
    pub catch_up: CatchUp,
    /// Times due before this are ignored.
    active_since: Timestamp,
    /// The schedule of its settings.
    cron: Option<CronSettings>,
}

impl TimedTrigger {
    /// Returns the time of the next firing, if any.
    pub(crate) fn next(&self, firing: &TriggerProgress, now: Timestamp) -> Option<Timestamp> {
        let schedule = self.schedule.as_ref().ok().filter(|_| self.enabled)?;
        // The polled service has requested the time of the next poll.
        firing.not_before.filter(|_| self.is_polling()).or_else(|| schedule.next(self.handled_until(firing, now)))
    }

    pub(super) fn is_polling(&self) -> bool {
        &*self.kind == POLLING_KIND
    }

    /// Returns the schedule as written.
    pub(crate) fn schedule_source(&self) -> Option<serde_json::Value> {
        match (&self.cron, &self.definition_trigger) {
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

    /// Returns the time up to which all firings are handled.
    pub(super) fn handled_until(&self, firing: &TriggerProgress, now: Timestamp) -> Timestamp {
        let plausible = |at: Timestamp| Some(at).filter(|at| !is_ahead(*at, now));
        firing.due.and_then(plausible).max(plausible(self.active_since)).unwrap_or(now)
    }

    /// Resets times recorded by a clock that was far ahead and has been corrected, so that the trigger counts from now
    /// on. New firings have new names, so nothing is started twice. Returns whether anything was reset.
    pub(super) fn reset_future_times(&self, firing: &mut TriggerProgress, now: Timestamp, max_wait: Duration) -> bool {
        let is_delayed = firing.not_before.is_some_and(|not_before| not_before > now + max_wait);
        if is_delayed {
            (firing.not_before, firing.poll_at) = (None, None);
        }
        let is_ahead_of_clock = firing.due.map_or(is_ahead(self.active_since, now), |due| is_ahead(due, now));
        if is_ahead_of_clock {
            firing.due = Some(now);
            firing.clock_resets = firing.clock_resets.saturating_add(1);
        }
        is_delayed || is_ahead_of_clock
    }

    /// Returns the input of its runs.
    pub(super) fn input(&self) -> Value {
        let written = self.definition_trigger.as_ref().and_then(|trigger| trigger.settings.get("input")).cloned();
        written.unwrap_or_else(|| Value::object::<&str, Value>([]))
    }

    /// Returns whether both have the same schedule, so that times computed for one apply to the other.
    pub(super) fn has_same_times(&self, other: &TimedTrigger) -> bool {
        self.enabled && self.active_since == other.active_since && self.schedule_source() == other.schedule_source()
    }
}

/// Returns all triggers that fire by the clock.
pub(crate) fn timed_triggers(app: &App) -> Result<Vec<TimedTrigger>, RuntimeError> {
    let mut found = Vec::new();
    for definition in app.definitions.all() {
        let known = found.len();
        match definition_triggers(app, &definition, &mut found) {
            // A damaged plan or damaged settings stop the triggers of their definition and no others.
            Err(error) if is_damage(&error) => {
                found.truncate(known);
                log_damage(&definition.name, &error);
            }
            done => done?,
        }
    }
    for (name, trigger, settings) in settings::added_schedules(&*app.store)? {
        found.extend(app.definitions.get(&name).and_then(|definition| added_trigger(definition, &trigger, &settings)));
    }
    Ok(found)
}

/// Returns the current version of a trigger.
pub(crate) fn reload_trigger(app: &App, one: &TimedTrigger) -> Result<Option<TimedTrigger>, RuntimeError> {
    let Some(definition) = app.definitions.get(&one.definition.name) else { return Ok(None) };
    if one.definition_trigger.is_none() {
        let settings: StoredTriggerSettings =
            settings::read(&*app.store, settings::TRIGGER, &definition.name, &one.trigger)?;
        return Ok(added_trigger(definition, &one.trigger, &settings));
    }
    let mut found = Vec::new();
    definition_triggers(app, &definition, &mut found)?;
    Ok(found.into_iter().find(|own| own.trigger == one.trigger))
}

fn is_damage(error: &RuntimeError) -> bool {
    matches!(error, RuntimeError::Store(error) if error.kind == StoreErrorKind::Damaged)
        || matches!(error, RuntimeError::Damaged { .. } | RuntimeError::MissingBlob(_) | RuntimeError::Plan(_))
}

fn log_damage(definition: &str, error: &RuntimeError) {
    let outcome = TriggerLogOutcome::Failed { reason: format!("it does not fire: {error}") };
    let (definition, trigger) = (definition.to_owned(), String::new());
    TriggerLogEntry { definition, trigger, kind: String::new(), outcome, due: None }.log();
}

/// Adds the triggers of the definition's own text.
fn definition_triggers(
    app: &App,
    definition: &Arc<Definition>,
    found: &mut Vec<TimedTrigger>,
) -> Result<(), RuntimeError> {
    let is_timed = |kind: &str| TIMED_KINDS.contains(&kind);
    if !definition.triggers.iter().any(|(_, kind)| is_timed(kind)) {
        return Ok(());
    }
    let program = app.engine.program(&definition.current.plan())?;
    for trigger in program.plan.triggers.iter().filter(|trigger| is_timed(&trigger.kind)) {
        let settings: StoredTriggerSettings =
            settings::read(&*app.store, settings::TRIGGER, &definition.name, &trigger.name)?;
        let begun = definition.trigger_start(&trigger.name);
        let Some(schedule) = Schedule::from_trigger(trigger, begun).transpose() else { continue };
        let written = trigger.settings.get("catchUp").and_then(Value::as_str).and_then(CatchUp::parse);
        let active_since = Some(begun).max(settings.since).max(definition.enabled_at);
        found.push(TimedTrigger {
            trigger: trigger.name.clone(),
            kind: trigger.kind.clone(),
            definition_trigger: Some(trigger.clone()),
            schedule: schedule.and_then(Schedule::if_ever_fires),
            enabled: definition.enabled && settings.enabled,
            catch_up: settings.catch_up.or(written).unwrap_or_default(),
            active_since: active_since.unwrap_or(begun),
            cron: None,
            definition: definition.clone(),
        });
    }
    Ok(())
}

/// Returns a trigger defined by settings.
fn added_trigger(definition: Arc<Definition>, trigger: &str, settings: &StoredTriggerSettings) -> Option<TimedTrigger> {
    let cron = settings.schedule.as_ref()?;
    // A schedule in the settings does not change with the versions of the definition.
    let active_since = settings.since.max(definition.enabled_at).unwrap_or(definition.current.registered_at);
    Some(TimedTrigger {
        trigger: trigger.into(),
        kind: "schedule".into(),
        definition_trigger: None,
        schedule: Schedule::cron(&cron.cron, cron.time_zone.as_deref()).and_then(Schedule::if_ever_fires),
        enabled: definition.enabled && settings.enabled,
        catch_up: settings.catch_up.unwrap_or_default(),
        active_since,
        cron: Some(cron.clone()),
        definition,
    })
}
