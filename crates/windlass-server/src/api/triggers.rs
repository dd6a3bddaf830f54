//! Triggers and their settings.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Deserializer, Serialize};
use windlass_core::plan::Trigger;
use windlass_runtime::real_now;
use windlass_triggers::Schedule;
use windlass_triggers::schedule::{NEVER_FIRES, zone_problem};

use super::extract::{self, DefinitionName, path_parameter};
use crate::auth::{Admin, Allowed, Read, Selecting};
use crate::problem::codes;
use crate::triggers::SignatureScheme;
use crate::triggers::hooks::missing_secret_reason;
use crate::triggers::settings::{self, CronSettings, StoredTriggerSettings, TriggerProgress};
use crate::triggers::{CatchUp, is_called, queue, timed_triggers};
use crate::{ApiProblem, App};

/// A trigger of a registered definition, with its state.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TriggerFacts {
    /// Name of the definition.
    definition: String,
    /// The current version of the definition.
    version: u64,
    /// The name of the trigger.
    trigger: String,
    /// The dialect's name of the trigger: `request`, `recurrence`.
    kind: String,
    /// The path of the webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Authentication of callers: `signature`, `token` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'static str>,
    /// The signature scheme.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<SignatureScheme>,
    /// As in the definition, or `{cron, time_zone}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    schedule: Option<serde_json::Value>,
    /// Handling of missed firings.
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CatchUp>,
    /// RFC 3339
    #[serde(skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
    /// Time of the last start, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_at: Option<String>,
    /// The reason why it cannot fire, or why its last firing failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    /// Time when it was last due and started nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped_at: Option<String>,
    /// The reason why it started nothing then.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    /// Numbers of its runs in flight and waiting for admission, if the definition has a concurrency limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight: Option<usize>,
    /// Number of its runs that wait for admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<usize>,
    /// Whether it may start runs.
    enabled: bool,
}

/// All triggers.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TriggerList {
    /// The webhooks of all definitions, then the triggers with a schedule.
    items: Vec<TriggerFacts>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// Changes of a trigger's settings. A missing field stays as it is.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TriggerSettings {
    /// `env:NAME`, or the alias of a credential: never the secret itself. An empty text removes it.
    #[serde(default)]
    secret: Option<String>,
    /// The signature scheme: `standard` (the default), `github` or `windlass`. Other signatures are ignored.
    #[serde(default)]
    scheme: Option<SignatureScheme>,
    /// Accept calls without authentication.
    #[serde(default)]
    insecure: Option<bool>,
    /// Whether it may start runs.
    #[serde(default)]
    enabled: Option<bool>,
    /// Handling of missed firings: `none`, `last` or `all`.
    #[serde(default)]
    catch_up: Option<CatchUp>,
    /// A schedule for the definition, whatever its dialect. `null` removes it.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<CronSettings>)]
    schedule: Option<Option<CronSettings>>,
}

/// Distinguishes an explicit null from a missing field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<CronSettings>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Lists all triggers of all definitions.
#[utoipa::path(get, path = "/api/v1/triggers", tag = "triggers", 
    responses((status = 200, body = TriggerList, description = "all triggers")))]
pub(crate) async fn list(selecting: Selecting<Read>, State(app): State<App>) -> Result<Json<TriggerList>, ApiProblem> {
    let mut items = app.read_store(trigger_facts).await?;
    items.retain(|facts| selecting.identity.is_for(&facts.definition));
    Ok(Json(TriggerList { items, next: None }))
}

