//! Credentials in a store, encrypted. They are written and never shown: only tools and workers get the values.
//!
//! A record has a description in plain text (name, kind, time, author) and the encrypted value. The description is
//! authenticated with the value, so that values cannot be exchanged in the store.

mod record;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;
use windlass_runtime::real_now;
use windlass_store::{RecordChange, RecordRow, Store, StoreError, StoreErrorKind};

use crate::credentials::{Credential, auth_variable};
use crate::known_secrets::KnownSecrets;
use record::{SealedRecord, VaultCipher};

/// The kind of the records.
pub(crate) const KIND: &str = "credential";

/// Records read per page.
const PAGE_SIZE: u32 = 500;

/// Maximum number of characters of a name.
const MAX_NAME_CHARS: usize = 100;

/// Maximum number of characters of a kind.
const MAX_KIND_CHARS: usize = 40;

/// The key that encrypts credentials.
pub type VaultKey = [u8; 32];

/// Whether a missing key may be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyAccess {
    Existing,
    CreateIfMissing,
}

/// The reason why the key of a vault is unavailable.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct KeyProblem {
    pub message: String,
    pub hint: String,
}

/// The reason why a stored credential cannot be used, as a part of a sentence.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{reason}")]
pub struct UnopenedCredential {
    pub reason: String,
    pub hint: String,
}

/// Maximum number and size of credentials.
#[derive(Clone, Copy, Debug)]
pub struct VaultLimits {
    pub max_credentials: usize,
    pub max_credential_bytes: usize,
}

/// A stored credential without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCredential {
    pub name: String,
    /// `text`, `url`, `fields`, or the text of the field `type`.
    pub kind: String,
    /// RFC 3339
    pub changed_at: String,
    /// The name of the token or of the user that has set it.
    pub by: String,
    /// The reason why it cannot be used.
    pub problem: Option<String>,
}

/// The reason why a credential was not stored or removed.
#[derive(Debug, Error)]
pub enum VaultError {
    #[error(
        "the name of a credential has 1 to {MAX_NAME_CHARS} letters, digits, spaces and punctuation marks of ASCII"
    )]
    Name,
    #[error("the value is empty")]
    Empty,
    #[error("the value has more than {0} bytes")]
    Size(usize),
    #[error("the value cannot be used: {0}")]
    Value(String),
    #[error("`{0}` and the stored credential `{1}` cannot be told apart: case and punctuation of names do not count")]
    Alike(String, String),
    #[error("there are {0} credentials, the maximum")]
    TooMany(usize),
    #[error("there is no store that keeps credentials")]
    NoStore,
    #[error("{0}")]
    Key(KeyProblem),
    #[error("the stored credential `{0}` was encrypted with another key than this one")]
    OtherKey(String),
    #[error("the system provides no random numbers")]
    Random,
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl VaultError {
    /// Returns advice on how to fix it.
    pub fn hint(&self) -> &str {
        match self {
            VaultError::Name => "choose another name",
            VaultError::Empty | VaultError::Value(_) => {
                "a value is a text, a URL, or an object with fields such as host, user and password"
            }
            VaultError::Size(_) => "the operator can raise `server.max_credential_bytes` in windlass.toml",
            VaultError::TooMany(_) => {
                "remove unused ones; the operator can raise `server.max_credentials` in windlass.toml"
            }
            VaultError::Alike(..) => "use the stored name, or remove it first",
            VaultError::NoStore => "start the server with a store",
            VaultError::Key(problem) => &problem.hint,
            VaultError::OtherKey(_) => {
                "give the key that the others were encrypted with; or remove those that `windlass credentials list` \
                 shows as unusable"
            }
            VaultError::Random | VaultError::Store(_) => "`windlass doctor` checks the store",
        }
    }
}

type KeyProvider = dyn Fn(KeyAccess) -> Result<VaultKey, KeyProblem> + Send + Sync;
type StoreFinder = dyn Fn() -> Option<Arc<dyn Store>> + Send + Sync;

