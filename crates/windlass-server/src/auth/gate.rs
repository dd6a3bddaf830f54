//! No handler answers unless it has taken an authorisation type: an answer without one is thrown away. The compiler
//! refuses such a route already (`guard`); this holds for whatever comes by another way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::TokenIdentity;
use super::guard::AccessRule;
use crate::ApiProblem;
use crate::problem::codes;

/// What the authorisation type of a request has found out.
#[derive(Clone, Default)]
pub(crate) struct AuthContext(Arc<AuthFacts>);

#[derive(Default)]
struct AuthFacts {
    authorized: AtomicBool,
    declared: OnceLock<AccessRule>,
    identity: OnceLock<Arc<TokenIdentity>>,
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

    /// Whoever sent it knows the secret of what it was sent to.
    pub(crate) fn is_signed(&self) -> bool {
        self.0.signed.load(Ordering::Relaxed)
    }

    /// Whoever sent a delivery may.
    pub(crate) fn is_admitted(&self) -> bool {
        self.0.admitted.load(Ordering::Relaxed)
    }

    /// Who asks, if they have said so, and whether or not they may.
    pub(crate) fn identity(&self) -> Option<&Arc<TokenIdentity>> {
        self.0.identity.get()
    }
}

/// Called by every authorisation type.
pub(crate) fn mark_authorized(parts: &Parts) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        auth.0.authorized.store(true, Ordering::Relaxed);
    }
}

/// The same, and what the route declares: for whoever counts and notes what was asked.
pub(crate) fn mark_authorized_as(parts: &Parts, declared: AccessRule) {
    mark_authorized(parts);
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        // A type inside another says the same again.
        let _ = auth.0.declared.set(declared);
    }
}

/// Who it is that asks.
pub(crate) fn set_identity(parts: &Parts, identity: &Arc<TokenIdentity>) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        let _ = auth.0.identity.set(identity.clone());
    }
}

/// The signature is right.
pub(crate) fn mark_signed(parts: &Parts) {
    if let Some(auth) = parts.extensions.get::<AuthContext>() {
        auth.0.signed.store(true, Ordering::Relaxed);
    }
}

/// A delivery is let in, by whatever it has proven.
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
            let detail = "this route asks nobody who they are: that is a defect of the server";
            ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
        }
    }
}
