//! Identifies the caller of a request: by a token, or by the session cookie of the web UI.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use subtle::ConstantTimeEq;
use windlass_runtime::real_now;

use super::guard::{AccessRule, Authorization};
use super::keys::{TokenIdentity, TokenRefusal};
use super::sessions::{Session, csrf_token};
use super::{Peer, TokenScope, check_scope, cookies, gate, take_request};
use crate::api::extract::check_query;
use crate::hosts::{cross_site_problem, is_cross_site};
use crate::problem::codes;
use crate::rate::{address_block, rate_limited};
use crate::{ApiProblem, App};

/// The header with the proof that a page of the web UI sends a change.
const CSRF_HEADER: &str = "x-csrf-token";

const TOKEN_HINT: &str = "send `Authorization: Bearer TOKEN`; the first one is in the file `token` in the store's directory, such as .windlass/token";

/// The caller of a request.
pub(crate) struct Caller {
    pub identity: Arc<TokenIdentity>,
    /// The session whose cookie the request has instead of a token.
    pub session: Option<Arc<Session>>,
}

impl From<Arc<TokenIdentity>> for Caller {
    fn from(identity: Arc<TokenIdentity>) -> Caller {
        Caller { identity, session: None }
    }
}

/// Identifies the caller. A token counts before a cookie.
pub(crate) fn identify(parts: &Parts, app: &App) -> Result<Caller, ApiProblem> {
    if app.options.no_auth {
        // Only the browser knows whether its user or a page of another site asks.
        return match is_cross_site(&parts.headers) {
            true => Err(cross_site_problem()),
            false => Ok(app.keys.anonymous().into()),
        };
    }
    if parts.headers.contains_key(header::AUTHORIZATION) {
        let find = |reload| app.keys.identify(bearer_token(parts)?, reload).map_err(refusal);
        return check_secret(parts, app, find).map(Caller::from);
    }
    let Some((secret, session)) = identify_session(parts, app) else {
        // A request without a token is no guess, so it is not limited: a user who has not signed in yet must not be
        // locked out by a browser tab that asks again and again. The same holds for the cookie of an ended session.
        return Err(unauthenticated("the request has no token"));
    };
    check_csrf(parts, secret)?;
    let identity = app.keys.identify_hash(&session.token, false);
    let identity = identity.map_err(|_| unauthenticated("the token of this session was revoked or has expired"))?;
    Ok(Caller { identity, session: Some(session) })
}

/// Returns the session of the request's cookie, with the cookie's secret. Its token may have been revoked since.
pub(crate) fn identify_session<'p>(parts: &'p Parts, app: &App) -> Option<(&'p str, Arc<Session>)> {
    let values = cookies::session_values(parts, app.keys.sessions.cookie_name()?);
    let now = real_now();
    values.into_iter().find_map(|secret| Some((secret, app.keys.sessions.find(secret, now)?)))
}

/// Rejects requests that a page of another origin has made the browser send with the cookie of a session. Ports of one
/// host are the same site to a browser, so `SameSite` is not sufficient.
pub(crate) fn check_csrf(parts: &Parts, secret: &str) -> Result<(), ApiProblem> {
    if is_cross_site(&parts.headers) {
        return Err(cross_site_problem());
    }
    if parts.method.is_safe() {
        return Ok(());
    }
    // The edge has compared `Origin` with the host. Every browser sends one of the two headers with a change.
    let is_same_origin = parts.headers.contains_key(header::ORIGIN)
        || parts.headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin");
    let given = parts.headers.get(CSRF_HEADER).map_or(&[][..], |value| value.as_bytes());
    match is_same_origin && bool::from(given.ct_eq(csrf_token(secret).as_bytes())) {
        true => Ok(()),
        false => {
            let detail = "this change has the session cookie, but not the proof that a page of the web UI sent it";
            let hint = format!(
                "send `{CSRF_HEADER}` with the `csrf_token` of GET /api/v1/session; programs send `Authorization: Bearer TOKEN` instead"
            );
            Err(ApiProblem::new(StatusCode::FORBIDDEN, codes::HOST, detail).hint(hint))
        }
    }
}

