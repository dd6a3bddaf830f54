//! References to secrets, which travel through a run as text: `<secret:alias:field:proof>`.
//!
//! The proof is made with a key of the machine that runs the engine, so that no text from elsewhere becomes a
//! reference. It is valid for one run tree: references are visible to everyone who may read a run, and a reference
//! copied into another run is plain text there. The default of a definition has no proof, `<secret:alias:field:>`;
//! each run that uses the default gets its own reference.

use std::fmt;
use std::sync::{Arc, OnceLock};

use windlass_runtime::{
    InputGate, SECRET_REFERENCE_PREFIX, SecureInput, SecureShape, has_secret_reference, neutralize_references,
};
use windlass_value::{Map, Value};

use crate::http::uri::{escape, is_unreserved, unescape};

const END: char = '>';
const PROOF_CHARS: usize = 32;
const FINGERPRINT_CHARS: usize = 16;

/// Keys of an object that names a secret: `{"$secret": "alias"}` or `{"$secret": "alias", "field": "password"}`.
const SECRET_KEY: &str = "$secret";
const FIELD_KEY: &str = "field";

type KeyProvider = dyn Fn() -> Option<[u8; 32]> + Send + Sync;

/// Makes references to secrets and recognizes its own.
#[derive(Clone)]
pub struct SecretSealer {
    provide_key: Arc<KeyProvider>,
    key: Arc<OnceLock<[u8; 32]>>,
    /// Accepts a secure parameter that contains the secret itself.
    lenient: bool,
}

impl fmt::Debug for SecretSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals(***)")
    }
}

pub(super) enum TextSegment<'a> {
    Plain(&'a str),
    Sealed { seal: &'a str, alias: String, field: String },
}

impl SecretSealer {
    /// Creates a sealer. The key is requested when the first reference is made or met. Without a key there are no
    /// references.
    pub fn new(make: impl Fn() -> Option<[u8; 32]> + Send + Sync + 'static) -> SecretSealer {
        SecretSealer { provide_key: Arc::new(make), key: Arc::default(), lenient: false }
    }

    /// Allows a secure parameter to contain the secret itself, which is then persisted. For trusted definitions and
    /// inputs.
    #[must_use]
    pub fn lenient(self) -> SecretSealer {
        SecretSealer { lenient: true, ..self }
    }

    fn proof(&self, run_tree: &str, alias: &str, field: &str) -> Option<String> {
        self.hash(&[run_tree, alias, field], PROOF_CHARS)
    }

    /// Returns a fingerprint by which two holders of the key recognize that it is the same. It reveals nothing about
    /// the key. `None` if there is no key.
    pub(super) fn key_fingerprint(&self) -> Option<String> {
        self.hash(&["mark"], FINGERPRINT_CHARS)
    }

    fn hash(&self, parts: &[&str], chars: usize) -> Option<String> {
        let key = match self.key.get() {
            Some(key) => key,
            // A missing key may become available later.
            None => {
                let key = (self.provide_key)()?;
                self.key.get_or_init(|| key)
            }
        };
        let mut hasher = blake3::Hasher::new_keyed(key);
        for part in parts {
            // The length prefix ensures that no two lists of parts have the same hash input.
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        let mut hash = hasher.finalize().to_hex().to_string();
        hash.truncate(chars);
        Some(hash)
    }

    /// Returns the reference to a field of a credential for a run tree, or `None` without a key.
    pub fn seal(&self, run_tree: &str, alias: &str, field: &str) -> Option<String> {
        Some(format_reference(alias, field, &self.proof(run_tree, alias, field)?))
    }

    /// Splits a text into references that were made here for this run tree and the text between them.
    pub(super) fn segments<'a>(&self, run_tree: &str, text: &'a str) -> Vec<TextSegment<'a>> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(SECRET_REFERENCE_PREFIX) {
            let (plain, from) = rest.split_at(at);
            match parse_reference(from).filter(|read| read.has_valid_proof(self, run_tree)) {
                Some(ParsedReference { seal, alias, field, .. }) => {
                    pieces.extend([TextSegment::Plain(plain), TextSegment::Sealed { seal, alias, field }]);
                    rest = &from[seal.len()..];
                }
                None => {
                    pieces.push(TextSegment::Plain(&rest[..at + SECRET_REFERENCE_PREFIX.len()]));
                    rest = &from[SECRET_REFERENCE_PREFIX.len()..];
                }
            }
        }
        pieces.push(TextSegment::Plain(rest));
        pieces
    }

    /// Replaces everything that names a secret in a secure parameter by references. Without a run tree the references
    /// have no proof yet.
    pub(crate) fn seal_value(&self, value: &Value, shape: SecureShape, run_tree: Option<&str>) -> SealOutcome {
        let make_reference = |(alias, field): (String, String)| match run_tree {
            Some(family) => self.seal(family, &alias, &field),
            None => Some(format_reference(&alias, &field, "")),
        };
        match value {
            Value::Null => SealOutcome::Sealed(Value::Null),
            Value::Map(map) if map.contains_key(SECRET_KEY) => {
                match (shape, secret_in_object(map).and_then(make_reference)) {
                    (SecureShape::Text, Some(seal)) => SealOutcome::Sealed(Value::from(seal)),
                    (_, None) => SealOutcome::Invalid,
                    _ => SealOutcome::ObjectAsSecret,
                }
            }
            // Each field of an object must name its own secret.
            Value::Map(map) if shape == SecureShape::Object => {
                let mut sealed = Map::new();
                for (key, inner) in map.iter() {
                    let secret = match inner {
                        Value::Map(map) if map.contains_key(SECRET_KEY) => secret_in_object(map),
                        Value::Str(text) if is_reference(text) => secret_in_reference(text),
                        _ => return SealOutcome::Literal,
                    };
                    match secret.and_then(make_reference) {
                        Some(seal) => drop(sealed.insert(key.clone(), seal)),
                        None => return SealOutcome::Invalid,
                    }
                }
                SealOutcome::Sealed(Value::map(sealed))
            }
            // A reference as another run displays it, or a default: here it names the secret but proves nothing.
            Value::Str(text) if is_reference(text) => match secret_in_reference(text).and_then(make_reference) {
                Some(seal) => SealOutcome::Sealed(Value::from(seal)),
                None => SealOutcome::Invalid,
            },
            _ => SealOutcome::Literal,
        }
    }

    /// Seals the default of a secure input without a run tree; `None` if it has no default.
    pub fn seal_default(&self, input: &SecureInput) -> Option<SealOutcome> {
        Some(self.seal_value(input.default.as_ref()?, input.shape, None))
    }
}

