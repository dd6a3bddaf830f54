//! The run-time check that every handler has extracted an authorisation type: a response without one is discarded.
//! The compiler rejects such a route already (`guard`); this covers routes added in any other way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::TokenIdentity;
use super::caller::Caller;
use super::guard::AccessRule;
use super::sessions::Session;
use crate::ApiProblem;
use crate::problem::codes;

/// Facts established by the authorisation type of a request.
#[derive(Clone, Default)]
pub(crate) struct AuthContext(Arc<AuthFacts>);

#[derive(Default)]
struct AuthFacts {
    authorized: AtomicBool,
    declared: OnceLock<AccessRule>,
    identity: OnceLock<Arc<TokenIdentity>>,
    session: OnceLock<Arc<Session>>,
    signed: AtomicBool,
    admitted: AtomicBool,
}

impl AuthContext {
    pub(crate) fn is_authorized(&self) -> bool {
        self.0.authorized.load(Ordering::Relaxed)
    }

    pub(crate) fn declared(&self) -> Option<AccessRule> {
        self.0.declared.get().copied()
    }

    /// Whether the request is signed with the secret of its webhook.
    pub(crate) fn is_signed(&self) -> bool {
        self.0.signed.load(Ordering::Relaxed)
    }

    /// Whether the delivery was accepted.
    pub(crate) fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Relaxed)
    }

    /// Returns the caller's identity, if known, whether or not the call is allowed.
    pub(crate) fn identity(&self) -> Option<&Arc<TokenIdentity>> {
        self.0.identity.get()
    }

    /// Returns the session of the web UI that the caller uses instead of a token.
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        self.0.session.get()
    }
}

/// Records that an authorisation type was extracted. Called by every authorisation type.
pub(crate) fn mark_authorized(parts: &Parts) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        auth.0.authorized.store(true, Ordering::Relaxed);
    }
}

/// Like [`mark_authorized`]; also records the route's access rule, for metrics and the audit log.
pub(crate) fn mark_authorized_as(parts: &Parts, declared: AccessRule) {
    mark_authorized(parts);
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        // Already set if one authorisation type extracts another: both declare the same rule.
        let _ = auth.0.declared.set(declared);
    }
}

/// Records the caller.
pub(crate) fn set_caller(parts: &Parts, caller: &Caller) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        let _ = auth.0.identity.set(caller.identity.clone());
        if let Some(session) = &caller.session {
            let _ = auth.0.session.set(session.clone());
        }
    }
}

/// Records that the signature is valid.
pub(crate) fn mark_signed(parts: &Parts) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        auth.0.signed.store(true, Ordering::Relaxed);
    }
}

/// Records that a delivery is accepted, whichever way it was authenticated.
pub(crate) fn mark_admitted(parts: &Parts) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        auth.0.admitted.store(true, Ordering::Relaxed);
    }
}

/// The innermost layer around the routes.
pub(crate) async fn require_authorization(mut request: Request, next: Next) -> Response {
    let auth = match request.extensions().get::<AuthContext>() {
        Some(passed) => passed.clone(),
        None => {
            let auth = AuthContext::default();
            request.extensions_mut().insert(auth.clone());
            auth
        }
    };
    let answer = next.run(request).await;
    match auth.is_authorized() {
        true => answer,
        false => {
            let detail = "internal error: this route has no authorization check";
            ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
        }
    }
}
