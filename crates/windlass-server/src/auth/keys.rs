//! Tokens at hand, and whose they are.

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

use super::Scope;
use super::tokens::{self, Secret, Token, TokenError, Wanted};
use crate::rate::{Bucket, Strangers};

/// The file in the store's directory that has the first token.
pub const FIRST_FILE: &str = "token";

/// How often the store is asked whether somebody else has changed tokens.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How exactly it is known when a token was used last.
const USE_NOTED_EVERY: i64 = 3_600 * 1_000_000;

/// Somebody who has shown a token.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub id: String,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub(crate) seat: Arc<Seat>,
}

impl Identity {
    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|own| own.includes(scope))
    }

    fn everything(name: &str) -> Identity {
        Identity { id: name.to_owned(), name: name.to_owned(), scopes: vec![Scope::Admin], seat: Arc::default() }
    }
}

/// What a token is using now. It stays when tokens are read again.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub requests: Bucket,
    pub streams: AtomicUsize,
    used: AtomicI64,
    /// Nobody has the token any more.
    revoked: AtomicBool,
    /// 0: it never does.
    expires_at: AtomicI64,
}

impl Seat {
    /// Whether whoever has the token is still somebody.
    pub(crate) fn is_taken(&self, now: Timestamp) -> bool {
        let expires_at = self.expires_at.load(Ordering::Relaxed);
        !self.revoked.load(Ordering::Relaxed) && (expires_at == 0 || now.0 < expires_at)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Unknown,
    Expired,
}

/// All tokens of this server. They are in the store as hashes.
pub struct Keys {
    known: RwLock<HashMap<[u8; 32], Known>>,
    store: Option<Arc<dyn Store>>,
    look: Mutex<Look>,
    anybody: Arc<Identity>,
    /// Addresses that have shown tokens which nobody has.
    pub(crate) strangers: Strangers,
}

struct Known {
    hash: [u8; 32],
    expires_at: Option<Timestamp>,
    who: Arc<Identity>,
}

#[derive(Default)]
struct Look {
    mark: Option<u64>,
    at: Option<Instant>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keys")
    }
}

impl Keys {
    /// With one token that may do everything, and without a store: for trials.
    pub fn with(token: Option<String>) -> Keys {
        let mut known = HashMap::new();
        if let Some(token) = token {
            let hash = *blake3::hash(token.as_bytes()).as_bytes();
            known.insert(hash, Known { hash, expires_at: None, who: Arc::new(Identity::everything("first")) });
        }
        Keys::of(known, None)
    }

    /// The tokens of a store.
    pub fn open(store: Arc<dyn Store>) -> Result<Keys, StoreError> {
        let keys = Keys::of(HashMap::new(), Some(store));
        keys.refresh()?;
        Ok(keys)
    }

    fn of(known: HashMap<[u8; 32], Known>, store: Option<Arc<dyn Store>>) -> Keys {
        let anybody = Arc::new(Identity::everything("anybody"));
        let (look, strangers) = (Mutex::default(), Strangers::default());
        Keys { known: RwLock::new(known), store, look, anybody, strangers }
    }

    pub(crate) fn anybody(&self) -> Arc<Identity> {
        self.anybody.clone()
    }

    /// Whose token this is. How long it takes says nothing about any token: what is compared are hashes.
    /// One that nobody has makes the store be looked at again, if `look` says so.
    pub(crate) fn identify(&self, token: &str, look: bool) -> Result<Arc<Identity>, Refusal> {
        let hash = *blake3::hash(token.as_bytes()).as_bytes();
        self.look_if_due(LOOK_EVERY);
        match self.find(&hash) {
            // Somebody may have made it a moment ago.
            Err(Refusal::Unknown) if look && self.look_if_due(Duration::ZERO) => self.find(&hash),
            found => found,
        }
    }