/// A text that has the form of a reference.
struct ParsedReference<'a> {
    seal: &'a str,
    alias: String,
    field: String,
    proof: &'a str,
}

impl ParsedReference<'_> {
    fn has_valid_proof(&self, seals: &SecretSealer, run_tree: &str) -> bool {
        seals.proof(run_tree, &self.alias, &self.field).is_some_and(|proof| proof == self.proof)
    }
}

/// Parses the reference at the beginning of the text.
fn parse_reference(from: &str) -> Option<ParsedReference<'_>> {
    let seal = &from[..=from.find(END)?];
    let mut parts = seal.strip_prefix(SECRET_REFERENCE_PREFIX)?.strip_suffix(END)?.split(':');
    let (alias, field, proof) = (unescape(parts.next()?), unescape(parts.next()?), parts.next()?);
    parts.next().is_none().then_some(ParsedReference { seal, alias, field, proof })
}

fn format_reference(alias: &str, field: &str, proof: &str) -> String {
    format!("{SECRET_REFERENCE_PREFIX}{}:{}:{proof}{END}", escape(alias, is_unreserved), escape(field, is_unreserved))
}

/// Returns true if the text consists of exactly one reference.
fn is_reference(text: &str) -> bool {
    parse_reference(text).is_some_and(|read| {
        let whole = read.proof.is_empty() || read.proof.len() == PROOF_CHARS;
        whole && read.seal.len() == text.len()
    })
}

fn secret_in_reference(text: &str) -> Option<(String, String)> {
    parse_reference(text).map(|read| (read.alias, read.field))
}

/// Returns the alias and the field that the object names.
fn secret_in_object(map: &Map) -> Option<(String, String)> {
    let alias = map.get(SECRET_KEY).and_then(Value::as_str)?;
    let field = map.get(FIELD_KEY).map_or(Some(""), Value::as_str)?;
    let others = map.keys().any(|key| !matches!(&**key, SECRET_KEY | FIELD_KEY));
    (!others).then(|| (alias.to_owned(), field.to_owned()))
}

/// The result of sealing a value.
#[derive(Clone, Debug, PartialEq)]
pub enum SealOutcome {
    Sealed(Value),
    /// The value is the secret itself.
    Literal,
    /// An object cannot be a single secret.
    ObjectAsSecret,
    /// The value names no secret, or there is no key.
    Invalid,
}

impl SealOutcome {
    /// Returns the problem as a phrase that follows the name of the parameter.
    pub fn problem(&self) -> &'static str {
        match self {
            SealOutcome::Sealed(_) => "is as it should be",
            SealOutcome::Literal => {
                "is secure, and its value would be stored in plain text: name a credential, {\"$secret\": \"alias\"}"
            }
            SealOutcome::ObjectAsSecret => {
                "is not a text: give an object whose fields name credentials, {\"password\": {\"$secret\": \"alias\"}}"
            }
            SealOutcome::Invalid => "names no credential: {\"$secret\": \"alias\"}, with \"field\" if it has several",
        }
    }
}

/// Secure parameters enter as references; all other values from outside are stripped of references.
impl InputGate for SecretSealer {
    fn admit(&self, secure: &[SecureInput], run_tree: &str, input: Value) -> Result<Value, String> {
        let Value::Map(map) = &input else { return Ok(neutralize_references(input)) };
        let mut admitted = Map::new();
        for (name, value) in map.iter() {
            let value = match secure.iter().find(|secure| *secure.name == **name) {
                None => neutralize_references(value.clone()),
                Some(secure) => match self.seal_value(value, secure.shape, Some(run_tree)) {
                    SealOutcome::Sealed(sealed) => sealed,
                    SealOutcome::Literal if self.lenient => neutralize_references(value.clone()),
                    other => return Err(format!("the parameter `{name}` {}", other.problem())),
                },
            };
            admitted.insert(name.clone(), value);
        }
        Ok(Value::map(admitted))
    }

    fn defaults(&self, secure: &[SecureInput], run_tree: &str) -> Result<Value, String> {
        let mut defaults = Map::new();
        for input in secure {
            let Some(value) = input.default.as_ref().filter(|value| has_secret_reference(value)) else { continue };
            match self.seal_value(value, input.shape, Some(run_tree)) {
                SealOutcome::Sealed(sealed) => drop(defaults.insert(input.name.clone(), sealed)),
                SealOutcome::Literal if self.lenient => {}
                other => return Err(format!("the default of the parameter `{}` {}", input.name, other.problem())),
            }
        }
        Ok(if defaults.is_empty() { Value::Null } else { Value::map(defaults) })
    }
}