/// The credentials of a store. Clones share the store, and what they learn for redaction.
#[derive(Clone, Default)]
pub struct CredentialVault(Arc<Inner>);

struct Inner {
    store: RwLock<Option<Arc<dyn Store>>>,
    find_store: Box<StoreFinder>,
    provide_key: RwLock<Arc<KeyProvider>>,
    known: KnownSecrets,
}

impl Default for Inner {
    fn default() -> Inner {
        let none = |_| Err(KeyProblem { message: "there is no key".to_owned(), hint: "name a store".to_owned() });
        Inner {
            store: RwLock::default(),
            find_store: Box::new(|| None),
            provide_key: RwLock::new(Arc::new(none)),
            known: KnownSecrets::default(),
        }
    }
}

impl fmt::Debug for CredentialVault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialVault(***)")
    }
}

impl CredentialVault {
    /// Creates a vault. The key is requested whenever it is needed. Until a store is attached, `find_store` opens the
    /// one that may exist.
    pub fn new(
        find_store: impl Fn() -> Option<Arc<dyn Store>> + Send + Sync + 'static,
        provide_key: impl Fn(KeyAccess) -> Result<VaultKey, KeyProblem> + Send + Sync + 'static,
    ) -> CredentialVault {
        CredentialVault(Arc::new(Inner {
            store: RwLock::default(),
            find_store: Box::new(find_store),
            provide_key: RwLock::new(Arc::new(provide_key)),
            known: KnownSecrets::default(),
        }))
    }

