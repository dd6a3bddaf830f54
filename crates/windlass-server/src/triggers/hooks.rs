//! Webhooks: `POST /hooks/{definition}/{trigger}`, or the method and path that the trigger defines.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use windlass_core::plan::Trigger;
use windlass_core::{EventKind, Program, Status};
use windlass_runtime::{DeliveryRuns, RunHandle, RuntimeError, TriggerOptions, real_now};
use windlass_value::Value;

use super::request;
use super::settings::{self, StoredTriggerSettings};
use super::signature::{self, SignatureError, SignatureScheme};
use super::{TriggerLogEntry, TriggerLogOutcome, delivery_prefix, existing_run, is_called, may_reply, queue};
use crate::api::extract::{self, path_parameter};
use crate::auth::{AccessRule, Authorization, Peer, TokenIdentity, TokenScope, gate, identify};
use crate::catalog::Definition;
use crate::credentials::ServerCredentials;
use crate::hosts::is_cross_site;
use crate::problem::codes;
use crate::rate::{address_block, rate_limited};
use crate::{ApiProblem, App};

/// Margin before the response timeout at which waiting for a run's reply ends.
const REPLY_MARGIN: Duration = Duration::from_secs(5);

/// Characters of the hash of a delivery's name in the ids of its runs: 104 bits.
const ID_HASH_CHARS: usize = 26;

/// Headers that belong to the connection; a definition cannot set them.
const CONNECTION_HEADERS: [&str; 8] =
    ["connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Content security policy of replies. A reply has the same origin as the web UI, but must not act as one of its
/// documents, whatever the definition says.
const REPLY_POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// Headers that a reply cannot set, because they control what browsers allow, store or pass on.
const SERVER_HEADERS: [&str; 13] = [
    "alt-svc",
    "clear-site-data",
    "content-security-policy",
    "content-security-policy-report-only",
    "permissions-policy",
    "referrer-policy",
    "refresh",
    "service-worker-allowed",
    "set-cookie",
    "strict-transport-security",
    "x-content-type-options",
    "x-frame-options",
    "x-windlass-run",
];

fn is_reply_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is_cross_origin = name.starts_with("access-control-") || name.starts_with("cross-origin-");
    !is_cross_origin && !CONNECTION_HEADERS.contains(&name) && !SERVER_HEADERS.contains(&name)
}

/// Returns the reason why a trigger with a secret cannot verify deliveries. It names nothing, since readers without
/// admin permission may see it.
pub(crate) fn missing_secret_reason(
    credentials: &ServerCredentials,
    settings: &StoredTriggerSettings,
) -> Option<String> {
    let reference = settings.secret.as_deref()?;
    let unavailable = settings::resolve_secret(credentials, reference).err()?;
    Some(format!("its secret is unavailable: {}; every delivery is rejected (503)", unavailable.reason(reference)))
}

/// Logs each trigger whose secret has become unavailable. Blocking: reads the store.
pub fn log_missing_secrets(app: &App) -> Result<(), ApiProblem> {
    for definition in app.definitions.all() {
        for (trigger, kind) in definition.triggers.iter().filter(|(_, kind)| is_called(kind)) {
            let settings: StoredTriggerSettings =
                settings::read(&*app.store, settings::TRIGGER, &definition.name, trigger)?;
            let missing = missing_secret_reason(&app.credentials, &settings);
            if let Some(reason) = missing.filter(|_| definition.enabled && settings.enabled) {
                TriggerLogEntry {
                    definition: definition.name.to_string(),
                    trigger: trigger.to_string(),
                    kind: kind.to_string(),
                    outcome: TriggerLogOutcome::Failed { reason },
                    due: None,
                }
                .log();
            }
        }
    }
    Ok(())
}