/// Checks a secret of the caller. Unknown secrets are limited per address.
fn check_secret<T>(
    parts: &Parts,
    app: &App,
    find: impl FnOnce(bool) -> Result<T, &'static str>,
) -> Result<T, ApiProblem> {
    let from = parts.extensions.get::<Peer>().map(|peer| address_block(peer.0.ip()));
    let wait = from.and_then(|from| app.keys.failure_limits.retry_after(from, app.controls().rates.failures));
    // While the address is limited, an unknown secret does not make the server read its store again.
    let reason = match find(wait.is_none()) {
        // A caller with a valid token is not locked out by others of the same address block. This does not help those
        // who guess: a token has 256 random bits, and the limit only bounds the work that guessing causes.
        Ok(found) => return Ok(found),
        Err(reason) => reason,
    };
    if let Some(wait) = wait {
        return Err(rate_limited("unknown tokens from this address", wait, "max_unknown_tokens_per_second"));
    }
    if let Some(from) = from {
        // The result is checked by the next request.
        let _ = app.keys.failure_limits.take(from, app.controls().rates.failures);
    }
    Err(unauthenticated(reason))
}

fn unauthenticated(reason: &str) -> ApiProblem {
    ApiProblem::new(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, reason).hint(TOKEN_HINT)
}

fn refusal(refusal: TokenRefusal) -> &'static str {
    match refusal {
        TokenRefusal::Unknown => "unknown token",
        TokenRefusal::Expired => "this token has expired",
        TokenRefusal::UnknownCode => "this sign-in link was used already, or is more than an hour old",
    }
}

fn bearer_token(parts: &Parts) -> Result<&str, &'static str> {
    let mut given = parts.headers.get_all(header::AUTHORIZATION).iter();
    let first = given.next().ok_or("the request has no token")?;
    if given.next().is_some() {
        return Err("the request has more than one `Authorization` header");
    }
    let text = first.to_str().ok().and_then(|text| text.split_once(' '));
    let token = text.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
    token.ok_or("`Authorization` is not `Bearer TOKEN`")
}

/// A browser that signs in with a token that has the scope `read`, or with the code of a sign-in link in its place.
/// A cookie is not accepted: a session cannot extend itself.
pub struct SignIn {
    pub(crate) identity: Arc<TokenIdentity>,
    /// The hash of the token. None: the server requires no token.
    pub(crate) token: Option<[u8; 32]>,
    /// The secret of the session that the browser had before.
    pub(crate) previous: Option<String>,
    pub(crate) is_over_tls: bool,
}

impl Authorization for SignIn {
    const RULE: AccessRule = AccessRule::Scope(TokenScope::Read);
}

impl FromRequestParts<App> for SignIn {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<SignIn, ApiProblem> {
        gate::mark_authorized_as(parts, SignIn::RULE);
        let (token, identity) = match app.options.no_auth {
            true => (None, identify(parts, app)?.identity),
            false if !parts.headers.contains_key(header::AUTHORIZATION) => {
                return Err(unauthenticated("the request has no token"));
            }
            false => {
                let find = |reload| app.keys.identify_sign_in(bearer_token(parts)?, reload).map_err(refusal);
                let (token, identity) = check_secret(parts, app, find)?;
                (Some(token), identity)
            }
        };
        gate::set_caller(parts, &identity.clone().into());
        check_scope(&identity, TokenScope::Read)?;
        take_request(&identity, app)?;
        check_query(parts)?;
        let previous = identify_session(parts, app).map(|(secret, _)| secret.to_owned());
        Ok(SignIn { identity, token, previous, is_over_tls: cookies::is_over_tls(parts) })
    }
}
