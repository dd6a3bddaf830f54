//! Webhooks: `POST /hooks/{definition}/{trigger}`, or as the trigger says.

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
use windlass_runtime::{RunHandle, RuntimeError, TriggerOptions, Triggered, real_now};
use windlass_value::Value;

use super::request;
use super::settings::{self, Settings};
use super::signature::{self, Scheme, Unproven};
use super::{TriggerLogEntry, TriggerLogOutcome, is_called, prefix, queue, replies, existing_run};
use crate::api::take::{self, of_path};
use crate::auth::{Authority, Declared, Identity, Peer, Scope, gate, identify};
use crate::catalog::Definition;
use crate::problem::codes;
use crate::rate::{neighbourhood, too_many};
use crate::{App, Problem};

/// A caller waits for a run's reply until so long before the edge gives up.
const BEFORE_THE_EDGE: Duration = Duration::from_secs(5);

/// Of the hash of a delivery's name in the ids of its runs: 104 bits.
const ID_LETTERS: usize = 26;

/// Headers that belong to the connection, not to what is said: no definition sets them.
const OF_THE_CONNECTION: [&str; 8] =
    ["connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// A reply comes from the origin of the page: it is no document of it, whatever the definition says.
const POLICY: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";

/// What a reply has no say in: what browsers let it do, keep, or give to others.
const OF_THE_SERVER: [&str; 13] = [
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

fn is_for_a_reply(name: &HeaderName) -> bool {
    let name = name.as_str();
    let of_origins = name.starts_with("access-control-") || name.starts_with("cross-origin-");
    !of_origins && !OF_THE_CONNECTION.contains(&name) && !OF_THE_SERVER.contains(&name)
}

/// Why nobody can prove anything to a trigger that has a secret. It names nothing: whoever may read may read it.
pub(crate) fn without_secret(settings: &Settings) -> Option<String> {
    let reference = settings.secret.as_deref()?;
    let lacking = settings::secret(reference).err()?;
    Some(format!("its secret is not at hand: {}; every delivery is refused (503)", lacking.why(reference)))
}

/// Tells of each trigger whose secret has gone since it was given one. Blocking: reads.
pub fn tell_without_secret(app: &App) -> Result<(), Problem> {
    for definition in app.definitions.all() {
        for (trigger, kind) in definition.triggers.iter().filter(|(_, kind)| is_called(kind)) {
            let settings: Settings = settings::read(&*app.store, settings::TRIGGER, &definition.name, trigger)?;
            if let Some(why) = without_secret(&settings).filter(|_| definition.enabled && settings.enabled) {
                TriggerLogEntry {
                    definition: definition.name.to_string(),
                    trigger: trigger.to_string(),
                    kind: kind.to_string(),
                    outcome: TriggerLogOutcome::Failed { why },
                    due: None,
                }
                .log();
            }
        }
    }
    Ok(())
}

/// A delivery from somebody who knows the trigger's secret, or has a token, or to a trigger that is open to anybody.
pub(crate) struct Signed {
    app: App,
    definition: Arc<Definition>,
    program: Arc<Program>,
    trigger: Trigger,
    headers: HeaderMap,
    /// What the request says beside the body.
    beside: Value,
    body: Bytes,
    /// What names the delivery, if anything does.
    id: Option<String>,
}

impl Authority for Signed {
    const DECLARED: Declared = Declared::Signed;
}

impl FromRequest<App> for Signed {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Signed, Problem> {
        let (mut parts, body) = request.into_parts();
        gate::pass_as(&parts, Declared::Signed);
        let refused = |problem: Problem| {
            app.metrics.record_delivery("refused");
            problem
        };
        let name = of_path(&mut parts, app, "name").await?;
        let wanted = of_path(&mut parts, app, "trigger").await?;
        let (definition, program, trigger) = find(app, &name, &wanted).map_err(refused)?;
        let settings: Settings = settings::read(&*app.store, settings::TRIGGER, &definition.name, &trigger.name)?;
        // Where nobody is asked who they are, a page of another site could still make a browser ask for an address.
        let open_to_all = app.options.open && !request::is_from_elsewhere(&parts.headers);
        let given = parts.headers.contains_key(header::AUTHORIZATION) || open_to_all;
        let who = if given { Some(identify(&parts, app).map_err(refused)?) } else { None };
        if let Some(who) = &who {
            gate::known(&parts, who);
        }
        // Before the body is read: whoever cannot prove anything need not send it.
        let open = settings.insecure || may_run(who.as_deref());
        if settings.secret.is_none() && !open {
            return Err(refused(closed(&definition.name, &trigger.name)));
        }
        let from = stranger(&parts).filter(|_| !open);
        if let Some(wait) = from.and_then(|from| app.watch().unproven.wait(from, app.watch().rates.unproven)) {
            let what = "deliveries that prove nothing, from this address";
            return Err(refused(too_many(what, wait, "max_unproven_deliveries_per_second")));
        }
        let unproven = |problem: Problem| {
            // That this one was too many is seen by the next.
            let _ = from.map(|from| app.watch().unproven.take(from, app.watch().rates.unproven));
            refused(problem)
        };
        let body = take::whole(body, app.options.limits.max_body_bytes).await?;
        let id = match &settings.secret {
            Some(_) if open && !parts.headers.contains_key(settings.scheme.header()) => {
                signature::unsigned_delivery_id(&parts.headers)
            }
            Some(reference) => {
                let id = proven(app, settings.scheme, &parts.headers, &body, reference).map_err(unproven)?;
                gate::signed(&parts);
                Some(id)
            }
            None => signature::unsigned_delivery_id(&parts.headers),
        };
        // After the proof: strangers close no webhook to those who may call it.
        let rate = app.watch().rates.deliveries;
        let taken = app.watch().deliveries.take((&*definition.name, &*trigger.name), rate);
        let many = |wait| refused(too_many("deliveries to this webhook", wait, "max_deliveries_per_second"));
        taken.map_err(many)?;
        if !(definition.enabled && settings.enabled) {
            let detail = format!("the trigger `{}` of `{}` is turned off", trigger.name, definition.name);
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail);
            return Err(refused(problem.hint("an administrator turns it on again")));
        }
        let beside = request::beside(&trigger, &parts).map_err(refused)?;
        gate::mark_admitted(&parts);
        Ok(Signed { app: app.clone(), definition, program, trigger, headers: parts.headers, beside, body, id })
    }
}

/// By whose refusals others of the same address are measured. A proxy on this machine brings everybody's.
fn stranger(parts: &Parts) -> Option<[u8; 8]> {
    let peer = parts.extensions.get::<Peer>()?.0.ip().to_canonical();
    (!peer.is_loopback()).then(|| neighbourhood(peer))
}

fn may_run(who: Option<&Identity>) -> bool {
    who.is_some_and(|who| who.may(Scope::Run))
}

fn proven(app: &App, scheme: Scheme, headers: &HeaderMap, body: &[u8], reference: &str) -> Result<String, Problem> {
    let max_age = app.options.limits.max_signature_age;
    let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, codes::SIGNATURE, detail);
    let unsigned = || {
        let detail = "the delivery is not signed in the way of this trigger";
        refused(detail).hint(format!("send `{}`, or a token", scheme.header()))
    };
    if !headers.contains_key(scheme.header()) {
        return Err(unsigned());
    }
    // Anybody may ask: nothing of what an administrator has written is told.
    let secret = settings::secret(reference).map_err(|_| {
        let problem =
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, "the trigger's secret is not at hand");
        problem.hint("an administrator sets its variable, or gives the trigger another secret")
    })?;
    match signature::check(scheme, headers, body, &secret, real_now(), max_age) {
        Ok(proof) => Ok(proof.delivery),
        Err(Unproven::Wrong(why)) => Err(refused(why).hint("sign the bytes of the body as they are sent")),
        Err(Unproven::Unsigned) => Err(unsigned()),
        Err(Unproven::Stale) => {
            let problem = refused(&format!("the time of the signature is more than {max_age} from ours"));
            Err(problem.hint(
                "compare the clocks of both machines; a delivery that is sent again is signed again; the operator can raise \
                 `server.max_signature_age` in windlass.toml",
            ))
        }
    }
}