/// An accepted delivery: signed with the trigger's secret, authenticated by a token, or sent to an open trigger.
pub(crate) struct Signed {
    app: App,
    definition: Arc<Definition>,
    program: Arc<Program>,
    trigger: Trigger,
    headers: HeaderMap,
    /// The trigger outputs of the request besides the body.
    trigger_metadata: Value,
    body: Bytes,
    /// The name of the delivery, if it has one.
    id: Option<String>,
}

impl Authorization for Signed {
    const RULE: AccessRule = AccessRule::Signed;
}

impl FromRequest<App> for Signed {
    type Rejection = ApiProblem;

    async fn from_request(request: Request, app: &App) -> Result<Signed, ApiProblem> {
        let (mut parts, body) = request.into_parts();
        gate::mark_authorized_as(&parts, AccessRule::Signed);
        let refused = |problem: ApiProblem| {
            app.metrics.record_delivery("refused");
            problem
        };
        let name = path_parameter(&mut parts, app, "name").await?;
        let trigger_name = path_parameter(&mut parts, app, "trigger").await?;
        let (definition, program, trigger) = find_hook(app, &name, &trigger_name).map_err(refused)?;
        let settings: StoredTriggerSettings =
            settings::read(&*app.store, settings::TRIGGER, &definition.name, &trigger.name)?;
        // Without authentication, a page of another site could still make a browser send a request here.
        let auth_disabled = app.options.no_auth && !is_cross_site(&parts.headers);
        let has_credentials = parts.headers.contains_key(header::AUTHORIZATION) || auth_disabled;
        let caller = if has_credentials { Some(identify(&parts, app).map_err(refused)?) } else { None };
        if let Some(caller) = &caller {
            gate::set_caller(&parts, caller);
        }
        let identity = caller.map(|caller| caller.identity);
        // Checked before the body is read, so that an unauthenticated sender need not send it.
        let is_open = settings.insecure || may_run(identity.as_deref(), &definition.name);
        if settings.secret.is_none() && !is_open {
            return Err(refused(no_secret_problem(&definition.name, &trigger.name)));
        }
        let from = limited_address(&parts).filter(|_| !is_open);
        if let Some(wait) = from.and_then(|from| {
            app.controls().unauthenticated_deliveries.retry_after(from, app.controls().rates.unauthenticated_deliveries)
        }) {
            let what = "unauthenticated deliveries from this address";
            return Err(refused(rate_limited(what, wait, "max_unauthenticated_deliveries_per_second")));
        }
        let unauthenticated = |problem: ApiProblem| {
            // The result is checked by the next request.
            let _ = from.map(|from| {
                app.controls().unauthenticated_deliveries.take(from, app.controls().rates.unauthenticated_deliveries)
            });
            refused(problem)
        };
        let body = extract::read_body(body, app.options.limits.max_body_bytes).await?;
        let id = match &settings.secret {
            Some(_) if is_open && !parts.headers.contains_key(settings.scheme.header()) => {
                signature::unsigned_delivery_id(&parts.headers)
            }
            Some(reference) => {
                let id = verify_signature(app, settings.scheme, &parts.headers, &body, reference)
                    .map_err(unauthenticated)?;
                gate::mark_signed(&parts);
                Some(id)
            }
            None => signature::unsigned_delivery_id(&parts.headers),
        };
        // Checked after the signature, so that unauthenticated senders cannot block a webhook.
        let rate = app.controls().rates.deliveries;
        let admitted = app.controls().deliveries.take((&*definition.name, &*trigger.name), rate);
        let many = |wait| refused(rate_limited("deliveries to this webhook", wait, "max_deliveries_per_second"));
        admitted.map_err(many)?;
        if !(definition.enabled && settings.enabled) {
            let detail = format!("the trigger `{}` of `{}` is disabled", trigger.name, definition.name);
            let problem = ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail);
            return Err(refused(problem.hint("an administrator can enable it")));
        }
        let trigger_metadata = request::trigger_metadata(&trigger, &parts).map_err(refused)?;
        gate::mark_admitted(&parts);
        Ok(Signed {
            app: app.clone(),
            definition,
            program,
            trigger,
            headers: parts.headers,
            trigger_metadata,
            body,
            id,
        })
    }
}

