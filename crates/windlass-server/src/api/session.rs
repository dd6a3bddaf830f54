//! Sessions of the web UI: a browser signs in with a token once, and then sends a cookie.

use axum::Json;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::Serialize;
use windlass_runtime::real_now;

use crate::auth::sessions::{Session, SessionLimits, csrf_token};
use crate::auth::{Public, SignIn, TokenIdentity, TokenScope, check_csrf, cookies, identify_session};
use crate::{ApiProblem, App};

/// The sign-in state of a browser.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct SessionFacts {
    /// Whether the server requires a token.
    authentication: bool,
    /// Whether the browser may use the API: it has a session, or the server requires no token.
    signed_in: bool,
    /// The name of the token that signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_name: Option<String>,
    /// The operations that the session permits: those of its token.
    scopes: Vec<TokenScope>,
    /// The only definitions that the session may see; all, if this is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    definitions: Vec<String>,
    /// The value of the header `X-CSRF-Token` of every change; missing if there is no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf_token: Option<String>,
    /// The end of the session, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl SessionFacts {
    fn without_session(app: &App) -> SessionFacts {
        let is_open = app.options.no_auth;
        let scopes = if is_open { app.keys.anonymous().scopes.clone() } else { Vec::new() };
        SessionFacts {
            authentication: !is_open,
            signed_in: is_open,
            token_name: None,
            scopes,
            definitions: Vec::new(),
            csrf_token: None,
            expires_at: None,
        }
    }

    fn of_session(identity: &TokenIdentity, session: &Session, secret: &str) -> SessionFacts {
        SessionFacts {
            authentication: true,
            signed_in: true,
            token_name: Some(identity.name.clone()),
            scopes: identity.scopes.clone(),
            definitions: identity.definitions.clone(),
            csrf_token: Some(csrf_token(secret)),
            expires_at: Some(session.expires_at.to_string()),
        }
    }
}

/// Returns whether this browser is signed in, and its CSRF token.
#[utoipa::path(get, path = "/api/v1/session", tag = "session",
    responses((status = 200, body = SessionFacts, description = "the session of the request's cookie, or that there is none")))]
pub(crate) async fn get(_: Public, State(app): State<App>, parts: Parts) -> Json<SessionFacts> {
    let session = identify_session(&parts, &app);
    let found = session.and_then(|(secret, session)| {
        let identity = app.keys.identify_hash(&session.token, false).ok()?;
        Some(SessionFacts::of_session(&identity, &session, secret))
    });
    Json(found.unwrap_or_else(|| SessionFacts::without_session(&app)))
}

/// Signs in a browser: exchanges the token, or the code of a sign-in link in its place, for a session cookie.
///
/// The session has the token's scopes and ends with it. A session that the browser had before ends.
#[utoipa::path(
    post,
    path = "/api/v1/session",
    tag = "session",
    responses(
        (status = 201, body = SessionFacts, description = "signed in; the response sets the cookie"),
        (status = 200, body = SessionFacts, description = "the server requires no token; no cookie is set")
    )
)]
pub(crate) async fn sign_in(
    sign_in: SignIn,
    State(app): State<App>,
) -> Result<(StatusCode, HeaderMap, Json<SessionFacts>), ApiProblem> {
    let mut headers = HeaderMap::new();
    let Some(token) = sign_in.token else {
        return Ok((StatusCode::OK, headers, Json(SessionFacts::without_session(&app))));
    };
    let limits = &app.options.limits;
    let limits = SessionLimits { max_time: limits.max_session_time, max_per_token: limits.max_sessions_per_token };
    let previous = sign_in.previous;
    let create = move |app: &App| {
        let sessions = &app.keys.sessions;
        let created = sessions.create(token, limits, real_now(), |token| app.keys.has_token(token))?;
        if let Some(previous) = previous {
            sessions.end(&previous, real_now())?;
        }
        Ok(created)
    };
    let (cookie, session) = app.write_store(create).await?;
    cookies::set(&mut headers, &cookie, limits.max_time.to_std().as_secs(), sign_in.is_over_tls);
    let facts = SessionFacts::of_session(&sign_in.identity, &session, &cookie.secret);
    Ok((StatusCode::CREATED, headers, Json(facts)))
}

/// Signs out: ends the session of the request's cookie, which must come with `X-CSRF-Token`.
#[utoipa::path(
    delete,
    path = "/api/v1/session",
    tag = "session",
    responses(
        (status = 204, description = "signed out, or there was no session; the response removes the cookie"),
        (status = 403, body = ApiProblem, description = "the request comes from another origin, or has no CSRF token")
    )
)]
pub(crate) async fn sign_out(
    _: Public,
    State(app): State<App>,
    parts: Parts,
) -> Result<(StatusCode, HeaderMap), ApiProblem> {
    let mut headers = HeaderMap::new();
    if let Some((secret, _)) = identify_session(&parts, &app) {
        check_csrf(&parts, secret)?;
        let secret = secret.to_owned();
        app.write_store(move |app| Ok(app.keys.sessions.end(&secret, real_now())?)).await?;
    }
    if let Some(name) = app.keys.sessions.cookie_name() {
        cookies::clear(&mut headers, name, cookies::is_over_tls(&parts));
    }
    Ok((StatusCode::NO_CONTENT, headers))
}
