//! The record of a credential: its description, and its value encrypted with ChaCha20-Poly1305.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value as Json, json};
use windlass_store::RecordRow;

use super::{StoredCredential, VaultKey};

/// Separates the uses of a vault's key: the encryption of values, and a name by which the key is recognized.
const VALUE_PURPOSE: &str = "windlass 2026 values of stored credentials";
const ID_PURPOSE: &str = "windlass 2026 id of the key of stored credentials";

/// Characters of a key's id.
const ID_CHARS: usize = 16;

/// A key that is ready for use.
pub(super) struct VaultCipher {
    /// `None` only if the library rejects a key of the right length, which it does not.
    key: Option<LessSafeKey>,
    id: String,
}

impl VaultCipher {
    pub(super) fn new(key: &VaultKey) -> VaultCipher {
        let derived = blake3::derive_key(VALUE_PURPOSE, key);
        let mut id: String = blake3::derive_key(ID_PURPOSE, key).iter().map(|byte| format!("{byte:02x}")).collect();
        id.truncate(ID_CHARS);
        VaultCipher { key: UnboundKey::new(&CHACHA20_POLY1305, &derived).ok().map(LessSafeKey::new), id }
    }

    /// Identifies the key and reveals nothing about it.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    fn seal(&self, authenticated: &str, value: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).ok()?;
        let mut sealed = value.as_bytes().to_vec();
        let tag = self.key.as_ref()?.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(authenticated),
            &mut sealed,
        );
        Some(STANDARD.encode([nonce.as_slice(), &sealed, tag.ok()?.as_ref()].concat()))
    }

    fn open(&self, authenticated: &str, sealed: &str) -> Option<String> {
        let bytes = STANDARD.decode(sealed).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self.key.as_ref()?.open_in_place(nonce, Aad::from(authenticated), &mut sealed).ok()?;
        String::from_utf8(opened.to_vec()).ok()
    }
}

/// A record as it is stored.
pub(super) struct SealedRecord {
    pub(super) name: String,
    kind: String,
    changed_at: String,
    by: String,
    /// The id of the key that encrypted the value.
    pub(super) key_id: String,
    sealed: String,
}

impl SealedRecord {
    /// Encrypts a value; `None` if the system has no random numbers.
    pub(super) fn seal(
        cipher: &VaultCipher,
        variable: &str,
        about: &StoredCredential,
        value: &str,
    ) -> Option<SealedRecord> {
        let mut record = SealedRecord {
            name: about.name.clone(),
            kind: about.kind.clone(),
            changed_at: about.changed_at.clone(),
            by: about.by.clone(),
            key_id: cipher.id().to_owned(),
            sealed: String::new(),
        };
        record.sealed = cipher.seal(&record.authenticated_text(variable), value)?;
        Some(record)
    }

    /// Decrypts the value; `None` if anything about the record was changed.
    pub(super) fn open(&self, cipher: &VaultCipher, variable: &str) -> Option<String> {
        cipher.open(&self.authenticated_text(variable), &self.sealed)
    }

    /// Returns everything but the value.
    fn authenticated_text(&self, variable: &str) -> String {
        json!([variable, self.name, self.kind, self.changed_at, self.by]).to_string()
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let SealedRecord { name, kind, changed_at, by, key_id, sealed } = self;
        let body = json!({ "name": name, "kind": kind, "changed_at": changed_at, "by": by, "key_id": key_id,
                           "sealed": sealed });
        body.to_string().into_bytes()
    }

    pub(super) fn decode(row: &RecordRow) -> Option<SealedRecord> {
        let body: Json = serde_json::from_slice(&row.body).ok()?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        Some(SealedRecord {
            name: text("name")?,
            kind: text("kind")?,
            changed_at: text("changed_at")?,
            by: text("by")?,
            key_id: text("key_id")?,
            sealed: text("sealed")?,
        })
    }

    pub(super) fn describe(self, problem: Option<String>) -> StoredCredential {
        StoredCredential { name: self.name, kind: self.kind, changed_at: self.changed_at, by: self.by, problem }
    }
}
