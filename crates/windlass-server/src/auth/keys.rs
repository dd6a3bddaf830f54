//! The in-memory index of tokens and their identities.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use windlass_runtime::real_now;
use windlass_store::{Store, StoreError};
use windlass_value::Timestamp;

use super::TokenScope;
use super::sessions::{CODE_PREFIX, SessionIndex};
use super::tokens::{self, ApiToken, TokenError, TokenRequest, TokenSecret};
use crate::rate::{RateBucket, SharedBuckets};

/// The file in the store's directory that contains the first token.
pub const FIRST_TOKEN_FILE: &str = "token";

/// The file in the store's directory that contains the token of the running server for programs of the same user on
/// this machine. It is new with every start.
pub const LOCAL_TOKEN_FILE: &str = "local-token";

/// Interval at which the store is checked for token changes by other processes.
const RELOAD_INTERVAL: Duration = Duration::from_millis(250);

/// Granularity, in microseconds, at which the last use of a token is recorded.
const LAST_USE_GRANULARITY: i64 = 3_600 * 1_000_000;

/// The identity of a caller with a valid token.
#[derive(Clone, Debug)]
pub(crate) struct TokenIdentity {
    pub id: String,
    pub name: String,
    pub scopes: Vec<TokenScope>,
    /// The definitions that the token is for; empty: all.
    pub definitions: Vec<String>,
    pub(crate) usage: Arc<TokenActivity>,
}

impl TokenIdentity {
    pub(crate) fn may(&self, scope: TokenScope) -> bool {
        self.scopes.iter().any(|own| own.includes(scope))
    }

    fn admin(name: &str) -> TokenIdentity {
        TokenIdentity {
            id: name.to_owned(),
            name: name.to_owned(),
            scopes: vec![TokenScope::Admin],
            definitions: Vec::new(),
            usage: Arc::default(),
        }
    }
}

/// Current usage of a token. It survives reloads of the index.
#[derive(Debug, Default)]
pub(crate) struct TokenActivity {
    pub requests: RateBucket,
    pub streams: AtomicUsize,
    last_used: AtomicI64,
    /// The token was revoked.
    revoked: AtomicBool,
    /// 0: the token never expires.
    expires_at: AtomicI64,
}

impl TokenActivity {
    /// Returns whether the token is still valid.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        let expires_at = self.expires_at.load(Ordering::Relaxed);
        !self.revoked.load(Ordering::Relaxed) && (expires_at == 0 || now.0 < expires_at)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TokenRefusal {
    Unknown,
    Expired,
    /// The code of a sign-in link that was used, is too old or never existed.
    UnknownCode,
}

/// All tokens of this server. The store contains only their hashes.
pub struct TokenIndex {
    tokens: RwLock<HashMap<[u8; 32], IndexedToken>>,
    /// The token in [`LOCAL_TOKEN_FILE`], which the store does not contain.
    local: Option<IndexedToken>,
    store: Option<Arc<dyn Store>>,
    reload_state: Mutex<ReloadState>,
    anonymous: Arc<TokenIdentity>,
    /// Browsers that are signed in with one of the tokens.
    pub(crate) sessions: SessionIndex,
    /// Rate limits of addresses that sent unknown tokens.
    pub(crate) failure_limits: SharedBuckets,
}

struct IndexedToken {
    hash: [u8; 32],
    expires_at: Option<Timestamp>,
    identity: Arc<TokenIdentity>,
}

fn hash_of(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

#[derive(Default)]
struct ReloadState {
    change_mark: Option<u64>,
    checked_at: Option<Instant>,
}

impl fmt::Debug for TokenIndex {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keys")
    }
}

impl TokenIndex {
    /// Creates an index with at most one admin token and without a store, for servers that keep nothing on disk and for
    /// tests.
    pub fn with_token(token: Option<String>) -> TokenIndex {
        let mut tokens = HashMap::new();
        if let Some(token) = token {
            let indexed = IndexedToken::admin("first", hash_of(&token));
            tokens.insert(indexed.hash, indexed);
        }
        TokenIndex::new(tokens, None)
    }

    /// Opens the tokens of a store.
    pub fn open(store: Arc<dyn Store>) -> Result<TokenIndex, StoreError> {
        let sessions = SessionIndex::open(store.clone())?;
        let keys = TokenIndex { sessions, ..TokenIndex::new(HashMap::new(), Some(store)) };
        keys.refresh()?;
        Ok(keys)
    }

    /// Accepts one more admin token for as long as this process lives. A program that reads its file can also write the
    /// store.
    #[must_use]
    pub fn with_local_token(self, secret: &TokenSecret) -> TokenIndex {
        TokenIndex { local: Some(IndexedToken::admin("local", secret.hash())), ..self }
    }

