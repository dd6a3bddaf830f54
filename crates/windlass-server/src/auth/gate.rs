//! No handler answers unless it has taken an authorisation type: an answer without one is thrown away. The compiler
//! refuses such a route already (`guard`); this holds for whatever comes by another way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Identity;
use super::guard::Declared;
use crate::Problem;
use crate::problem::codes;

/// What the authorisation type of a request has found out.
#[derive(Clone, Default)]
pub(crate) struct Passed(Arc<Found>);

#[derive(Default)]
struct Found {
    passed: AtomicBool,
    declared: OnceLock<Declared>,
    who: OnceLock<Arc<Identity>>,
    signed: AtomicBool,
    admitted: AtomicBool,
}

impl Passed {
    pub(crate) fn is_passed(&self) -> bool {
        self.0.passed.load(Ordering::Relaxed)
    }

    pub(crate) fn declared(&self) -> Option<Declared> {
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
    pub(crate) fn who(&self) -> Option<&Arc<Identity>> {
        self.0.who.get()
    }
}

/// Called by every authorisation type.
pub(crate) fn pass(parts: &Parts) {
    if let Some(passed) = parts.extensions.get::<Passed>() {
        passed.0.passed.store(true, Ordering::Relaxed);
    }
}

/// The same, and what the route declares: for whoever counts and notes what was asked.
pub(crate) fn pass_as(parts: &Parts, declared: Declared) {
    pass(parts);
    if let Some(passed) = parts.extensions.get::<Passed>() {
        // A type inside another says the same again.
        let _ = passed.0.declared.set(declared);
    }
}

/// Who it is that asks.
pub(crate) fn known(parts: &Parts, who: &Arc<Identity>) {
    if let Some(passed) = parts.extensions.get::<Passed>() {
        let _ = passed.0.who.set(who.clone());
    }
}

/// The signature is right.
pub(crate) fn signed(parts: &Parts) {
    if let Some(passed) = parts.extensions.get::<Passed>() {
        passed.0.signed.store(true, Ordering::Relaxed);
    }
}

/// A delivery is let in, by whatever it has proven.
pub(crate) fn mark_admitted(parts: &Parts) {
    if let Some(passed) = parts.extensions.get::<Passed>() {
        passed.0.admitted.store(true, Ordering::Relaxed);
    }
}

/// The innermost layer around the routes.
pub(crate) async fn gate(mut request: Request, next: Next) -> Response {
    let passed = match request.extensions().get::<Passed>() {
        Some(passed) => passed.clone(),
        None => {
            let passed = Passed::default();
            request.extensions_mut().insert(passed.clone());
            passed
        }
    };
    let answer = next.run(request).await;
    match passed.is_passed() {
        true => answer,
        false => {
            let detail = "this route asks nobody who they are: that is a defect of the server";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
        }
    }
}