/// Returns the address block whose failed deliveries are limited. None for loopback, since a local proxy forwards the
/// requests of many clients.
fn limited_address(parts: &Parts) -> Option<[u8; 8]> {
    let peer = parts.extensions.get::<Peer>()?.0.ip().to_canonical();
    (!peer.is_loopback()).then(|| address_block(peer))
}

fn may_run(identity: Option<&TokenIdentity>, definition: &str) -> bool {
    identity.is_some_and(|who| who.may(TokenScope::Run) && who.is_for(definition))
}

fn verify_signature(
    app: &App,
    scheme: SignatureScheme,
    headers: &HeaderMap,
    body: &[u8],
    reference: &str,
) -> Result<String, ApiProblem> {
    let max_age = app.options.limits.max_signature_age;
    let refused = |detail: &str| ApiProblem::new(StatusCode::UNAUTHORIZED, codes::SIGNATURE, detail);
    let unsigned = || {
        let detail = "the delivery is not signed with this trigger's scheme";
        refused(detail).hint(format!("send `{}`, or a token", scheme.header()))
    };
    if !headers.contains_key(scheme.header()) {
        return Err(unsigned());
    }
    // The caller may be anyone, so the response does not contain the administrator's settings.
    let secret = settings::resolve_secret(&app.credentials, reference).map_err(|_| {
        let problem =
            ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, "the trigger's secret is unavailable");
        problem.hint("an administrator must set its variable, or set another secret for the trigger")
    })?;
    match signature::verify(scheme, headers, body, &secret, real_now(), max_age) {
        Ok(proof) => Ok(proof.delivery),
        Err(SignatureError::Wrong(why)) => Err(refused(why).hint("sign the exact bytes of the body")),
        Err(SignatureError::Unsigned) => Err(unsigned()),
        Err(SignatureError::Stale) => {
            let problem =
                refused(&format!("the time of the signature differs from the server's time by more than {max_age}"));
            Err(problem.hint(
                "compare the clocks of both machines; sign a repeated delivery anew; the operator can raise \
                 `server.max_signature_age` in windlass.toml",
            ))
        }
    }
}

fn no_secret_problem(definition: &str, trigger: &str) -> ApiProblem {
    let detail =
        format!("the trigger `{trigger}` of `{definition}` has no secret and accepts no unauthenticated calls");
    let name = definition.replace('/', "%2F");
    let hint = format!(
        "an administrator can set one: PUT /api/v1/definitions/{name}/triggers/{trigger} {{\"secret\": \"env:NAME\"}}; \
         or send a token with the scope `run`"
    );
    ApiProblem::new(StatusCode::UNAUTHORIZED, codes::SIGNATURE, detail).hint(hint)
}

type HookTarget = (Arc<Definition>, Arc<Program>, Trigger);

/// Finds a webhook. A trigger of another kind counts as missing.
fn find_hook(app: &App, name: &str, trigger_name: &str) -> Result<HookTarget, ApiProblem> {
    let missing = || ApiProblem::not_found("there is no such webhook").hint("GET /api/v1/triggers lists them");
    let definition = app.definitions.get(name).ok_or_else(missing)?;
    let program = app.engine.program(&definition.current.plan())?;
    let of_name = |trigger: &&Trigger| trigger.name.eq_ignore_ascii_case(trigger_name) && is_called(&trigger.kind);
    let trigger = program.plan.triggers.iter().find(of_name).cloned().ok_or_else(missing)?;
    Ok((definition, program, trigger))
}