    /// Uses the credentials of this store.
    pub fn attach(&self, store: Arc<dyn Store>) {
        *self.0.store.write().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    /// Uses a store in memory, with a key that ends with the process.
    pub fn attach_in_memory(&self, store: Arc<dyn Store>) -> Result<(), VaultError> {
        let mut key = VaultKey::default();
        SystemRandom::new().fill(&mut key).map_err(|_| VaultError::Random)?;
        *self.0.provide_key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(move |_| Ok(key));
        self.attach(store);
        Ok(())
    }

    /// Returns the secrets that this process knows; those of opened credentials are added.
    pub fn known_secrets(&self) -> &KnownSecrets {
        &self.0.known
    }

    /// Encrypts and stores a credential in place of an earlier one of this name: a text, a URL, or a JSON object.
    pub fn set(&self, name: &str, value: &str, by: &str, limits: VaultLimits) -> Result<StoredCredential, VaultError> {
        let store = self.store().ok_or(VaultError::NoStore)?;
        check_name(name)?;
        let value = value.trim();
        let credential = check_value(value, limits.max_credential_bytes)?;
        let variable = auth_variable(name);
        let others = all_records(&*store)?;
        let cipher = self.cipher_for(&others, &variable)?;
        check_others(&others, &variable, name, &cipher, limits.max_credentials)?;
        let at = real_now();
        let described = StoredCredential {
            name: name.to_owned(),
            kind: kind_of(&credential),
            changed_at: at.to_string(),
            by: by.to_owned(),
            problem: None,
        };
        let record = SealedRecord::seal(&cipher, &variable, &described, value).ok_or(VaultError::Random)?;
        // Learned first: nothing may use the value before it is redacted.
        self.0.known.learn(&variable, credential.secrets());
        store.change_records(vec![RecordChange::put(KIND, &variable, record.encode(), at)])?;
        Ok(described)
    }

    /// Lists all credentials by name, without their values.
    pub fn list(&self) -> Result<Vec<StoredCredential>, StoreError> {
        let Some(store) = self.store() else { return Ok(Vec::new()) };
        let records = all_records(&*store)?;
        // Without a credential there need not be a key.
        let key = if records.is_empty() { None } else { Some(self.key(KeyAccess::Existing)) };
        let mut all: Vec<StoredCredential> = records.iter().map(|record| describe(record, key.as_ref())).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    /// Returns the names of all credentials. Unreadable ones are left out.
    pub fn names(&self) -> Vec<String> {
        let records = self.store().and_then(|store| all_records(&*store).ok()).unwrap_or_default();
        records.iter().filter_map(VaultRecord::decode).map(|record| record.name).collect()
    }

    /// Removes a credential. Returns false if there is none of this name.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let Some(store) = self.store() else { return Ok(false) };
        let key = auth_variable(name);
        if read_record(&*store, &key)?.is_none() {
            return Ok(false);
        }
        store.change_records(vec![RecordChange::remove(KIND, &key, real_now())])
    }

    /// Returns the value for the variable of an alias, such as `WINDLASS_AUTH_PG_MAIN`, and adds its secrets to those
    /// that are redacted. `None` if there is no such credential.
    pub fn open(&self, variable: &str) -> Result<Option<String>, UnopenedCredential> {
        let Some(store) = self.store() else { return Ok(None) };
        let record = read_record(&*store, variable).map_err(|error| UnopenedCredential {
            reason: format!("the store cannot be read: {error}"),
            hint: "`windlass doctor` checks the store".to_owned(),
        })?;
        let Some(record) = record else { return Ok(None) };
        let value = open_record(&record, &self.key(KeyAccess::Existing))?;
        let secrets = Credential::from_text(&value).map(|credential| credential.secrets()).unwrap_or_default();
        self.0.known.learn(variable, secrets);
        Ok(Some(value))
    }

    /// Adds the secrets of all credentials to those that are redacted. Returns the names of those that cannot be
    /// opened, with the reason.
    pub fn learn_all(&self) -> Vec<(String, UnopenedCredential)> {
        let records = self.store().and_then(|store| all_records(&*store).ok()).unwrap_or_default();
        let opened = records.iter().map(|record| (record.display_name(), self.open(&record.variable)));
        opened.filter_map(|(name, opened)| Some((name, opened.err()?))).collect()
    }

    fn store(&self) -> Option<Arc<dyn Store>> {
        let attached = self.0.store.read().unwrap_or_else(PoisonError::into_inner).clone();
        attached.or_else(|| {
            let found = (self.0.find_store)()?;
            let mut store = self.0.store.write().unwrap_or_else(PoisonError::into_inner);
            Some(store.get_or_insert(found).clone())
        })
    }

    fn key(&self, access: KeyAccess) -> Result<VaultCipher, KeyProblem> {
        let provide = self.0.provide_key.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(VaultCipher::new(&provide(access)?))
    }

    /// Returns the key for a new value. It is created only if no other value was encrypted before.
    fn cipher_for(&self, others: &[VaultRecord], variable: &str) -> Result<VaultCipher, VaultError> {
        let access = match others.iter().any(|record| record.variable != variable) {
            true => KeyAccess::Existing,
            false => KeyAccess::CreateIfMissing,
        };
        self.key(access).map_err(VaultError::Key)
    }
}

fn check_name(name: &str) -> Result<(), VaultError> {
    let is_valid = (1..=MAX_NAME_CHARS).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        && name.trim() == name
        && name.contains(|c: char| c.is_ascii_alphanumeric());
    if is_valid { Ok(()) } else { Err(VaultError::Name) }
}

fn check_value(value: &str, max_bytes: usize) -> Result<Credential, VaultError> {
    if value.is_empty() {
        return Err(VaultError::Empty);
    }
    if value.len() > max_bytes {
        return Err(VaultError::Size(max_bytes));
    }
    let credential = Credential::from_text(value).map_err(|error| VaultError::Value(error.message.to_string()))?;
    if credential.url().is_none() && credential.field_names().next().is_none() {
        return Err(VaultError::Value("it is an object without fields".to_owned()));
    }
    Ok(credential)
}

fn check_others(
    others: &[VaultRecord],
    variable: &str,
    name: &str,
    cipher: &VaultCipher,
    max_credentials: usize,
) -> Result<(), VaultError> {
    let replaces = others.iter().any(|other| other.variable == variable);
    if !replaces && others.len() >= max_credentials {
        return Err(VaultError::TooMany(max_credentials));
    }
    for other in others {
        let Some(record) = other.decode() else { continue };
        if other.variable == variable && record.name != name {
            return Err(VaultError::Alike(name.to_owned(), record.name));
        }
        if other.variable != variable && record.key_id != cipher.id() {
            return Err(VaultError::OtherKey(record.name));
        }
    }
    Ok(())
}

/// Returns the kind that lists show.
fn kind_of(credential: &Credential) -> String {
    let is_word = |text: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
        (1..=MAX_KIND_CHARS).contains(&text.len()) && text.chars().all(is_plain)
    };
    match (credential.url(), credential.field(&["type"]).filter(is_word)) {
        (_, Some(kind)) => kind.to_owned(),
        (Some(url), None) if url.contains("://") => "url".to_owned(),
        (Some(_), None) => "text".to_owned(),
        (None, None) => "fields".to_owned(),
    }
}

