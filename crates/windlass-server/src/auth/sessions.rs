//! Sessions of the web UI. A browser exchanges a token, or the code of a sign-in link, for a cookie.
//!
//! The cookie is a random secret of its own: the store keeps only its hash, with the hash of the token that the session
//! stands for. A session therefore survives a restart of the server, ends with its token, and has the token's scopes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration as StdDuration, Instant};

use base64::Engine as _;
use serde::{Deserialize, Serialize};
use windlass_store::{RecordChange, RecordRow, Store, StoreError, StoreErrorKind};
use windlass_value::{Duration, Timestamp};

use super::tokens::{self, TokenError, random_secret};

/// The kind of the session records. Their keys are the hashes of the cookies.
const KIND: &str = "session";

/// The record with the part of the cookie's name that is unique to the store.
const NAME_KIND: &str = "session-cookie";
const NAME_KEY: &str = "name";

const PREFIX: &str = "wls_";

/// Prefix of the code in a sign-in link.
pub(super) const CODE_PREFIX: &str = "wlc_";

/// Time for which a sign-in link can be used.
const CODE_LIFETIME: StdDuration = StdDuration::from_secs(3_600);

/// Number of unused sign-in links; another one replaces the oldest.
const MAX_CODES: usize = 16;

const PAGE_SIZE: u32 = 500;

/// Separates the CSRF token from every other hash of the cookie.
const CSRF_CONTEXT: &str = "windlass web UI session, CSRF token";

type SecretHash = [u8; 32];

fn hash_of(secret: &str) -> SecretHash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// A signed-in browser.
#[derive(Debug)]
pub(crate) struct Session {
    /// The hash of the token whose identity the session has.
    pub token: SecretHash,
    created_at: Timestamp,
    pub expires_at: Timestamp,
    ended: AtomicBool,
}

impl Session {
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        now < self.expires_at && !self.ended.load(Ordering::Relaxed)
    }
}

/// A session as stored, without its secret.
#[derive(Serialize, Deserialize)]
struct SessionRecord {
    token: String,
    #[serde(with = "tokens::rfc3339")]
    created_at: Timestamp,
    #[serde(with = "tokens::rfc3339")]
    expires_at: Timestamp,
}

/// Bounds of the sessions that a sign-in leaves.
#[derive(Clone, Copy)]
pub(crate) struct SessionLimits {
    pub max_time: Duration,
    pub max_per_token: usize,
}

/// The cookie of a new session.
pub(crate) struct SessionCookie {
    /// The name without the prefix of secure cookies.
    pub name: String,
    pub secret: String,
}

/// All sessions of this server, and the codes of sign-in links. Only one server at a time uses a store, so no other
/// process changes its sessions.
#[derive(Default)]
pub(crate) struct SessionIndex {
    sessions: RwLock<HashMap<SecretHash, Arc<Session>>>,
    /// Missing until the first sign-in.
    cookie_name: OnceLock<String>,
    codes: Mutex<Vec<SignInCode>>,
    store: Option<Arc<dyn Store>>,
    /// Held while sessions are created or ended, so that the index equals the store.
    changes: Mutex<()>,
}

struct SignInCode {
    hash: SecretHash,
    token: SecretHash,
    created: Instant,
}