fn closed(definition: &str, trigger: &str) -> Problem {
    let detail = format!("the trigger `{trigger}` of `{definition}` has no secret, and is closed");
    let name = definition.replace('/', "%2F");
    let hint = format!(
        "an administrator gives it one: PUT /api/v1/definitions/{name}/triggers/{trigger} {{\"secret\": \"env:NAME\"}}; \
         or send a token with the scope `run`"
    );
    Problem::new(StatusCode::UNAUTHORIZED, codes::SIGNATURE, detail).hint(hint)
}

type Found = (Arc<Definition>, Arc<Program>, Trigger);

/// What cannot be called is not there.
fn find(app: &App, name: &str, wanted: &str) -> Result<Found, Problem> {
    let missing = || Problem::not_found("there is no such webhook").hint("GET /api/v1/triggers lists those there are");
    let definition = app.definitions.get(name).ok_or_else(missing)?;
    let program = app.engine.program(&definition.current.plan())?;
    let of_name = |trigger: &&Trigger| trigger.name.eq_ignore_ascii_case(wanted) && is_called(&trigger.kind);
    let trigger = program.plan.triggers.iter().find(of_name).cloned().ok_or_else(missing)?;
    Ok((definition, program, trigger))
}

#[derive(Default, Serialize, utoipa::ToSchema)]
pub(crate) struct Delivered {
    /// The runs of this delivery.
    runs: Vec<String>,
    /// It was made before: nothing new was started.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    repeated: bool,
    /// How many of the runs wait for others of this trigger to end.
    #[serde(skip_serializing_if = "is_none_of_them")]
    waiting: usize,
    /// The condition that keeps it from starting anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    unmet: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_none_of_them(count: &usize) -> bool {
    *count == 0
}

