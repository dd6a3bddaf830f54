//! Tokens in the store. Only their hashes are stored: reading the store does not reveal a usable token. All functions
//! work alongside a running server, which reloads tokens whenever the store has changed.

use serde::{Deserialize, Serialize};
use windlass_runtime::real_now;
use windlass_store::{RecordChange, RecordRow, Store, StoreError};
use windlass_value::Timestamp;

use super::TokenScope;
use crate::api::extract::is_definition_name;

pub const KIND: &str = "token";

/// Prefix of every token, so that people and secret scanners recognise one.
pub(crate) const PREFIX: &str = "wl_";

/// Random bytes of a token.
const SECRET_BYTES: usize = 32;

const MAX_NAME_CHARS: usize = 100;

/// Maximum number of definitions of a token that is not for all.
const MAX_DEFINITIONS: usize = 100;

const PAGE_SIZE: u32 = 500;

/// Maximum number of attempts of a change that conflicts with concurrent changes.
const MAX_TRIES: u32 = 20;

/// A token as stored.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ApiToken {
    pub id: String,
    pub name: String,
    /// BLAKE3 hash of the whole token in hexadecimal digits. The token has 256 random bits, so no slow hash is needed.
    pub hash: String,
    pub scopes: Vec<TokenScope>,
    /// The definitions that it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub definitions: Vec<String>,
    #[serde(with = "rfc3339")]
    pub created_at: Timestamp,
    #[serde(default, with = "optional_rfc3339", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Accurate to one hour.
    #[serde(default, with = "optional_rfc3339", skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Id of the token that created it; `server` for the first token, `program` for a token from `windlass token`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

impl ApiToken {
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    fn is_live_admin(&self, now: Timestamp) -> bool {
        self.scopes.contains(&TokenScope::Admin) && !self.has_expired(now)
    }
}

/// The token itself. It can be shown once and is stored nowhere.
pub struct TokenSecret(String);

impl TokenSecret {
    pub fn new() -> Result<TokenSecret, TokenError> {
        random_secret(PREFIX).map(TokenSecret)
    }

    /// Parses a token; None if the text cannot be one.
    pub(crate) fn parse(text: &str) -> Option<TokenSecret> {
        let body = text.strip_prefix(PREFIX)?;
        let fits = body.len() == SECRET_BYTES.div_ceil(3) * 4 - 1;
        let plain = body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (fits && plain).then(|| TokenSecret(text.to_owned()))
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.0.as_bytes()).as_bytes()
    }

    fn hash_text(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex().to_string()
    }

    /// Returns the text, for the one time that it is shown.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Returns a text of 256 random bits that begins with the prefix.
pub(super) fn random_secret(prefix: &str) -> Result<String, TokenError> {
    use base64::Engine as _;
    let mut bytes = [0u8; SECRET_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    let text = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    Ok(format!("{prefix}{text}"))
}

/// Hides the secret, so that no debug output contains it by accident.
impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("there is no token `{0}`")]
    NoSuchToken(String),
    #[error("`{0}` is the last admin token; no one could create another")]
    LastAdmin(String),
    #[error("a token needs at least one scope")]
    NoScope,
    #[error("a token for single definitions cannot have the scope `{}`, which is about all of them", .0.as_str())]
    ScopeForAll(TokenScope),
    #[error("`{0}` cannot be the name of a definition")]
    Definition(String),
    #[error("a token is for 1 to {MAX_DEFINITIONS} definitions, or for all")]
    Definitions,
    #[error("a token's name has 1 to {MAX_NAME_CHARS} characters, none of which is a control character")]
    Name,
    #[error("the expiry time is in the past")]
    Expired,
    #[error("there are {0} tokens already")]
    TooMany(usize),
    #[error("another process is changing tokens")]
    Busy,
    #[error("the system provides no random numbers: {0}")]
    Random(String),
    #[error("{what} `{file}`: {why}")]
    File { what: &'static str, file: String, why: String },
}

impl TokenError {
    /// Returns a suggestion for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            TokenError::NoSuchToken(_) => "`windlass token list` shows them",
            TokenError::LastAdmin(_) => {
                "create another first: `windlass token create NAME --scope admin`, then revoke this one"
            }
            TokenError::NoScope => "scopes are read, run, control, work, admin",
            TokenError::ScopeForAll(_) => "give it read, run or control, or leave out the definitions",
            TokenError::Definition(_) => "`windlass definitions list` shows the names",
            TokenError::Definitions => "name the definitions, or leave them out for a token that is for all",
            TokenError::Name => "choose another name",
            TokenError::Expired => "choose a later time",
            TokenError::TooMany(_) => {
                "revoke unused tokens: `windlass token list` shows when each was last used; or raise \
                 `server.max_tokens` in windlass.toml"
            }
            TokenError::Busy => "try again",
            TokenError::Store(_) | TokenError::Random(_) => "`windlass doctor` checks the store",
            TokenError::File { .. } => "check the permissions of the store's directory",
        }
    }
}

/// Parameters of a new token.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    pub name: String,
    pub scopes: Vec<TokenScope>,
    /// The definitions that it is for; empty: all.
    pub definitions: Vec<String>,
    pub expires_at: Option<Timestamp>,
    pub created_by: Option<String>,
}

/// Creates a token unless the limit is reached. The secret is returned only here.
pub fn create(
    store: &dyn Store,
    request: TokenRequest,
    max_tokens: usize,
) -> Result<(ApiToken, TokenSecret), TokenError> {
    let secret = TokenSecret::new()?;
    let token = create_with_secret(store, request, &secret, max_tokens)?;
    Ok((token, secret))
}

