//! References to secrets that travel through a run as texts: `<secret:alias:field:proof>`. The proof is made with a key
//! of the machine that runs the engine, so that no text from elsewhere becomes one.

use std::fmt;
use std::sync::{Arc, OnceLock};

use windlass_core::plan::{Plan, VariableKind};
use windlass_runtime::{Gate, REFERENCE, outside};
use windlass_value::{Map, Value};

use crate::http::uri::{escape, is_unreserved, unescape};

const END: char = '>';
const PROOF_CHARS: usize = 32;

/// How somebody names a secret: `{"$secret": "alias"}` or `{"$secret": "alias", "field": "password"}`.
const NAMED: &str = "$secret";
const FIELD: &str = "field";

type MakesKey = dyn Fn() -> Option<[u8; 32]> + Send + Sync;

/// Makes references, and knows its own again.
#[derive(Clone)]
pub struct Seals {
    make: Arc<MakesKey>,
    key: Arc<OnceLock<Option<[u8; 32]>>>,
    /// A secure parameter may hold the secret itself.
    lenient: bool,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals(***)")
    }
}

pub(super) enum Piece<'a> {
    Plain(&'a str),
    Sealed { seal: &'a str, alias: String, field: String },
}

impl Seals {
    /// The key is asked for when the first reference is made or met. Without one there are no references.
    pub fn new(make: impl Fn() -> Option<[u8; 32]> + Send + Sync + 'static) -> Seals {
        Seals { make: Arc::new(make), key: Arc::default(), lenient: false }
    }

    /// For whoever trusts definitions and inputs: a secure parameter may hold the secret itself, which is then kept.
    #[must_use]
    pub fn lenient(self) -> Seals {
        Seals { lenient: true, ..self }
    }

    fn proof(&self, alias: &str, field: &str) -> Option<String> {
        let key = (*self.key.get_or_init(|| (self.make)()))?;
        let mut hash = blake3::keyed_hash(&key, format!("{alias}\0{field}").as_bytes()).to_hex().to_string();
        hash.truncate(PROOF_CHARS);
        Some(hash)
    }

    /// The reference to a field of a credential; none without a key.
    pub fn seal(&self, alias: &str, field: &str) -> Option<String> {
        let (shown_alias, shown_field) = (escape(alias, is_unreserved), escape(field, is_unreserved));
        Some(format!("{REFERENCE}{shown_alias}:{shown_field}:{}{END}", self.proof(alias, field)?))
    }

    /// The text in pieces: references that were made here, and what is between them.
    pub(super) fn pieces<'a>(&self, text: &'a str) -> Vec<Piece<'a>> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some(at) = rest.find(REFERENCE) {
            let (plain, from) = rest.split_at(at);
            match self.read(from) {
                Some((seal, alias, field)) => {
                    pieces.extend([Piece::Plain(plain), Piece::Sealed { seal, alias, field }]);
                    rest = &from[seal.len()..];
                }
                None => {
                    pieces.push(Piece::Plain(&rest[..at + REFERENCE.len()]));
                    rest = &from[REFERENCE.len()..];
                }
            }
        }
        pieces.push(Piece::Plain(rest));
        pieces
    }

    fn read<'a>(&self, from: &'a str) -> Option<(&'a str, String, String)> {
        let seal = &from[..=from.find(END)?];
        let mut parts = seal.strip_prefix(REFERENCE)?.strip_suffix(END)?.split(':');
        let (alias, field, proof) = (unescape(parts.next()?), unescape(parts.next()?), parts.next()?);
        (parts.next().is_none() && self.proof(&alias, &field)? == proof).then_some((seal, alias, field))
    }

    /// The value of a secure parameter with references in the place of what names secrets.
    pub fn sealed(&self, value: &Value, kind: VariableKind) -> Sealed {
        match value {
            Value::Null => Sealed::Good(Value::Null),
            Value::Map(map) if map.contains_key(NAMED) => match (kind, self.named(map)) {
                (VariableKind::String | VariableKind::Any, Some(seal)) => Sealed::Good(Value::from(seal)),
                (_, None) => Sealed::Unusable,
                _ => Sealed::NotWhole,
            },
            // Of an object each field is a secret of its own, or none.
            Value::Map(map) if kind == VariableKind::Object => {
                let mut sealed = Map::new();
                for (key, inner) in map.iter() {
                    match inner {
                        Value::Map(named) if named.contains_key(NAMED) => match self.named(named) {
                            Some(seal) => drop(sealed.insert(key.clone(), seal)),
                            None => return Sealed::Unusable,
                        },
                        _ => return Sealed::Literal,
                    }
                }
                Sealed::Good(Value::map(sealed))
            }
            Value::Str(text) if self.is_own(text) => Sealed::Good(value.clone()),
            _ => Sealed::Literal,
        }
    }

    fn named(&self, map: &Map) -> Option<String> {
        let alias = map.get(NAMED).and_then(Value::as_str)?;
        let field = map.get(FIELD).map_or(Some(""), Value::as_str)?;
        let others = map.keys().any(|key| !matches!(&**key, NAMED | FIELD));
        if others { None } else { self.seal(alias, field) }
    }

    /// Nothing but one reference, and one that was made here.
    fn is_own(&self, text: &str) -> bool {
        self.read(text).is_some_and(|(seal, ..)| seal.len() == text.len())
    }

    /// The defaults of secure parameters become references. Those that are written down as they are, are named.
    pub fn seal_defaults(&self, plan: &mut Plan) -> Vec<(Arc<str>, Sealed)> {
        let mut literal = Vec::new();
        for parameter in plan.parameters.iter_mut().filter(|parameter| parameter.secure) {
            let Some(value) = &parameter.default else { continue };
            match self.sealed(value, parameter.kind) {
                Sealed::Good(sealed) => parameter.default = Some(sealed),
                other => literal.push((parameter.name.clone(), other)),
            }
        }
        literal
    }
}

/// What came of sealing a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Sealed {
    Good(Value),
    /// It is the secret itself.
    Literal,
    /// A whole object cannot be one secret.
    NotWhole,
    /// It names nothing, or there is no key.
    Unusable,
}

impl Sealed {
    /// What is wrong, behind the parameter's name.
    pub fn problem(&self) -> &'static str {
        match self {
            Sealed::Good(_) => "is as it should be",
            Sealed::Literal => {
                "is secure, and its value would be kept as it is: name a credential, {\"$secret\": \"alias\"}"
            }
            Sealed::NotWhole => {
                "is no text: give an object whose fields name credentials, {\"password\": {\"$secret\": \"alias\"}}"
            }
            Sealed::Unusable => "names no credential: {\"$secret\": \"alias\"}, with \"field\" if it has several",
        }
    }
}

/// Secure parameters come as references; all else from outside holds none.
impl Gate for Seals {
    fn admit(&self, plan: &Plan, input: Value) -> Result<Value, String> {
        let Value::Map(map) = &input else { return Ok(outside(input)) };
        let mut admitted = Map::new();
        for (name, value) in map.iter() {
            let secure = plan.parameters.iter().find(|parameter| parameter.secure && *parameter.name == **name);
            let value = match secure {
                None => outside(value.clone()),
                Some(parameter) => match self.sealed(value, parameter.kind) {
                    Sealed::Good(sealed) => sealed,
                    Sealed::Literal if self.lenient => outside(value.clone()),
                    other => return Err(format!("the parameter `{name}` {}", other.problem())),
                },
            };
            admitted.insert(name.clone(), value);
        }
        Ok(Value::map(admitted))
    }
}
