//! No handler answers unless it has taken an authorisation type: an answer without one is thrown away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Problem;
use crate::problem::codes;

#[derive(Clone, Default)]
struct Passed(Arc<AtomicBool>);

/// Called by every authorisation type.
pub(super) fn pass(parts: &Parts) {
    if let Some(passed) = parts.extensions.get::<Passed>() {
        passed.0.store(true, Ordering::Relaxed);
    }
}

/// The innermost layer around the routes.
pub async fn gate(mut request: Request, next: Next) -> Response {
    let passed = Passed::default();
    request.extensions_mut().insert(passed.clone());
    let answer = next.run(request).await;
    match passed.0.load(Ordering::Relaxed) {
        true => answer,
        false => {
            let detail = "this route asks nobody who they are: that is a defect of the server";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail).into_response()
        }
    }
}
