//! Authorisation. A handler declares its requirement by the type of its first argument; the gate verifies that none
//! forgets.

mod caller;
pub(crate) mod cookies;
mod definitions;
pub(crate) mod gate;
pub mod guard;
mod keys;
mod scope;
pub(crate) mod sessions;
pub mod tokens;

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

pub use caller::SignIn;
pub(crate) use caller::{check_csrf, identify, identify_session};
pub use guard::{AccessRule, Authorization};
pub use keys::{FIRST_TOKEN_FILE, LOCAL_TOKEN_FILE, TokenIndex, first_token, write_local_token};
pub(crate) use keys::{TokenActivity, TokenIdentity};
pub use scope::{Admin, Control, Read, RequiredScope, Run, TokenScope, Work};

use crate::api::extract::check_query;
use crate::problem::codes;
use crate::rate::{Rate, rate_limited};
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
        let identity = check_caller(parts, app, N::SCOPE)?;
        if identity.is_for_single_definitions() {
            definitions::check_path(parts, app, &identity).await?;
        }
        Ok(Allowed { identity, needs: PhantomData })
    }
}

/// Access with a token that has the scope `N`. For a token that is for single definitions, the handler itself selects
/// what the token is for, because the path names neither a run nor a definition.
pub struct Selecting<N: RequiredScope> {
    pub(crate) identity: Arc<TokenIdentity>,
    needs: PhantomData<N>,
}

impl<N: RequiredScope> Authorization for Selecting<N> {
    const RULE: AccessRule = AccessRule::Scope(N::SCOPE);
}

impl<N: RequiredScope> FromRequestParts<App> for Selecting<N> {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Selecting<N>, ApiProblem> {
        gate::mark_authorized_as(parts, AccessRule::Scope(N::SCOPE));
        let identity = check_caller(parts, app, N::SCOPE)?;
        Ok(Selecting { identity, needs: PhantomData })
    }
}

/// Identifies the caller, and checks its scope, its rate and the query.
fn check_caller(parts: &Parts, app: &App, scope: TokenScope) -> Result<Arc<TokenIdentity>, ApiProblem> {
    let caller = identify(parts, app)?;
    gate::set_caller(parts, &caller);
    check_scope(&caller.identity, scope)?;
    take_request(&caller.identity, app)?;
    check_query(parts)?;
    Ok(caller.identity)
}

fn check_scope(identity: &TokenIdentity, scope: TokenScope) -> Result<(), ApiProblem> {
    match identity.may(scope) {
        true => Ok(()),
        false => {
            let detail = format!("the token `{}` has no scope `{}`", identity.name, scope.as_str());
            let hint = "`windlass token create NAME --scope …` creates a token with that scope";
            Err(ApiProblem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail).hint(hint))
        }
    }
}

/// Counts a request against the rate of its token.
fn take_request(identity: &TokenIdentity, app: &App) -> Result<(), ApiProblem> {
    let limit = Rate::new(app.options.rate_per_second, app.options.rate_per_second);
    let admitted = identity.usage.requests.take(limit);
    admitted.map_err(|wait| rate_limited("requests with this token", wait, "rate_per_second"))
}