/// The result of a delivery to a webhook.
#[derive(Default, Serialize, utoipa::ToSchema)]
pub(crate) struct DeliveryResponse {
    /// The runs of this delivery.
    runs: Vec<String>,
    /// The delivery was made before, and nothing new was started.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    /// Number of its runs that wait for other runs of this trigger to end.
    #[serde(skip_serializing_if = "is_zero")]
    waiting_runs: usize,
    /// The condition that prevents a start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    unmet: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Delivers a request to a trigger. Its runs are durable when this is answered. Repeating a delivery starts nothing
/// twice.
#[utoipa::path(
    method(post, get, head, put, patch, delete),
    path = "/hooks/{name}/{trigger}",
    tag = "triggers",
    params(
        ("name" = String, Path, description = "The definition; encode a `/` in it as `%2F`"),
        ("trigger" = String, Path)
    ),
    responses(
        (status = 202, body = DeliveryResponse, description = "the started runs; none if a condition does not hold"),
        (status = 401, body = ApiProblem, description = "the signature is missing or invalid"),
        (status = 405, body = ApiProblem, description = "the trigger is called with another method"),
        (status = 409, body = ApiProblem, description = "the delivery id was used before, with another body"),
        (status = 422, body = ApiProblem, description = "the trigger does not accept this data"),
        (status = 429, body = ApiProblem, description = "the concurrency limit is reached and the queue is full")
    )
)]
pub(crate) async fn deliver(signed: Signed) -> Result<Response, ApiProblem> {
    let metrics = signed.app.metrics.clone();
    let answer = signed.deliver().await;
    if answer.is_err() {
        metrics.record_delivery("failed");
    }
    answer
}

/// Delivers a request to a trigger with its own path (`inputs.relativePath`).
#[utoipa::path(
    method(post, get, head, put, patch, delete),
    path = "/hooks/{name}/{trigger}/{*path}",
    tag = "triggers",
    params(
        ("name" = String, Path, description = "The definition; encode a `/` in it as `%2F`"),
        ("trigger" = String, Path),
        ("path" = String, Path, description = "As in the definition: `/customers/{id}`")
    ),
    responses(
        (status = 202, body = DeliveryResponse, description = "the started runs; none if a condition does not hold"),
        (status = 401, body = ApiProblem, description = "the signature is missing or invalid"),
        (status = 404, body = ApiProblem, description = "the path does not match the trigger"),
        (status = 405, body = ApiProblem, description = "the trigger is called with another method"),
        (status = 409, body = ApiProblem, description = "the delivery id was used before, with another body"),
        (status = 422, body = ApiProblem, description = "the trigger does not accept this data"),
        (status = 429, body = ApiProblem, description = "the concurrency limit is reached and the queue is full")
    )
)]
pub(crate) async fn deliver_below(signed: Signed) -> Result<Response, ApiProblem> {
    deliver(signed).await
}

/// The runs of a delivery, with the number of those that wait.
struct CreatedRuns {
    triggered: DeliveryRuns,
    waiting: usize,
}

impl Signed {
    async fn deliver(self) -> Result<Response, ApiProblem> {
        let delivery = Arc::new(self);
        // In its own task: the sender may disconnect, but an accepted delivery is completed.
        let create_task = tokio::spawn({
            let own = delivery.clone();
            async move { own.create_runs().await }
        });
        let CreatedRuns { triggered, waiting } = create_task
            .await
            .unwrap_or_else(|_| Err(ApiProblem::defect("internal error: the handler of a delivery panicked")))?;
        if let [run] = triggered.runs.as_slice()
            && may_reply(&delivery.program.plan)
            && let Some(answer) = delivery.reply(run).await?
        {
            return Ok(answer);
        }
        let runs = triggered.runs.iter().map(|run| run.run.to_string()).collect();
        let repeated = is_repeated(&triggered);
        Ok(accepted(DeliveryResponse {
            runs,
            repeated,
            waiting_runs: waiting,
            unmet: triggered.unmet.map(|unmet| unmet.source),
        }))
    }