fn trigger_facts(app: &App) -> Result<Vec<TriggerFacts>, ApiProblem> {
    let mut items = Vec::new();
    for definition in app.definitions.all() {
        for (trigger, kind) in definition.triggers.iter().filter(|(_, kind)| is_called(kind)) {
            let settings: StoredTriggerSettings =
                settings::read(&*app.store, settings::TRIGGER, &definition.name, trigger)?;
            items.push(TriggerFacts {
                definition: definition.name.to_string(),
                version: definition.current.version,
                trigger: trigger.to_string(),
                kind: kind.to_string(),
                url: Some(format!("/hooks/{}/{}", percent_encode(&definition.name), percent_encode(trigger))),
                proof: Some(proof_kind(&settings)),
                scheme: settings.secret.as_ref().map(|_| settings.scheme),
                schedule: None,
                catch_up: None,
                next_at: None,
                last_at: None,
                last_error: missing_secret_reason(&app.credentials, &settings),
                skipped_at: None,
                skipped: None,
                in_flight: None,
                waiting: None,
                enabled: definition.enabled && settings.enabled,
            });
        }
    }
    let now = real_now();
    for one in timed_triggers(app)? {
        let firing: TriggerProgress =
            settings::read(&*app.store, settings::FIRING, &one.definition.name, &one.trigger)?;
        items.push(TriggerFacts {
            definition: one.definition.name.to_string(),
            version: one.definition.current.version,
            trigger: one.trigger.to_string(),
            kind: one.kind.to_string(),
            url: None,
            proof: None,
            scheme: None,
            schedule: one.schedule_source(),
            catch_up: Some(one.catch_up),
            next_at: one.next(&firing, now).map(|at| at.to_string()),
            last_at: firing.last_at.map(|at| at.to_string()),
            last_error: one.schedule.as_ref().err().cloned().or(firing.last_error),
            skipped_at: firing.skipped.as_ref().map(|(at, _)| at.to_string()),
            skipped: firing.skipped.map(|(_, why)| why),
            in_flight: None,
            waiting: None,
            enabled: one.enabled,
        });
    }
    for facts in &mut items {
        let Some(definition) = app.definitions.get(&facts.definition) else { continue };
        let program = app.engine.program(&definition.current.plan())?;
        let own = program.plan.triggers.iter().find(|own| *own.name == *facts.trigger);
        let load = own.map(|own| queue::load(app, &definition.name, own)).transpose()?.flatten();
        facts.in_flight = load.map(|load| load.in_flight);
        facts.waiting = load.map(|load| load.waiting);
    }
    items.sort_by(|one, other| (&one.definition, &one.trigger).cmp(&(&other.definition, &other.trigger)));
    Ok(items)
}

fn proof_kind(settings: &StoredTriggerSettings) -> &'static str {
    match (settings.secret.is_some(), settings.insecure) {
        (true, _) => "signature",
        (false, true) => "none",
        (false, false) => "token",
    }
}

/// Percent-encodes everything that is not allowed in a path segment.
fn percent_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// `{trigger}` of the path.
pub(crate) struct TriggerParam(String);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for TriggerParam {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<TriggerParam, ApiProblem> {
        let name = path_parameter(parts, state, "trigger").await?;
        match extract::is_path_segment(&name) {
            true => Ok(TriggerParam(name)),
            false => {
                let detail = "this cannot be the name of a trigger";
                let problem = ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail);
                Err(problem.hint(extract::NAME_RULES))
            }
        }
    }
}

/// Changes the authentication, state and catch-up rule of a trigger. Omitted fields stay unchanged.
#[utoipa::path(
    put,
    path = "/api/v1/definitions/{name}/triggers/{trigger}",
    tag = "triggers",
    params(("name" = String, Path), ("trigger" = String, Path)),
    request_body = TriggerSettings,
    responses(
        (status = 200, body = TriggerFacts, description = "the trigger with its new settings"),
        (status = 204, description = "the schedule has been removed"),
        (status = 404, body = ApiProblem, description = "there is no such definition or trigger"),
        (status = 422, body = ApiProblem, description = "the settings are invalid for this trigger")
    )
)]
pub(crate) async fn change(
    _: Allowed<Admin>,
    State(app): State<App>,
    DefinitionName(name): DefinitionName,
    TriggerParam(trigger): TriggerParam,
    extract::Json(request): extract::Json<TriggerSettings>,
) -> Result<Response, ApiProblem> {
    app.write_store(move |app| apply_settings(app, &name, &trigger, &request)).await
}

