//! Tokens and their scopes.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use windlass_runtime::real_now;
use windlass_value::Timestamp;

use super::extract;
use crate::auth::tokens::{self, TokenError, TokenRequest};
use crate::auth::{Admin, Allowed, TokenIdentity, TokenScope};
use crate::problem::codes;
use crate::{ApiProblem, App};

/// A token without its secret.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TokenFacts {
    /// The public id of the token.
    id: String,
    /// The name that its creator gave it.
    name: String,
    /// The operations that it permits.
    scopes: Vec<TokenScope>,
    /// The only definitions that it may read, start and control; it may all, if this is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    definitions: Vec<String>,
    /// RFC 3339
    created_at: String,
    /// Time from which it is refused, RFC 3339; it does not expire, if this is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    /// Accurate to one hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
    /// Id of the token that created it; `server` or `program` if no token did.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_by: Option<String>,
}

impl From<tokens::ApiToken> for TokenFacts {
    fn from(token: tokens::ApiToken) -> TokenFacts {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        TokenFacts {
            id: token.id,
            name: token.name,
            scopes: token.scopes,
            definitions: token.definitions,
            created_at: token.created_at.to_string(),
            expires_at: text(token.expires_at),
            last_used: text(token.last_used),
            created_by: token.created_by,
        }
    }
}

/// All tokens.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct TokenList {
    /// The tokens, oldest first.
    items: Vec<TokenFacts>,
    /// Always null: the list has one page.
    next: Option<String>,
}

/// A token to be created.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// A name for lists and for the audit log.
    name: String,
    /// The operations that it permits; only scopes that the caller has.
    scopes: Vec<TokenScope>,
    /// The only definitions that it may read, start and control. Only with the scopes `read`, `run` and `control`.
    #[serde(default)]
    definitions: Option<Vec<String>>,
    /// RFC 3339
    #[serde(default)]
    expires_at: Option<String>,
    /// Instead of a point in time.
    #[serde(default)]
    expires_in_seconds: Option<u64>,
}

/// A new token with its secret.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct CreatedToken {
    /// The token without its secret.
    #[serde(flatten)]
    facts: TokenFacts,
    /// The token; shown only once.
    token: String,
}

/// The result of revoking a token.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct RevokedToken {
    /// The id of the token.
    id: String,
    /// Always true: a token that cannot be revoked is an error.
    revoked: bool,
}

/// Lists all tokens, oldest first.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", 
    responses((status = 200, body = TokenList, description = "all tokens, without their secrets")))]
pub(crate) async fn list(_: Allowed<Admin>, State(app): State<App>) -> Result<Json<TokenList>, ApiProblem> {
    let mut all = app.read_store(|app| Ok(tokens::list(&*app.store)?)).await?;
    all.sort_by_key(|(token, _)| token.created_at);
    Ok(Json(TokenList { items: all.into_iter().map(|(token, _)| token.into()).collect(), next: None }))
}

/// Creates a token. It is shown only in this response.
#[utoipa::path(
    post,
    path = "/api/v1/tokens",
    tag = "tokens",
    request_body = NewToken,
    responses(
        (status = 201, body = CreatedToken, description = "created; the token is shown only once"),
        (status = 422, body = ApiProblem, description = "the request is invalid")
    )
)]
pub(crate) async fn create(
    allowed: Allowed<Admin>,
    State(app): State<App>,
    extract::Json(new): extract::Json<NewToken>,
) -> Result<(StatusCode, Json<CreatedToken>), ApiProblem> {
    check_grantable(&allowed.identity, &new.scopes)?;
    let expires_at = expiry(&new)?;
    // An empty list must not mean all.
    let definitions = match new.definitions {
        Some(none) if none.is_empty() => return Err(TokenError::Definitions.into()),
        given => given.unwrap_or_default(),
    };
    let created_by = Some(allowed.identity.id.clone());
    let request = TokenRequest { name: new.name, scopes: new.scopes, definitions, expires_at, created_by };
    let created = app.write_store(move |app| {
        let created = tokens::create(&*app.store, request, app.options.limits.max_tokens)?;
        app.keys.refresh()?;
        Ok(created)
    });
    let (token, secret) = created.await?;
    Ok((StatusCode::CREATED, Json(CreatedToken { facts: token.into(), token: secret.reveal().to_owned() })))
}

/// Revokes a token. The last admin token cannot be revoked.
#[utoipa::path(
    delete,
    path = "/api/v1/tokens/{id}",
    tag = "tokens",
    params(("id" = String, Path, description = "the id, not the token itself")),
    responses(
        (status = 200, body = RevokedToken, description = "the token is revoked"),
        (status = 404, body = ApiProblem, description = "there is no such token"),
        (status = 409, body = ApiProblem, description = "another process has changed it concurrently")
    )
)]
pub(crate) async fn revoke(
    _: Allowed<Admin>,
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<RevokedToken>, ApiProblem> {
    let revoked = app.write_store(move |app| {
        let token = tokens::revoke(&*app.store, &id)?;
        app.keys.refresh()?;
        Ok(token)
    });
    let token = revoked.await?;
    Ok(Json(RevokedToken { id: token.id, revoked: true }))
}

/// Rejects scopes that the caller itself does not have.
fn check_grantable(identity: &TokenIdentity, scopes: &[TokenScope]) -> Result<(), ApiProblem> {
    match scopes.iter().find(|scope| !identity.may(**scope)) {
        None => Ok(()),
        Some(scope) => {
            let detail = format!(
                "the token `{}` cannot grant the scope `{}`, which it does not have",
                identity.name,
                scope.as_str()
            );
            Err(ApiProblem::new(StatusCode::FORBIDDEN, codes::FORBIDDEN, detail))
        }
    }
}

fn expiry(new: &NewToken) -> Result<Option<Timestamp>, ApiProblem> {
    match (&new.expires_at, new.expires_in_seconds) {
        (Some(_), Some(_)) => {
            Err(ApiProblem::bad_request("send either `expires_at` or `expires_in_seconds`, not both"))
        }
        (Some(text), None) => Timestamp::parse_rfc3339(text)
            .map(Some)
            .ok_or_else(|| ApiProblem::bad_request(format!("`expires_at` is not an RFC 3339 time: `{text}`"))),
        (None, Some(seconds)) => {
            let micros = i64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000));
            let at = micros.and_then(|micros| real_now().0.checked_add(micros)).map(Timestamp);
            at.map(Some).ok_or_else(|| ApiProblem::bad_request("`expires_in_seconds` is too large"))
        }
        (None, None) => Ok(None),
    }
}

impl From<TokenError> for ApiProblem {
    fn from(error: TokenError) -> ApiProblem {
        let (hint, detail) = (error.hint(), error.to_string());
        let (status, code) = match error {
            TokenError::Store(error) => return error.into(),
            TokenError::NoSuchToken(_) => (StatusCode::NOT_FOUND, codes::NOT_FOUND),
            TokenError::LastAdmin(_) | TokenError::Busy => (StatusCode::CONFLICT, codes::CONFLICT),
            TokenError::NoScope
            | TokenError::ScopeForAll(_)
            | TokenError::Definition(_)
            | TokenError::Definitions
            | TokenError::Name
            | TokenError::Expired
            | TokenError::TooMany(_) => (StatusCode::UNPROCESSABLE_ENTITY, codes::INVALID_INPUT),
            TokenError::Random(_) | TokenError::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL),
        };
        ApiProblem::new(status, code, detail).hint(hint)
    }
}