    async fn create_runs(&self) -> Result<CreatedRuns, ApiProblem> {
        let input = content(&self.headers, &self.body)?;
        let prefix = delivery_prefix(&self.definition.name, &self.trigger.name);
        let tag = self.id.as_ref().map(|id| blake3::hash(id.as_bytes()).to_hex()[..ID_HASH_CHARS].to_owned());
        let delivery = format!("{prefix}{}", tag.unwrap_or_else(windlass_runtime::new_run_id));
        // A shutdown waits for this.
        let _guard = self.app.controls().delivery_lock.read().await;
        let ticket = match queue::admit(&self.app, &self.definition.name, &self.trigger, &delivery).await? {
            Ok(ticket) => ticket,
            Err(bounds) => {
                self.log(TriggerLogOutcome::Skipped { reason: bounds.limit_reached_message() });
                let problem =
                    ApiProblem::new(StatusCode::TOO_MANY_REQUESTS, codes::RATE, bounds.limit_reached_message());
                return Err(problem.retry_after(5));
            }
        };
        let options = TriggerOptions {
            delivery: Some(delivery),
            metadata: self.trigger_metadata.clone(),
            held: ticket.is_limited(),
            ..TriggerOptions::default()
        };
        let plan = self.definition.current.plan();
        let triggered = match self.app.engine.trigger(plan, &self.trigger.name, input, options).await {
            Ok(triggered) => triggered,
            Err(error) => {
                ticket.finish_unknown().await?;
                let problem = refusal(error);
                // The message may contain delivered data, so only the code is logged.
                self.log(TriggerLogOutcome::Failed { reason: problem.code.to_string() });
                return Err(problem);
            }
        };
        let waiting = ticket.finish(&triggered.runs).await?;
        let repeated = is_repeated(&triggered);
        self.app.metrics.record_delivery(if repeated { "repeated" } else { "started" });
        let runs: Vec<String> = triggered.runs.iter().map(|run| run.run.to_string()).collect();
        self.log(match runs.first() {
            Some(run) if repeated => TriggerLogOutcome::Repeated { run: run.clone() },
            Some(_) => TriggerLogOutcome::Fired { runs, waiting },
            None => TriggerLogOutcome::Skipped { reason: "its conditions do not hold".to_owned() },
        });
        Ok(CreatedRuns { triggered, waiting })
    }

    fn log(&self, what: TriggerLogOutcome) {
        TriggerLogEntry {
            definition: self.definition.name.to_string(),
            trigger: self.trigger.name.to_string(),
            kind: self.trigger.kind.to_string(),
            outcome: what,
            due: None,
        }
        .log();
    }

    /// Waits for the reply of the run; None if it takes too long.
    async fn reply(&self, run: &RunHandle) -> Result<Option<Response>, ApiProblem> {
        let mut events = self.app.engine.events(&run.run, 0)?;
        let wait = async {
            while let Some(event) = events.next().await? {
                if let EventKind::RunReplied { reply, .. } = event.kind {
                    return Ok(Some(reply));
                }
            }
            Ok::<_, RuntimeError>(None)
        };
        let mut draining = self.app.draining();
        let answer = self.app.options.limits.max_response_time.to_std();
        let found = tokio::select! {
            found = tokio::time::timeout(answer.saturating_sub(REPLY_MARGIN).max(answer / 2), wait) => found,
            _ = draining.wait_for(|draining| *draining) => return Ok(None),
        };
        match found {
            Err(_) => Ok(None),
            Ok(found) => match found? {
                Some(reply) => {
                    let reply = windlass_runtime::resolve(&*self.app.store, &reply)?;
                    Ok(Some(reply_response(&reply, &run.run)))
                }
                None => self.ended_without_reply(&run.run).map(Some),
            },
        }
    }

