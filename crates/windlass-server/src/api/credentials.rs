//! Stored credentials. They are written and never read back: only tools and workers get their values.

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass_tools::{StoredCredential, VaultError, VaultLimits};

use super::extract::{self, path_parameter};
use crate::auth::{Admin, Allowed};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// A stored credential without its value.
#[derive(Serialize, ToSchema)]
pub(crate) struct CredentialInfo {
    /// The name by which definitions refer to it.
    name: String,
    /// `text`, `url`, `fields`, or the text of its field `type`.
    kind: String,
    /// Time of the last change, RFC 3339.
    changed_at: String,
    /// Name of the token or of the user that has set it.
    by: String,
    /// The reason why it cannot be used, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl From<StoredCredential> for CredentialInfo {
    fn from(stored: StoredCredential) -> CredentialInfo {
        let StoredCredential { name, kind, changed_at, by, problem } = stored;
        CredentialInfo { name, kind, changed_at, by, problem }
    }
}

/// All stored credentials.
#[derive(Serialize, ToSchema)]
pub(crate) struct CredentialList {
    /// The credentials, by name.
    items: Vec<CredentialInfo>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// The value of a credential.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCredential {
    /// A text or a URL; or an object with fields such as `type`, `host`, `user`, `password`, `token`.
    value: serde_json::Value,
}

/// The result of removing a credential.
#[derive(Serialize, ToSchema)]
pub(crate) struct CredentialRemoved {
    /// The name of the credential.
    name: String,
    /// Always true: a credential that does not exist is an error.
    removed: bool,
}

/// `{name}` of the path.
pub(crate) struct CredentialName(String);

impl<S: Send + Sync> FromRequestParts<S> for CredentialName {
    type Rejection = ApiProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<CredentialName, ApiProblem> {
        path_parameter(parts, state, "name").await.map(CredentialName)
    }
}

/// Lists the stored credentials, without their values. No call returns a value.
#[utoipa::path(get, path = "/api/v1/credentials", tag = "credentials",
    responses((status = 200, body = CredentialList, description = "all stored credentials, without their values")))]
pub(crate) async fn list(_: Allowed<Admin>, State(app): State<App>) -> Result<Json<CredentialList>, ApiProblem> {
    let all = app.read_store(|app| Ok(app.credentials.vault.list()?)).await?;
    Ok(Json(CredentialList { items: all.into_iter().map(Into::into).collect(), next: None }))
}

/// Sets a credential. It is stored encrypted; the next attempt of a task that refers to it uses the new value.
#[utoipa::path(
    put,
    path = "/api/v1/credentials/{name}",
    tag = "credentials",
    params(("name" = String, Path, description = "the name by which definitions refer to it")),
    request_body = NewCredential,
    responses(
        (status = 200, body = CredentialInfo, description = "the credential is stored"),
        (status = 422, body = ApiProblem, description = "the name or the value cannot be used"),
        (status = 503, body = ApiProblem, description = "the key of the stored credentials cannot be used")
    )
)]
pub(crate) async fn set(
    allowed: Allowed<Admin>,
    State(app): State<App>,
    CredentialName(name): CredentialName,
    extract::Json(NewCredential { value }): extract::Json<NewCredential>,
) -> Result<Json<CredentialInfo>, ApiProblem> {
    let by = allowed.identity.name.clone();
    let value = value_text(value)?;
    let stored = app.write_store(move |app| {
        let limits = &app.options.limits;
        let limits =
            VaultLimits { max_credentials: limits.max_credentials, max_credential_bytes: limits.max_credential_bytes };
        Ok(app.credentials.vault.set(&name, &value, &by, limits)?)
    });
    Ok(Json(stored.await?.into()))
}

/// Removes a credential. Tasks that refer to it fail from then on, unless another source has it.
#[utoipa::path(
    delete,
    path = "/api/v1/credentials/{name}",
    tag = "credentials",
    params(("name" = String, Path, description = "the name by which definitions refer to it")),
    responses(
        (status = 200, body = CredentialRemoved, description = "the credential is removed"),
        (status = 404, body = ApiProblem, description = "there is no such credential")
    )
)]
pub(crate) async fn remove(
    _: Allowed<Admin>,
    State(app): State<App>,
    CredentialName(name): CredentialName,
) -> Result<Json<CredentialRemoved>, ApiProblem> {
    let removed = app.write_store(move |app| match app.credentials.vault.remove(&name)? {
        true => Ok(CredentialRemoved { name, removed: true }),
        false => Err(ApiProblem::not_found(format!("there is no stored credential `{}`", name.escape_debug()))
            .hint("GET /api/v1/credentials lists them")),
    });
    removed.await.map(Json)
}

/// Returns the text of a value as it is stored.
fn value_text(value: serde_json::Value) -> Result<String, ApiProblem> {
    match value {
        serde_json::Value::String(text) => Ok(text),
        fields @ serde_json::Value::Object(_) => Ok(fields.to_string()),
        _ => Err(ApiProblem::from(VaultError::Value("it is neither a text nor an object".to_owned()))),
    }
}

impl From<VaultError> for ApiProblem {
    fn from(error: VaultError) -> ApiProblem {
        let (detail, hint) = (error.to_string(), error.hint().to_owned());
        let (status, code) = match error {
            VaultError::Store(error) => return error.into(),
            VaultError::Key(_) | VaultError::OtherKey(_) => (StatusCode::SERVICE_UNAVAILABLE, codes::CREDENTIAL_KEY),
            VaultError::NoStore => (StatusCode::SERVICE_UNAVAILABLE, codes::UNAVAILABLE),
            VaultError::Random => (StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL),
            VaultError::Name
            | VaultError::Empty
            | VaultError::Size(_)
            | VaultError::Value(_)
            | VaultError::Alike(..)
            | VaultError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_CREDENTIAL),
        };
        ApiProblem::new(status, code, detail).hint(hint)
    }
}