/// A delivery to a trigger. When it is answered, its runs are durable. The same delivery again starts nothing twice.
#[utoipa::path(
    method(post, get, head, put, patch, delete),
    path = "/hooks/{name}/{trigger}",
    tag = "triggers",
    params(
        ("name" = String, Path, description = "The definition; a `/` in it is written `%2F`"),
        ("trigger" = String, Path)
    ),
    responses(
        (status = 202, body = Delivered, description = "started, or there was nothing to start"),
        (status = 401, body = Problem, description = "not signed, or not by whoever knows the secret"),
        (status = 405, body = Problem, description = "the trigger is called by another method"),
        (status = 422, body = Problem, description = "not what the trigger takes"),
        (status = 429, body = Problem, description = "as many runs as may are under way and wait")
    )
)]
pub(crate) async fn deliver(signed: Signed) -> Result<Response, Problem> {
    let metrics = signed.app.metrics.clone();
    let answer = signed.deliver().await;
    if answer.is_err() {
        metrics.record_delivery("failed");
    }
    answer
}

/// The same, of a trigger that has a path of its own (`inputs.relativePath`).
#[utoipa::path(
    method(post, get, head, put, patch, delete),
    path = "/hooks/{name}/{trigger}/{*path}",
    tag = "triggers",
    params(
        ("name" = String, Path, description = "The definition; a `/` in it is written `%2F`"),
        ("trigger" = String, Path),
        ("path" = String, Path, description = "As the trigger says: `/customers/{id}`")
    ),
    responses(
        (status = 202, body = Delivered, description = "started, or there was nothing to start"),
        (status = 401, body = Problem, description = "not signed, or not by whoever knows the secret"),
        (status = 404, body = Problem, description = "not the path of the trigger"),
        (status = 405, body = Problem, description = "the trigger is called by another method"),
        (status = 422, body = Problem, description = "not what the trigger takes"),
        (status = 429, body = Problem, description = "as many runs as may are under way and wait")
    )
)]
pub(crate) async fn deliver_below(signed: Signed) -> Result<Response, Problem> {
    deliver(signed).await
}