    /// Builds the response for a run that has ended without a reply.
    fn ended_without_reply(&self, run: &str) -> Result<Response, ApiProblem> {
        let row = self.app.store.run(run)?;
        if row.is_some_and(|row| row.status.as_str() == Status::Succeeded.as_str()) {
            return Ok(accepted(DeliveryResponse { runs: vec![run.to_owned()], ..DeliveryResponse::default() }));
        }
        let detail = format!("the run `{run}` has ended without a response");
        let problem = ApiProblem::new(StatusCode::BAD_GATEWAY, codes::RUN_ENDED, detail);
        Err(problem.hint(format!("GET /api/v1/runs/{run} shows the reason")))
    }
}

/// Returns whether the delivery was made before, so that none of its runs is new.
fn is_repeated(triggered: &DeliveryRuns) -> bool {
    !triggered.runs.is_empty() && triggered.runs.iter().all(|run| !run.created)
}

/// Converts the body: JSON to data, text to a string, anything else to `{$content-type, $content}`, nothing to an
/// empty object.
fn content(headers: &HeaderMap, body: &Bytes) -> Result<Value, ApiProblem> {
    if body.is_empty() {
        return Ok(Value::object::<&str, Value>([]));
    }
    extract::reject_content_encoding(headers)?;
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let text = || std::str::from_utf8(body).map_err(|_| ApiProblem::bad_request("the body is not valid UTF-8"));
    if essence == "application/json" || essence.ends_with("+json") {
        return extract::parse_json(body);
    }
    if essence.starts_with("text/") {
        return Ok(Value::from(text()?));
    }
    Ok(Value::object([("$content-type", Value::from(given)), ("$content", Value::from(STANDARD.encode(body)))]))
}

fn refusal(error: RuntimeError) -> ApiProblem {
    // The name of a delivery is bound to its data, so the run that exists belongs to other data.
    let other_data = existing_run(&error).map(|run| {
        let detail = "a delivery with this id was made before, with other data; nothing was started";
        format!("{detail}: the run `{run}` has the data of that delivery")
    });
    if let Some(detail) = other_data {
        let mut problem = ApiProblem::conflict(detail);
        problem.cause = Some(error.code());
        return problem.hint("send new data under a new delivery id; repeat a delivery with the same body");
    }
    match error {
        RuntimeError::Delivery(error) => {
            let detail = format!("the delivery is invalid: {}", error.message);
            let mut problem = ApiProblem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail);
            problem.hint = error.hint.as_deref().map(str::to_owned);
            problem
        }
        other => other.into(),
    }
}

fn accepted(delivered: DeliveryResponse) -> Response {
    let first = delivered.runs.first().map(|run| format!("/api/v1/runs/{run}"));
    let mut answer = (StatusCode::ACCEPTED, Json(delivered)).into_response();
    if let Some(first) = first.and_then(|first| HeaderValue::from_str(&first).ok()) {
        answer.headers_mut().insert(header::LOCATION, first);
    }
    answer
}

/// Builds the response from `{statusCode, headers, body}`, as a response action returns it.
fn reply_response(reply: &Value, run: &str) -> Response {
    let code = reply.get("statusCode").and_then(Value::as_int).and_then(|code| u16::try_from(code).ok());
    let status = code.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
    let (kind, body) = match reply.get("body") {
        None | Some(Value::Null) => (None, Vec::new()),
        Some(Value::Str(text)) => (Some("text/plain; charset=utf-8"), text.as_bytes().to_vec()),
        Some(other) => (Some("application/json"), windlass_value::to_json(other).into_bytes()),
    };
    let mut answer = (status, body).into_response();
    answer.headers_mut().remove(header::CONTENT_TYPE);
    if let Some(kind) = kind {
        answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    let given = reply.get("headers").and_then(Value::as_map).into_iter().flat_map(|headers| headers.iter());
    for (name, value) in given {
        let text = value.as_str().map_or_else(|| windlass_value::to_json(value), str::to_owned);
        let pair = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&text).ok());
        if let Some((name, value)) = pair.filter(|(name, _)| is_reply_header(name)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPLY_POLICY));
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(run) = HeaderValue::from_str(run) {
        answer.headers_mut().insert("x-windlass-run", run);
    }
    answer
}
