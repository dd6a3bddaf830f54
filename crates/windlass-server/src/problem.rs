//! HTTP error responses as `application/problem+json`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use windlass_runtime::RuntimeError;
use windlass_store::{StoreError, StoreErrorKind};

/// Error codes of the server; problems of a definition or a run keep their own codes.
pub(crate) mod codes {
    pub(crate) const BAD_REQUEST: &str = "WND-3000";
    pub(crate) const UNAUTHENTICATED: &str = "WND-3001";
    pub(crate) const FORBIDDEN: &str = "WND-3002";
    pub(crate) const NOT_FOUND: &str = "WND-3003";
    pub(crate) const CONFLICT: &str = "WND-3004";
    pub(crate) const TOO_LARGE: &str = "WND-3005";
    pub(crate) const RATE: &str = "WND-3006";
    pub(crate) const INVALID_DEFINITION: &str = "WND-3007";
    pub(crate) const INVALID_INPUT: &str = "WND-3008";
    pub(crate) const RUN_ENDED: &str = "WND-3009";
    pub(crate) const STALE_LEASE: &str = "WND-3010";
    pub(crate) const SIGNATURE: &str = "WND-3011";
    pub(crate) const UNAVAILABLE: &str = "WND-3012";
    pub(crate) const HOST: &str = "WND-3013";
    pub(crate) const MEDIA_TYPE: &str = "WND-3014";
    pub(crate) const METHOD: &str = "WND-3015";
    pub(crate) const TOO_SLOW: &str = "WND-3016";
    pub(crate) const CREDENTIAL_KEY: &str = "WND-3070";
    pub(crate) const INVALID_CREDENTIAL: &str = "WND-3071";
    pub(crate) const INTERNAL: &str = "WND-3099";
}

/// An error response. Boxed, because almost every function returns one in its error case.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ApiProblem(Box<ProblemBody>);

/// The serialized problem document.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// The page of the error, such as `/errors/WND-3003`, relative to the address of the server.
    pub r#type: String,
    /// The standard phrase of the HTTP status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The code, which `windlass explain` describes.
    pub code: String,
    /// The code of the engine's error behind it, which says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// A description of this problem.
    pub detail: String,
    /// Advice on how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// A path in a run, or a location in a definition.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The individual problems, if there may be several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub problems: Vec<serde_json::Value>,
    /// Seconds until a retry makes sense.
    #[serde(skip)]
    pub retry_after: Option<u64>,
}

impl std::ops::Deref for ApiProblem {
    type Target = ProblemBody;

    fn deref(&self) -> &ProblemBody {
        &self.0
    }
}

impl std::ops::DerefMut for ApiProblem {
    fn deref_mut(&mut self) -> &mut ProblemBody {
        &mut self.0
    }
}

impl utoipa::PartialSchema for ApiProblem {
    fn schema() -> RefOr<Schema> {
        ProblemBody::schema()
    }
}

impl utoipa::ToSchema for ApiProblem {
    fn name() -> std::borrow::Cow<'static, str> {
        ProblemBody::name()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        ProblemBody::schemas(schemas);
    }
}

impl ApiProblem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> ApiProblem {
        ApiProblem(Box::new(ProblemBody {
            r#type: format!("/errors/{code}"),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            code: code.to_owned(),
            cause: None,
            detail: detail.into(),
            hint: None,
            location: None,
            problems: Vec::new(),
            retry_after: None,
        }))
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(StatusCode::BAD_REQUEST, codes::BAD_REQUEST, detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(StatusCode::NOT_FOUND, codes::NOT_FOUND, detail)
    }

    pub(crate) fn unavailable(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE, detail)
    }

    pub(crate) fn defect(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> ApiProblem {
        ApiProblem::new(StatusCode::CONFLICT, codes::CONFLICT, detail)
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> ApiProblem {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the Retry-After header.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> ApiProblem {
        self.retry_after = Some(seconds);
        self
    }

    #[must_use]
    pub(crate) fn problems<T: Serialize>(mut self, problems: &[T]) -> ApiProblem {
        self.problems = problems.iter().filter_map(|problem| serde_json::to_value(problem).ok()).collect();
        self
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let kind = HeaderValue::from_static("application/problem+json");
        let mut answer = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if let Some(seconds) = self.retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        answer
    }
}

impl From<StoreError> for ApiProblem {
    fn from(error: StoreError) -> ApiProblem {
        RuntimeError::from(error).into()
    }
}

impl From<RuntimeError> for ApiProblem {
    fn from(error: RuntimeError) -> ApiProblem {
        let (status, code) = match &error {
            RuntimeError::NoSuchRun(_) | RuntimeError::NoSuchTrigger { .. } => {
                (StatusCode::NOT_FOUND, codes::NOT_FOUND)
            }
            RuntimeError::RunExists(_)
            | RuntimeError::ExecutionIdExists
            | RuntimeError::ChildExists(_)
            | RuntimeError::RunRemoved(_)
            | RuntimeError::CancelledBeforeStart(_) => (StatusCode::CONFLICT, codes::CONFLICT),
            RuntimeError::HasEnded(_) => (StatusCode::CONFLICT, codes::RUN_ENDED),
            RuntimeError::StillOpen(_)
            | RuntimeError::NothingFailed(_)
            | RuntimeError::InMemoryOnly(_)
            | RuntimeError::Owned { .. }
            | RuntimeError::Quarantined { .. } => (StatusCode::CONFLICT, codes::CONFLICT),
            RuntimeError::Input(_)
            | RuntimeError::Delivery(_)
            | RuntimeError::NoSuchPath { .. }
            | RuntimeError::NoSuchOccurrence { .. }
            | RuntimeError::NoSuchVariable { .. }
            | RuntimeError::BeganBefore { .. } => (StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT),
            RuntimeError::Plan(_) => (StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_DEFINITION),
            RuntimeError::Closing | RuntimeError::Fenced | RuntimeError::MissingTools { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE)
            }
            error if error.needs_newer() => (StatusCode::CONFLICT, codes::CONFLICT),
            // Nothing happened. A write that failed in any other way may be on the disk all the same: no 503.
            RuntimeError::Store(StoreError {
                kind: StoreErrorKind::Busy | StoreErrorKind::Full | StoreErrorKind::Stopped | StoreErrorKind::Gone,
                ..
            }) => (StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL),
        };
        let hint = match &error {
            RuntimeError::NoSuchPath { run, .. } | RuntimeError::NoSuchOccurrence { run, .. } => {
                Some(format!("GET /api/v1/runs/{run}/steps lists the steps that have started, with their paths"))
            }
            RuntimeError::StillOpen(run) => Some(format!("wait for its end, or use POST /api/v1/runs/{run}/restart")),
            RuntimeError::Store(store) => store.hint.clone(),
            _ => None,
        };
        let mut problem = ApiProblem::new(status, code, error.to_string());
        problem.hint = hint;
        problem.cause = Some(error.code());
        problem
    }
}