/// What became of a delivery.
enum Made {
    /// The version that was there when it came first has had it.
    Repeated(String),
    Runs {
        triggered: Triggered,
        waiting: usize,
    },
}

impl Signed {
    async fn deliver(self) -> Result<Response, Problem> {
        let own = Arc::new(self);
        // In a task of its own: whoever sent it may hang up, and what was let in is made whole.
        let making = tokio::spawn({
            let own = own.clone();
            async move { own.make().await }
        });
        let made = making.await.unwrap_or_else(|_| Err(Problem::defect("a delivery has ended in a defect")))?;
        let (triggered, waiting) = match made {
            Made::Runs { triggered, waiting } => (triggered, waiting),
            Made::Repeated(run) => {
                return Ok(accepted(Delivered { runs: vec![run], repeated: true, ..Delivered::default() }));
            }
        };
        if let [run] = triggered.runs.as_slice()
            && replies(&own.program.plan)
            && let Some(answer) = own.reply(run).await?
        {
            return Ok(answer);
        }
        let runs = triggered.runs.iter().map(|run| run.run.to_string()).collect();
        let repeated = is_repeated(&triggered);
        Ok(accepted(Delivered { runs, repeated, waiting, unmet: triggered.unmet.map(|unmet| unmet.source) }))
    }

    async fn make(&self) -> Result<Made, Problem> {
        let input = content(&self.headers, &self.body)?;
        let prefix = prefix(&self.definition.name, &self.trigger.name);
        let tag = self.id.as_ref().map(|id| blake3::hash(id.as_bytes()).to_hex()[..ID_LETTERS].to_owned());
        let delivery = format!("{prefix}{}", tag.unwrap_or_else(windlass_runtime::new_run_id));
        // A stop waits for it.
        let _making = self.app.watch().making.read().await;
        let ticket = match queue::admit(&self.app, &self.definition.name, &self.trigger, &delivery).await? {
            Ok(ticket) => ticket,
            Err(bounds) => {
                self.tell(TriggerLogOutcome::Skipped { why: bounds.limit_reached_message() });
                let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, codes::RATE, bounds.limit_reached_message());
                return Err(problem.retry_after(5));
            }
        };
        let options = TriggerOptions {
            delivery: Some(delivery),
            beside: self.beside.clone(),
            held: ticket.is_limited(),
            ..TriggerOptions::default()
        };
        let plan = self.definition.current.plan();
        let triggered = match self.app.engine.trigger(plan, &self.trigger.name, input, options).await {
            Ok(triggered) => triggered,
            Err(error) => {
                ticket.finish_unknown().await?;
                let Some(run) = existing_run(&error) else {
                    let problem = refusal(error);
                    // What was delivered may stand in the sentence.
                    self.tell(TriggerLogOutcome::Failed { why: problem.code.to_string() });
                    return Err(problem);
                };
                self.app.metrics.record_delivery("repeated");
                self.tell(TriggerLogOutcome::Repeated { run: run.to_owned() });
                return Ok(Made::Repeated(run.to_owned()));
            }
        };
        let waiting = ticket.finish(&triggered.runs).await?;
        let repeated = is_repeated(&triggered);
        self.app.metrics.record_delivery(if repeated { "repeated" } else { "started" });
        let runs: Vec<String> = triggered.runs.iter().map(|run| run.run.to_string()).collect();
        self.tell(match runs.first() {
            Some(run) if repeated => TriggerLogOutcome::Repeated { run: run.clone() },
            Some(_) => TriggerLogOutcome::Fired { runs, waiting },
            None => TriggerLogOutcome::Skipped { why: "its conditions let nothing start".to_owned() },
        });
        Ok(Made::Runs { triggered, waiting })
    }

    fn tell(&self, what: TriggerLogOutcome) {
        TriggerLogEntry {
            definition: self.definition.name.to_string(),
            trigger: self.trigger.name.to_string(),
            kind: self.trigger.kind.to_string(),
            outcome: what,
            due: None,
        }
        .log();
    }

    /// What the run answers, unless that takes too long.
    async fn reply(&self, run: &RunHandle) -> Result<Option<Response>, Problem> {
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
            found = tokio::time::timeout(answer.saturating_sub(BEFORE_THE_EDGE).max(answer / 2), wait) => found,
            _ = draining.wait_for(|draining| *draining) => return Ok(None),
        };
        match found {
            Err(_) => Ok(None),
            Ok(found) => match found? {
                Some(reply) => {
                    let reply = windlass_runtime::resolve(&*self.app.store, &reply)?;
                    Ok(Some(as_answer(&reply, &run.run)))
                }
                None => self.ended(&run.run).map(Some),
            },
        }
    }

    /// It has ended and never said anything.
    fn ended(&self, run: &str) -> Result<Response, Problem> {
        let row = self.app.store.run(run)?;
        if row.is_some_and(|row| row.status.as_str() == Status::Succeeded.as_str()) {
            return Ok(accepted(Delivered { runs: vec![run.to_owned()], ..Delivered::default() }));
        }
        let detail = format!("the run `{run}` has ended without an answer");
        let problem = Problem::new(StatusCode::BAD_GATEWAY, codes::RUN_ENDED, detail);
        Err(problem.hint(format!("GET /api/v1/runs/{run} says why")))
    }
}