    fn find(&self, hash: &[u8; 32]) -> Result<Arc<Identity>, Refusal> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(hash).filter(|known| bool::from(known.hash.ct_eq(hash)));
        let found = found.ok_or(Refusal::Unknown)?;
        let now = real_now();
        if found.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::Expired);
        }
        let who = found.who.clone();
        drop(known);
        self.note_use(&who, now);
        Ok(who)
    }

    /// For whoever has been identified long ago: tokens that were taken away since are known to be.
    pub(crate) fn look_again(&self) {
        self.look_if_due(LOOK_EVERY);
    }

    /// Whether tokens were read again.
    fn look_if_due(&self, every: Duration) -> bool {
        let Some(store) = &self.store else { return false };
        let Ok(mut look) = self.look.try_lock() else { return false };
        if look.at.is_some_and(|at| at.elapsed() < every) {
            return false;
        }
        look.at = Some(Instant::now());
        // A store that gives no answer now is asked again; what was known stays.
        let Ok(mark) = store.change_mark() else { return false };
        look.mark.replace(mark) != Some(mark) && self.read(&**store).is_ok()
    }

    /// After this server itself has changed tokens.
    pub fn refresh(&self) -> Result<(), StoreError> {
        let Some(store) = &self.store else { return Ok(()) };
        let _look = self.look();
        self.read(&**store)
    }

    fn look(&self) -> MutexGuard<'_, Look> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only one thread at a time reads: otherwise an older list could replace a newer one.
    fn read(&self, store: &dyn Store) -> Result<(), StoreError> {
        let tokens = tokens::all(store)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut before: HashMap<[u8; 32], Known> = std::mem::take(&mut *known);
        known.extend(tokens.into_iter().filter_map(|(token, _)| {
            let hash = *blake3::Hash::from_hex(&token.hash).ok()?.as_bytes();
            let seat = before.remove(&hash).map(|known| known.who.seat.clone()).unwrap_or_default();
            Some((hash, Known::of(token, hash, seat)))
        }));
        before.into_values().for_each(|known| known.who.seat.revoked.store(true, Ordering::Relaxed));
        Ok(())
    }

    /// In the store, now and then; nobody waits for it.
    fn note_use(&self, who: &Arc<Identity>, now: Timestamp) {
        let used = who.seat.used.load(Ordering::Relaxed);
        if now.0 - used < USE_NOTED_EVERY || who.seat.used.swap(now.0, Ordering::Relaxed) != used {
            return;
        }
        if let (Some(store), Ok(runtime)) = (self.store.clone(), tokio::runtime::Handle::try_current()) {
            let id = who.id.clone();
            // What cannot be noted now is noted in an hour.
            runtime.spawn_blocking(move || drop(tokens::note_use(&*store, &id, now)));
        }
    }
}

impl Known {
    fn of(token: Token, hash: [u8; 32], seat: Arc<Seat>) -> Known {
        if let Some(used) = token.last_used {
            seat.used.fetch_max(used.0, Ordering::Relaxed);
        }
        seat.expires_at.store(token.expires_at.map_or(0, |at| at.0), Ordering::Relaxed);
        let who = Arc::new(Identity { id: token.id, name: token.name, scopes: token.scopes, seat });
        Known { hash, expires_at: token.expires_at, who }
    }
}

/// The token that may do everything, which is in the store's directory. It is made when nobody could do anything otherwise; one
/// that was revoked does not come back. None: there are tokens, and this one is not among them.
pub fn first_token(store: &dyn Store, directory: &Path) -> Result<Option<Secret>, TokenError> {
    let path = directory.join(FIRST_FILE);
    let trouble = |what: &'static str| {
        let file = path.display().to_string();
        move |error: std::io::Error| TokenError::File { what, file, why: error.to_string() }
    };
    let written = read_first(&path).map_err(trouble("could not read the first token"))?;
    if let Some(secret) = &written {
        let hash = blake3::Hash::from_bytes(secret.hash()).to_hex();
        if tokens::all(store)?.iter().any(|(token, _)| token.hash == hash.as_str()) {
            return Ok(written);
        }
    }
    if tokens::has_admin(store)? {
        return Ok(None);
    }
    let secret = Secret::new()?;
    // A file of another store, or of a start that did not get further.
    if written.is_some() || path.exists() {
        fs::remove_file(&path).map_err(trouble("could not remove the first token of another store"))?;
    }
    write_first(&path, &secret).map_err(trouble("could not write the first token"))?;
    let wanted = Wanted {
        name: "first".to_owned(),
        scopes: vec![Scope::Admin],
        expires_at: None,
        by: Some("server".to_owned()),
    };
    // The first token of a store is never one too many.
    tokens::keep(store, wanted, &secret, usize::MAX)?;
    Ok(Some(secret))
}

fn read_first(path: &Path) -> std::io::Result<Option<Secret>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // A copy of the directory may have opened it to others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    let mut text = String::new();
    file.take(1_024).read_to_string(&mut text)?;
    Ok(Secret::given(text.trim()))
}

/// Nobody else can read it, not even for a moment; a file or link that is already there is not written to.
fn write_first(path: &Path, secret: &Secret) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(secret.reveal().as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