pub(super) fn create_with_secret(
    store: &dyn Store,
    request: TokenRequest,
    secret: &TokenSecret,
    max_tokens: usize,
) -> Result<ApiToken, TokenError> {
    let TokenRequest { name, mut scopes, mut definitions, expires_at, created_by } = request;
    let now = real_now();
    if name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        return Err(TokenError::Name);
    }
    scopes.sort_unstable();
    scopes.dedup();
    if scopes.is_empty() {
        return Err(TokenError::NoScope);
    }
    if expires_at.is_some_and(|at| at <= now) {
        return Err(TokenError::Expired);
    }
    definitions.sort_unstable();
    definitions.dedup();
    check_definitions(&definitions, &scopes)?;
    if list(store)?.len() >= max_tokens {
        return Err(TokenError::TooMany(max_tokens));
    }
    let token = ApiToken {
        id: new_id()?,
        name,
        hash: secret.hash_text(),
        scopes,
        definitions,
        created_at: now,
        expires_at,
        last_used: None,
        created_by,
    };
    let change = RecordChange::put(KIND, &token.id, encode(&token), now).with_expected_revision(0);
    match store.change_records(vec![change])? {
        true => Ok(token),
        false => Err(TokenError::Busy),
    }
}

/// Checks the definitions of a new token, none of which means all. The other scopes are about more than runs.
fn check_definitions(definitions: &[String], scopes: &[TokenScope]) -> Result<(), TokenError> {
    if definitions.len() > MAX_DEFINITIONS {
        return Err(TokenError::Definitions);
    }
    if let Some(wrong) = definitions.iter().find(|name| !is_definition_name(name)) {
        return Err(TokenError::Definition(wrong.escape_debug().to_string()));
    }
    let for_all = |scope: &&TokenScope| matches!(scope, TokenScope::Work | TokenScope::Admin);
    match scopes.iter().find(for_all).filter(|_| !definitions.is_empty()) {
        Some(scope) => Err(TokenError::ScopeForAll(*scope)),
        None => Ok(()),
    }
}

/// Lists all tokens with their revisions. Unreadable records are left out.
pub fn list(store: &dyn Store) -> Result<Vec<(ApiToken, u64)>, StoreError> {
    let mut tokens = Vec::new();
    let mut after = String::new();
    loop {
        let page = store.records(KIND, &after, PAGE_SIZE)?;
        let Some(last) = page.last() else { return Ok(tokens) };
        after.clone_from(&last.key);
        tokens.extend(page.iter().filter_map(decode));
    }
}

/// Revokes a token.
pub fn revoke(store: &dyn Store, id: &str) -> Result<ApiToken, TokenError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match try_revoke(store, id) {
            // Usually a conflict with recording the last use.
            Err(TokenError::Busy) if attempts < MAX_TRIES => {}
            outcome => return outcome,
        }
    }
}

fn try_revoke(store: &dyn Store, id: &str) -> Result<ApiToken, TokenError> {
    let (tokens, now) = (list(store)?, real_now());
    let (token, revision) =
        tokens.iter().find(|(token, _)| token.id == id).ok_or_else(|| TokenError::NoSuchToken(id.to_owned()))?;
    let mut changes = vec![RecordChange::remove(KIND, id, now).with_expected_revision(*revision)];
    if token.is_live_admin(now) {
        // Expects the revision of another admin token that stays: two admins revoking each other cannot both succeed.
        let other = tokens.iter().filter(|(other, _)| other.id != id && other.is_live_admin(now));
        let other = other.max_by_key(|(other, _)| other.expires_at.map_or(i64::MAX, |at| at.0));
        let (other, revision) = other.ok_or_else(|| TokenError::LastAdmin(id.to_owned()))?;
        changes.push(RecordChange::put(KIND, &other.id, encode(other), now).with_expected_revision(*revision));
    }
    match store.change_records(changes)? {
        true => Ok(token.clone()),
        false => Err(TokenError::Busy),
    }
}

/// Records the use of a token. A token revoked meanwhile stays revoked.
pub(super) fn record_use(store: &dyn Store, id: &str, at: Timestamp) -> Result<(), StoreError> {
    let Some((token, revision)) = store.record(KIND, id)?.as_ref().and_then(decode) else { return Ok(()) };
    let token = ApiToken { last_used: Some(at), ..token };
    // In case of a conflict, the other writer has recorded the use as well.
    store
        .change_records(vec![RecordChange::put(KIND, id, encode(&token), at).with_expected_revision(revision)])
        .map(drop)
}

pub fn has_admin(store: &dyn Store) -> Result<bool, StoreError> {
    let now = real_now();
    Ok(list(store)?.iter().any(|(token, _)| token.is_live_admin(now)))
}

fn encode(token: &ApiToken) -> Vec<u8> {
    // A struct of strings and numbers always serializes.
    serde_json::to_vec(token).unwrap_or_default()
}

fn decode(row: &RecordRow) -> Option<(ApiToken, u64)> {
    let token: ApiToken = serde_json::from_slice(&row.body).ok()?;
    (token.id == row.key).then_some((token, row.revision))
}

fn new_id() -> Result<String, TokenError> {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(format!("tk_{:016x}", u64::from_be_bytes(bytes)))
}

/// Serializes times as RFC 3339.
pub(super) mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};
    use windlass_value::Timestamp;

    pub(crate) fn serialize<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(at)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

mod optional_rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer};
    use windlass_value::Timestamp;

    pub(crate) fn serialize<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.collect_str(at),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parsed = text.map(|text| Timestamp::parse_rfc3339(&text).ok_or(()));
        parsed.transpose().map_err(|()| serde::de::Error::custom("not an RFC 3339 time"))
    }
}