/// It was made before: nothing of it is new.
fn is_repeated(triggered: &Triggered) -> bool {
    !triggered.runs.is_empty() && triggered.runs.iter().all(|run| !run.created)
}

/// JSON as data, text as text, anything else as `{$content-type, $content}`; nothing as an empty object.
fn content(headers: &HeaderMap, body: &Bytes) -> Result<Value, Problem> {
    if body.is_empty() {
        return Ok(Value::object::<&str, Value>([]));
    }
    take::reject_content_encoding(headers)?;
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("application/json");
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let text = || std::str::from_utf8(body).map_err(|_| Problem::bad_request("the body is no UTF-8"));
    if essence == "application/json" || essence.ends_with("+json") {
        return take::parse_json(body);
    }
    if essence.starts_with("text/") {
        return Ok(Value::from(text()?));
    }
    Ok(Value::object([("$content-type", Value::from(given)), ("$content", Value::from(STANDARD.encode(body)))]))
}

fn refusal(error: RuntimeError) -> Problem {
    match error {
        RuntimeError::Delivery(error) => {
            let detail = format!("the delivery does not fit: {}", error.message);
            let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT, detail);
            problem.hint = error.hint.as_deref().map(str::to_owned);
            problem
        }
        other => other.into(),
    }
}

fn accepted(delivered: Delivered) -> Response {
    let first = delivered.runs.first().map(|run| format!("/api/v1/runs/{run}"));
    let mut answer = (StatusCode::ACCEPTED, Json(delivered)).into_response();
    if let Some(first) = first.and_then(|first| HeaderValue::from_str(&first).ok()) {
        answer.headers_mut().insert(header::LOCATION, first);
    }
    answer
}

/// `{statusCode, headers, body}`, as a response action gives it.
fn as_answer(reply: &Value, run: &str) -> Response {
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
        if let Some((name, value)) = pair.filter(|(name, _)| is_for_a_reply(name)) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(run) = HeaderValue::from_str(run) {
        answer.headers_mut().insert("x-windlass-run", run);
    }
    answer
}