/// Applies the settings. Blocking: reads and writes.
fn apply_settings(app: &App, name: &str, trigger: &str, request: &TriggerSettings) -> Result<Response, ApiProblem> {
    let missing = |detail: String| ApiProblem::not_found(detail).hint("GET /api/v1/triggers lists them");
    let definition = app.definitions.get(name).ok_or_else(|| {
        let problem = ApiProblem::not_found(format!("there is no definition `{name}`"));
        problem.hint("GET /api/v1/definitions lists them; POST /api/v1/definitions registers one")
    })?;
    let program = app.engine.program(&definition.current.plan())?;
    let planned =
        program.plan.triggers.iter().find(|trigger_of_plan| trigger_of_plan.name.eq_ignore_ascii_case(trigger));
    let before: StoredTriggerSettings = settings::read(&*app.store, settings::TRIGGER, name, trigger)?;
    if planned.is_none() && before.schedule.is_none() && !matches!(request.schedule, Some(Some(_))) {
        return Err(missing(format!("`{name}` has no trigger `{trigger}`")));
    }
    check_settings(app, request, planned, trigger)?;
    if matches!(request.schedule, Some(None)) {
        settings::forget(&*app.store, name, trigger)?;
        app.definitions.wake();
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let now = real_now();
    settings::change(&*app.store, name, trigger, |settings| {
        if let Some(secret) = &request.secret {
            settings.secret = Some(secret.clone()).filter(|secret| !secret.is_empty());
        }
        settings.scheme = request.scheme.unwrap_or(settings.scheme);
        let turned_on = request.enabled == Some(true) && !settings.enabled;
        if turned_on || request.schedule.as_ref().is_some_and(|schedule| *schedule != settings.schedule) {
            settings.since = Some(now);
        }
        settings.insecure = request.insecure.unwrap_or(settings.insecure);
        settings.enabled = request.enabled.unwrap_or(settings.enabled);
        settings.catch_up = request.catch_up.or(settings.catch_up);
        settings.schedule = request.schedule.clone().unwrap_or_else(|| settings.schedule.take());
    })?;
    app.definitions.wake();
    let fits = |facts: &TriggerFacts| *facts.definition == *name && facts.trigger.eq_ignore_ascii_case(trigger);
    let found = trigger_facts(app)?.into_iter().find(fits);
    let found = found.map(|facts| Json(facts).into_response());
    found.ok_or_else(|| {
        missing(format!("the trigger `{trigger}` of `{name}` is of a kind that this server does not start"))
    })
}

fn check_settings(
    app: &App,
    request: &TriggerSettings,
    planned: Option<&Trigger>,
    trigger: &str,
) -> Result<(), ApiProblem> {
    let refused = |detail: String| ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail);
    let is_webhook = planned.is_some_and(|planned| is_called(&planned.kind));
    if (request.secret.is_some() || request.scheme.is_some() || request.insecure.is_some()) && !is_webhook {
        return Err(refused(format!(
            "the trigger `{trigger}` is not a webhook: `secret`, `scheme` and `insecure` do not apply"
        )));
    }
    if let Some(secret) = request.secret.as_deref().filter(|secret| !secret.is_empty()) {
        // The text is not repeated, since it may be the secret itself.
        let problem = match settings::is_reference(secret).then(|| settings::resolve_secret(&app.credentials, secret)) {
            None => Some(format!("the secret of {} characters is not a reference to one", secret.chars().count())),
            Some(Err(unavailable)) => Some(unavailable.reason(secret).to_owned()),
            Some(Ok(_)) => None,
        };
        if let Some(detail) = problem {
            let hint = "write `env:NAME` for a variable that the server was started with, or the name of a \
                        credential: `windlass credentials set NAME` stores one";
            return Err(refused(detail).hint(hint));
        }
    }
    let Some(schedule) = &request.schedule else { return Ok(()) };
    if let (None, Some(_)) = (schedule, planned) {
        let detail = format!("the trigger `{trigger}` belongs to the definition: only a version without it removes it");
        return Err(refused(detail).hint("to disable it: {\"enabled\": false}"));
    }
    let Some(schedule) = schedule else { return Ok(()) };
    if planned.is_some() {
        let detail = format!("the definition has a trigger `{trigger}` already: choose another name for the schedule");
        return Err(refused(detail));
    }
    if let Some((detail, hint)) = schedule.time_zone.as_deref().and_then(zone_problem) {
        return Err(refused(detail).hint(hint));
    }
    let schedule = Schedule::cron(&schedule.cron, schedule.time_zone.as_deref()).map_err(|why| {
        let hint = "five fields: minute, hour, day of the month, month, day of the week, such as `0 8 * * 1-5`; or six, with \
                    seconds first";
        refused(why).hint(hint)
    })?;
    let next = schedule.if_ever_fires().ok().and_then(|schedule| schedule.next(real_now()));
    next.map(drop).ok_or_else(|| refused(NEVER_FIRES.to_owned()).hint("check the day, the month and the year"))
}