impl SessionIndex {
    pub(crate) fn open(store: Arc<dyn Store>) -> Result<SessionIndex, StoreError> {
        let index = SessionIndex::default();
        let name = match store.record(NAME_KIND, NAME_KEY) {
            // The next sign-in draws another name. The cookies of earlier ones end with it.
            Err(error) if error.kind == StoreErrorKind::Damaged => None,
            name => name?,
        };
        if let Some(row) = name {
            let _ = index.cookie_name.set(String::from_utf8_lossy(&row.body).into_owned());
        }
        let mut sessions = HashMap::new();
        let mut after = String::new();
        loop {
            let page = store.records(KIND, &after, PAGE_SIZE)?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.key);
            sessions.extend(page.iter().filter_map(decode));
        }
        Ok(SessionIndex { sessions: RwLock::new(sessions), store: Some(store), ..index })
    }

    /// Returns the name of the cookie. None: there was no sign-in yet.
    pub(crate) fn cookie_name(&self) -> Option<&str> {
        self.cookie_name.get().map(String::as_str)
    }

    /// Returns the session of a cookie. Hashes are compared, so the time it takes reveals nothing about a cookie.
    pub(crate) fn find(&self, secret: &str, now: Timestamp) -> Option<Arc<Session>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&hash_of(secret)).filter(|session| session.is_valid(now)).cloned()
    }

    /// Creates a session for a token. Removes sessions that have expired or whose token is gone, and the oldest
    /// sessions of this token beyond the limit.
    pub(crate) fn create(
        &self,
        token: SecretHash,
        limits: SessionLimits,
        now: Timestamp,
        is_live: impl Fn(&SecretHash) -> bool,
    ) -> Result<(SessionCookie, Arc<Session>), TokenError> {
        let _changing = self.lock_changes();
        let secret = random_secret(PREFIX)?;
        let expires_at = now + limits.max_time;
        let session = Arc::new(Session { token, created_at: now, expires_at, ended: AtomicBool::new(false) });
        let outdated = self.outdated(&token, limits.max_per_token, now, is_live);
        let mut changes: Vec<_> = outdated.iter().map(|hash| RecordChange::remove(KIND, &key(hash), now)).collect();
        changes.push(RecordChange::put(KIND, &key(&hash_of(&secret)), encode(&session), now));
        let name = match self.cookie_name() {
            Some(name) => name.to_owned(),
            None => {
                let name = new_cookie_name()?;
                changes.push(RecordChange::put(NAME_KIND, NAME_KEY, name.clone().into_bytes(), now));
                name
            }
        };
        self.store(changes)?;
        let name = self.cookie_name.get_or_init(|| name).clone();
        let mut sessions = self.sessions.write().unwrap_or_else(PoisonError::into_inner);
        for ended in outdated.iter().filter_map(|hash| sessions.remove(hash)) {
            ended.ended.store(true, Ordering::Relaxed);
        }
        sessions.insert(hash_of(&secret), session.clone());
        Ok((SessionCookie { name, secret }, session))
    }

    /// Returns the sessions that a sign-in with this token removes.
    fn outdated(
        &self,
        token: &SecretHash,
        max_per_token: usize,
        now: Timestamp,
        is_live: impl Fn(&SecretHash) -> bool,
    ) -> Vec<SecretHash> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let is_kept = |session: &Session| session.is_valid(now) && is_live(&session.token);
        let (kept, mut outdated): (Vec<_>, Vec<_>) = sessions.iter().partition(|(_, session)| is_kept(session));
        let mut own: Vec<_> = kept.into_iter().filter(|(_, session)| session.token == *token).collect();
        own.sort_by_key(|(_, session)| session.created_at);
        // Together with the new one they are as many as there may be.
        let surplus = (own.len() + 1).saturating_sub(max_per_token.max(1));
        outdated.extend(own.into_iter().take(surplus));
        outdated.into_iter().map(|(hash, _)| *hash).collect()
    }

    /// Ends the session of a cookie, and the event streams that it opened.
    pub(crate) fn end(&self, secret: &str, now: Timestamp) -> Result<(), StoreError> {
        let _changing = self.lock_changes();
        let hash = hash_of(secret);
        self.store(vec![RecordChange::remove(KIND, &key(&hash), now)])?;
        let ended = self.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(&hash);
        if let Some(session) = ended {
            session.ended.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn store(&self, changes: Vec<RecordChange>) -> Result<(), StoreError> {
        match &self.store {
            // No change expects a revision, so all are applied.
            Some(store) => store.change_records(changes).map(drop),
            None => Ok(()),
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the code of a link that signs in once as this token.
    pub(super) fn create_code(&self, token: &str) -> Result<String, TokenError> {
        let code = random_secret(CODE_PREFIX)?;
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() == MAX_CODES {
            codes.remove(0);
        }
        codes.push(SignInCode { hash: hash_of(&code), token: hash_of(token), created: Instant::now() });
        Ok(code)
    }

    /// Returns the hash of the token that a code stands for. The code cannot be used again.
    pub(super) fn take_code(&self, code: &str) -> Option<SecretHash> {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|one| one.created.elapsed() < CODE_LIFETIME);
        let hash = hash_of(code);
        let at = codes.iter().position(|one| one.hash == hash)?;
        Some(codes.remove(at).token)
    }
}

/// Returns the proof that a page of the web UI sends with every change of its session. Only a page that reads responses
/// of this server knows it.
pub(crate) fn csrf_token(secret: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(blake3::derive_key(CSRF_CONTEXT, secret.as_bytes()))
}

/// Returns a name that no other store uses: all ports of a host share their cookies.
fn new_cookie_name() -> Result<String, TokenError> {
    let mut bytes = [0u8; 4];
    getrandom::fill(&mut bytes).map_err(|error| TokenError::Random(error.to_string()))?;
    Ok(format!("windlass_{:08x}", u32::from_be_bytes(bytes)))
}

fn key(hash: &SecretHash) -> String {
    blake3::Hash::from_bytes(*hash).to_hex().to_string()
}

fn encode(session: &Session) -> Vec<u8> {
    let Session { token, created_at, expires_at, .. } = session;
    let record = SessionRecord { token: key(token), created_at: *created_at, expires_at: *expires_at };
    // A struct of strings always serializes.
    serde_json::to_vec(&record).unwrap_or_default()
}

fn decode(row: &RecordRow) -> Option<(SecretHash, Arc<Session>)> {
    let SessionRecord { token, created_at, expires_at } = serde_json::from_slice(&row.body).ok()?;
    let hash = |text: &str| blake3::Hash::from_hex(text).ok().map(|hash| *hash.as_bytes());
    let session = Session { token: hash(&token)?, created_at, expires_at, ended: AtomicBool::new(false) };
    Some((hash(&row.key)?, Arc::new(session)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits { max_time: Duration::from_secs(60), max_per_token: 2 };
    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn after(seconds: i64) -> Timestamp {
        Timestamp(NOW.0 + seconds * 1_000_000)
    }

    #[test]
    fn a_session_ends_at_its_time_and_by_signing_out() {
        let index = SessionIndex::default();
        let (cookie, session) = index.create([1; 32], LIMITS, NOW, |_| true).unwrap();
        assert_eq!(index.find(&cookie.secret, after(59)).unwrap().token, [1; 32]);
        assert!(index.find(&cookie.secret, after(60)).is_none());
        assert!(index.find("wls_other", NOW).is_none());
        index.end(&cookie.secret, NOW).unwrap();
        assert!(index.find(&cookie.secret, NOW).is_none() && !session.is_valid(NOW));
    }

    #[test]
    fn sessions_are_bounded_per_token() {
        let index = SessionIndex::default();
        let sign_in = |token: u8, at: Timestamp| index.create([token; 32], LIMITS, at, |_| true).unwrap().0.secret;
        let other = sign_in(2, NOW);
        let own: Vec<String> = (0..4).map(|second| sign_in(1, after(second))).collect();
        let found = |secret: &String| index.find(secret, after(5)).is_some();
        assert_eq!(own.iter().map(found).collect::<Vec<_>>(), [false, false, true, true], "the newest stay");
        assert!(found(&other), "others are not affected");
        // A sign-in removes sessions that have expired or whose token is gone.
        index.create([3; 32], LIMITS, after(59), |token| *token != [1; 32]).unwrap();
        assert_eq!(index.sessions.read().unwrap().len(), 2);
        index.create([3; 32], LIMITS, after(60), |_| true).unwrap();
        assert_eq!(index.sessions.read().unwrap().len(), 2);
    }

    #[test]
    fn a_code_is_used_once() {
        let index = SessionIndex::default();
        let code = index.create_code("wl_token").unwrap();
        assert_eq!(index.take_code("wlc_other"), None);
        assert_eq!(index.take_code(&code), Some(hash_of("wl_token")));
        assert_eq!(index.take_code(&code), None);
        let codes: Vec<String> = (0..=MAX_CODES).map(|_| index.create_code("wl_token").unwrap()).collect();
        assert_eq!(index.take_code(&codes[0]), None, "the oldest makes room");
        assert!(index.take_code(&codes[1]).is_some());
    }

    #[test]
    fn csrf_tokens_differ_by_session_and_do_not_reveal_it() {
        assert_ne!(csrf_token("wls_a"), csrf_token("wls_b"));
        assert_eq!(csrf_token("wls_a").len(), 43);
        assert_ne!(key(&hash_of("wls_a")), key(&blake3::derive_key(CSRF_CONTEXT, b"wls_a")));
    }
}