    fn new(tokens: HashMap<[u8; 32], IndexedToken>, store: Option<Arc<dyn Store>>) -> TokenIndex {
        // The id is part of the idempotency keys in existing stores and does not change with the name.
        let anonymous = TokenIdentity { name: "anonymous".to_owned(), ..TokenIdentity::admin("anybody") };
        let anonymous = Arc::new(anonymous);
        let (reload_state, failure_limits) = (Mutex::default(), SharedBuckets::default());
        let (tokens, sessions) = (RwLock::new(tokens), SessionIndex::default());
        TokenIndex { tokens, local: None, store, reload_state, anonymous, sessions, failure_limits }
    }

    pub(crate) fn anonymous(&self) -> Arc<TokenIdentity> {
        self.anonymous.clone()
    }

    /// Returns the identity of a token. The time it takes reveals nothing about any token, since hashes are compared.
    /// An unknown token makes the index check the store again if `reload_if_unknown` is set.
    pub(crate) fn identify(&self, token: &str, reload_if_unknown: bool) -> Result<Arc<TokenIdentity>, TokenRefusal> {
        self.identify_hash(&hash_of(token), reload_if_unknown)
    }

    /// Returns the identity of the token with this hash.
    pub(crate) fn identify_hash(
        &self,
        hash: &[u8; 32],
        reload_if_unknown: bool,
    ) -> Result<Arc<TokenIdentity>, TokenRefusal> {
        self.reload_if_older_than(RELOAD_INTERVAL);
        match self.find(hash) {
            // The token may have been created a moment ago.
            Err(TokenRefusal::Unknown) if reload_if_unknown && self.reload_if_older_than(Duration::ZERO) => {
                self.find(hash)
            }
            found => found,
        }
    }

    /// Returns the token that signs in a browser, given by itself or by the code of a sign-in link, with its hash.
    pub(crate) fn identify_sign_in(
        &self,
        secret: &str,
        reload_if_unknown: bool,
    ) -> Result<([u8; 32], Arc<TokenIdentity>), TokenRefusal> {
        let hash = match secret.starts_with(CODE_PREFIX) {
            true => self.sessions.take_code(secret).ok_or(TokenRefusal::UnknownCode)?,
            false => hash_of(secret),
        };
        self.identify_hash(&hash, reload_if_unknown).map(|identity| (hash, identity))
    }

    /// Returns the code of a link that signs in one browser as this token, within an hour.
    pub fn sign_in_code(&self, token: &str) -> Result<String, TokenError> {
        self.sessions.create_code(token)
    }

    /// Returns whether there is a token with this hash. It may have expired.
    pub(crate) fn has_token(&self, hash: &[u8; 32]) -> bool {
        !matches!(self.find(hash), Err(TokenRefusal::Unknown))
    }

    fn find(&self, hash: &[u8; 32]) -> Result<Arc<TokenIdentity>, TokenRefusal> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.get(hash).or(self.local.as_ref()).filter(|known| bool::from(known.hash.ct_eq(hash)));
        let found = found.ok_or(TokenRefusal::Unknown)?;
        let now = real_now();
        if found.expires_at.is_some_and(|at| at <= now) {
            return Err(TokenRefusal::Expired);
        }
        let identity = found.identity.clone();
        drop(tokens);
        self.record_use(&identity, now);
        Ok(identity)
    }

    /// Reloads tokens if due, so that callers identified long ago notice a revocation.
    pub(crate) fn reload_if_due(&self) {
        self.reload_if_older_than(RELOAD_INTERVAL);
    }

    /// Reloads tokens if the last check is older than `interval`; returns whether they were reloaded.
    fn reload_if_older_than(&self, interval: Duration) -> bool {
        let Some(store) = &self.store else { return false };
        let Ok(mut reload_state) = self.reload_state.try_lock() else { return false };
        if reload_state.checked_at.is_some_and(|at| at.elapsed() < interval) {
            return false;
        }
        reload_state.checked_at = Some(Instant::now());
        // When the store gives no answer, the known tokens stay valid and the next call tries again.
        let Ok(mark) = store.change_mark() else { return false };
        reload_state.change_mark.replace(mark) != Some(mark) && self.reload(&**store).is_ok()
    }

    /// Reloads the index after this server has changed tokens.
    pub fn refresh(&self) -> Result<(), StoreError> {
        let Some(store) = &self.store else { return Ok(()) };
        let _look = self.lock_reload();
        self.reload(&**store)
    }