/// A record of the store under the variable of its name.
struct VaultRecord {
    variable: String,
    /// `None` if the store finds that it is damaged.
    row: Option<RecordRow>,
}

impl VaultRecord {
    fn decode(&self) -> Option<SealedRecord> {
        SealedRecord::decode(self.row.as_ref()?)
    }

    /// Returns the name, or one that finds the record again.
    fn display_name(&self) -> String {
        let from_variable = || self.variable.trim_start_matches(&auth_variable("")).to_owned();
        self.decode().map_or_else(from_variable, |record| record.name)
    }
}

/// Reads all records. A damaged one is among them: the others are not affected.
fn all_records(store: &dyn Store) -> Result<Vec<VaultRecord>, StoreError> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = store.record_keys(KIND, &after, PAGE_SIZE)?;
        let Some(last) = page.last() else { return Ok(all) };
        after.clone_from(last);
        for key in &page {
            all.extend(read_record(store, key)?);
        }
    }
}

fn read_record(store: &dyn Store, variable: &str) -> Result<Option<VaultRecord>, StoreError> {
    let variable = variable.to_owned();
    match store.record(KIND, &variable) {
        Ok(row) => Ok(row.map(|row| VaultRecord { variable, row: Some(row) })),
        Err(error) if error.kind == StoreErrorKind::Damaged => Ok(Some(VaultRecord { variable, row: None })),
        Err(error) => Err(error),
    }
}

fn open_record(stored: &VaultRecord, key: &Result<VaultCipher, KeyProblem>) -> Result<String, UnopenedCredential> {
    let damaged = || UnopenedCredential {
        reason: "its record in the store is damaged".to_owned(),
        hint: format!("set it again: {}", set_command(&stored.display_name())),
    };
    let record = stored.decode().ok_or_else(damaged)?;
    let cipher = key
        .as_ref()
        .map_err(|problem| UnopenedCredential { reason: problem.message.clone(), hint: problem.hint.clone() })?;
    if record.key_id != cipher.id() {
        return Err(UnopenedCredential {
            reason: "it was encrypted with another key than this one".to_owned(),
            hint: format!("give the key of that time, or set it again: {}", set_command(&record.name)),
        });
    }
    record.open(cipher, &stored.variable).ok_or_else(damaged)
}

fn describe(stored: &VaultRecord, key: Option<&Result<VaultCipher, KeyProblem>>) -> StoredCredential {
    let problem = key.and_then(|key| open_record(stored, key).err()).map(|problem| problem.reason);
    let unknown = || "unknown".to_owned();
    match stored.decode() {
        Some(record) => record.describe(problem),
        None => StoredCredential {
            name: stored.display_name(),
            kind: unknown(),
            changed_at: stored.row.as_ref().map_or_else(unknown, |row| row.at.to_string()),
            by: unknown(),
            problem,
        },
    }
}

/// Returns the command that stores a credential under this name.
pub(crate) fn set_command(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => format!("`windlass credentials set {name}`"),
        false => format!("`windlass credentials set '{}'`", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests;
