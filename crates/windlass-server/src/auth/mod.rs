//! Authorisation. A handler declares its requirement by the type of its first argument; the gate verifies that none
//! forgets.

pub(crate) mod gate;
pub mod guard;
mod keys;
mod scope;
pub mod tokens;

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

pub use guard::{AccessRule, Authorization};
pub use keys::{FIRST_TOKEN_FILE, LOCAL_TOKEN_FILE, TokenIndex, first_token, write_local_token};
pub(crate) use keys::{TokenActivity, TokenIdentity, TokenRefusal};
pub use scope::{Admin, Control, Read, RequiredScope, Run, TokenScope, Work};

use crate::api::extract::check_query;
use crate::problem::codes;
use crate::rate::{Rate, address_block, rate_limited};
use crate::{ApiProblem, App};

/// The address of the client: the peer of the connection, as set by the listener, or the client named by a trusted
/// proxy, as determined by the edge.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.port() {
            // Proxies seldom name the port.
            0 => write!(f, "{}", self.0.ip()),
            _ => write!(f, "{}", self.0),
        }
    }
}

/// Access without authentication.
pub struct Public;

impl Authorization for Public {
    const RULE: AccessRule = AccessRule::Public;
}

impl<S: Send + Sync> FromRequestParts<S> for Public {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Public, ApiProblem> {
        gate::mark_authorized_as(parts, AccessRule::Public);
        Ok(Public)
    }
}

/// Access with a token that has the scope `N`.
pub struct Allowed<N: RequiredScope> {
    pub(crate) identity: Arc<TokenIdentity>,
    needs: PhantomData<N>,
}

impl<N: RequiredScope> Authorization for Allowed<N> {
    const RULE: AccessRule = AccessRule::Scope(N::SCOPE);
}

impl<N: RequiredScope> FromRequestParts<App> for Allowed<N> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Allowed<N>, ApiProblem> {
        // A rejected caller has been checked as well.
        gate::mark_authorized_as(parts, AccessRule::Scope(N::SCOPE));
        let identity = identify(parts, app)?;
        gate::set_identity(parts, &identity);
        if !identity.may(N::SCOPE) {
            let detail = format!("the token `{}` has no scope `{}`", identity.name, N::SCOPE.as_str());
            let hint = "`windlass token create NAME --scope …` creates a token with that scope";
            return Err(ApiProblem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail).hint(hint));
        }
        let limit = Rate::new(app.options.rate_per_second, app.options.rate_per_second);
        identity
            .usage
            .requests
            .take(limit)
            .map_err(|wait| rate_limited("requests with this token", wait, "rate_per_second"))?;
        check_query(parts)?;
        Ok(Allowed { identity, needs: PhantomData })
    }
}

/// Identifies the caller by the token of the request.
pub(crate) fn identify(parts: &Parts, app: &App) -> Result<Arc<TokenIdentity>, ApiProblem> {
    if app.options.no_auth {
        return Ok(app.keys.anonymous());
    }
    let token = bearer_token(parts);
    let from = parts.extensions.get::<Peer>().map(|peer| address_block(peer.0.ip()));
    let wait = from.and_then(|from| app.keys.failure_limits.retry_after(from, app.controls().rates.failures));
    let reason = match token {
        Ok(token) => match app.keys.identify(token, wait.is_none()) {
            Ok(identity) => return Ok(identity),
            Err(TokenRefusal::Unknown) => "unknown token",
            Err(TokenRefusal::Expired) => "this token has expired",
        },
        Err(why) => why,
    };
    // A caller with a valid token is not locked out by others of the same address block.
    if let Some(wait) = wait {
        return Err(rate_limited("unknown tokens from this address", wait, "max_unknown_tokens_per_second"));
    }
    if let Some(from) = from {
        // The result is checked by the next request.
        let _ = app.keys.failure_limits.take(from, app.controls().rates.failures);
    }
    let hint = "send `Authorization: Bearer TOKEN`; the first one is in the file `token` in the store's directory, such as .windlass/token";
    Err(ApiProblem::new(StatusCode::UNAUTHORIZED, codes::UNAUTHENTICATED, reason).hint(hint))
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