    fn lock_reload(&self) -> MutexGuard<'_, ReloadState> {
        self.reload_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all tokens. Only one thread at a time does so; otherwise an older list could replace a newer one.
    fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let tokens = tokens::list(store)?;
        let mut index = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        let mut before: HashMap<[u8; 32], IndexedToken> = std::mem::take(&mut *index);
        index.extend(tokens.into_iter().filter_map(|(token, _)| {
            let hash = *blake3::Hash::from_hex(&token.hash).ok()?.as_bytes();
            let usage = before.remove(&hash).map(|known| known.identity.usage.clone()).unwrap_or_default();
            Some((hash, IndexedToken::from_token(token, hash, usage)))
        }));
        before.into_values().for_each(|known| known.identity.usage.revoked.store(true, Ordering::Relaxed));
        Ok(())
    }

    /// Records the last use in the store from time to time, in the background.
    fn record_use(&self, identity: &Arc<TokenIdentity>, now: Timestamp) {
        let used = identity.usage.last_used.load(Ordering::Relaxed);
        if now.0 - used < LAST_USE_GRANULARITY || identity.usage.last_used.swap(now.0, Ordering::Relaxed) != used {
            return;
        }
        if let (Some(store), Ok(runtime)) = (self.store.clone(), tokio::runtime::Handle::try_current()) {
            let id = identity.id.clone();
            // A use that cannot be recorded now is recorded in an hour.
            runtime.spawn_blocking(move || drop(tokens::record_use(&*store, &id, now)));
        }
    }
}

impl IndexedToken {
    fn admin(name: &str, hash: [u8; 32]) -> IndexedToken {
        IndexedToken { hash, expires_at: None, identity: Arc::new(TokenIdentity::admin(name)) }
    }

    fn from_token(token: ApiToken, hash: [u8; 32], usage: Arc<TokenActivity>) -> IndexedToken {
        let expires_at = token.expires_at;
        if let Some(used) = token.last_used {
            usage.last_used.fetch_max(used.0, Ordering::Relaxed);
        }
        usage.expires_at.store(expires_at.map_or(0, |at| at.0), Ordering::Relaxed);
        let ApiToken { id, name, scopes, definitions, .. } = token;
        let identity = Arc::new(TokenIdentity { id, name, scopes, definitions, usage });
        IndexedToken { hash, expires_at, identity }
    }
}

/// Returns the admin token in the store's directory. It is created if the store has no admin token; a revoked one is
/// not created again. None: there are tokens, but this one is not among them.
pub fn first_token(store: &dyn Store, directory: &Path) -> Result<Option<TokenSecret>, TokenError> {
    let path = directory.join(FIRST_TOKEN_FILE);
    let file_error = |what: &'static str| {
        let file = path.display().to_string();
        move |error: std::io::Error| TokenError::File { what, file, why: error.to_string() }
    };
    let written = read_first(&path).map_err(file_error("could not read the first token"))?;
    if let Some(secret) = &written {
        let hash = blake3::Hash::from_bytes(secret.hash()).to_hex();
        if tokens::list(store)?.iter().any(|(token, _)| token.hash == hash.as_str()) {
            return Ok(written);
        }
    }
    if tokens::has_admin(store)? {
        return Ok(None);
    }
    let secret = TokenSecret::new()?;
    // The file belongs to another store, or to a start that failed midway.
    if written.is_some() || path.exists() {
        fs::remove_file(&path).map_err(file_error("could not remove the first token of another store"))?;
    }
    write_first(&path, &secret).map_err(file_error("could not write the first token"))?;
    let request = TokenRequest {
        name: "first".to_owned(),
        scopes: vec![TokenScope::Admin],
        definitions: Vec::new(),
        expires_at: None,
        created_by: Some("server".to_owned()),
    };
    // The token limit does not apply to the first token of a store.
    tokens::create_with_secret(store, request, &secret, usize::MAX)?;
    Ok(Some(secret))
}

/// Writes the token that programs of the same user on this machine use while the server runs.
pub fn write_local_token(directory: &Path, secret: &TokenSecret) -> Result<(), TokenError> {
    let path = directory.join(LOCAL_TOKEN_FILE);
    let written = match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => write_first(&path, secret),
    };
    written.map_err(|error| TokenError::File {
        what: "could not write the token for local programs",
        file: path.display().to_string(),
        why: error.to_string(),
    })
}

fn read_first(path: &Path) -> std::io::Result<Option<TokenSecret>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Copying the directory may have made it readable for others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    let mut text = String::new();
    file.take(1_024).read_to_string(&mut text)?;
    Ok(TokenSecret::parse(text.trim()))
}

/// Creates the file readable by its owner only, from the first moment; an existing file or link is not written to.
fn write_first(path: &Path, secret: &TokenSecret) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(secret.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
