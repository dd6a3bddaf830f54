//! External input of a run: inputs, deliveries, signals, replies.
//!
//! A run may hold references to secrets, which are opened where a tool is called. An external caller must not be able
//! to inject one: text that looks like a reference is neutralized before it is stored.

use std::sync::Arc;

use windlass_core::plan::{Plan, VariableKind};
use windlass_value::{Map, Value};

/// The prefix of a reference to a secret.
pub const SECRET_REFERENCE_PREFIX: &str = "<secret:";

const NEUTRALIZED_PREFIX: &str = "<secret :";

/// Returns the value with all secret references neutralized.
pub fn neutralize_references(value: Value) -> Value {
    match &value {
        _ if !has_secret_reference(&value) => value,
        Value::Str(text) => Value::from(text.replace(SECRET_REFERENCE_PREFIX, NEUTRALIZED_PREFIX)),
        Value::List(items) => Value::list(items.iter().cloned().map(neutralize_references).collect()),
        Value::Map(map) => {
            let entry = |(key, inner): (&Arc<str>, &Value)| {
                (
                    Arc::<str>::from(key.replace(SECRET_REFERENCE_PREFIX, NEUTRALIZED_PREFIX)),
                    neutralize_references(inner.clone()),
                )
            };
            Value::map(map.iter().map(entry).collect::<Map>())
        }
        _ => value,
    }
}

/// Reports whether a value contains a secret reference, in a text or in a key: a key may become a text in an
/// expression.
pub fn has_secret_reference(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.contains(SECRET_REFERENCE_PREFIX),
        Value::List(items) => items.iter().any(has_secret_reference),
        Value::Map(map) => {
            map.iter().any(|(key, inner)| key.contains(SECRET_REFERENCE_PREFIX) || has_secret_reference(inner))
        }
        _ => false,
    }
}

/// The shape of a secure input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureShape {
    /// One secret.
    Text,
    /// Several secrets, each in its own field.
    Object,
    /// Any other shape; no secret has it.
    Other,
}

/// An input of a definition that holds a secret. Gates see these instead of the plan.
#[derive(Clone, Debug)]
pub struct SecureInput {
    /// The name of the parameter.
    pub name: Arc<str>,
    /// The shape that the parameter's type allows.
    pub shape: SecureShape,
    /// The value in the definition for a run that gives none.
    pub default: Option<Value>,
}

/// Returns the secure inputs of a plan.
pub fn secure_inputs(plan: &Plan) -> Vec<SecureInput> {
    let secure = plan.parameters.iter().filter(|parameter| parameter.secure);
    let input = secure.map(|parameter| SecureInput {
        name: parameter.name.clone(),
        shape: match parameter.kind {
            VariableKind::String | VariableKind::Any => SecureShape::Text,
            VariableKind::Object => SecureShape::Object,
            _ => SecureShape::Other,
        },
        default: parameter.default.clone(),
    });
    input.collect()
}

/// Checks and replaces the inputs of a run before they are stored.
pub trait InputGate: Send + Sync {
    /// Returns the input as a run of that run tree stores it, or a message that describes what is wrong with it.
    fn admit(&self, secure: &[SecureInput], run_tree: &str, input: Value) -> Result<Value, String>;

    /// Returns an object whose fields replace the plan's defaults in a run of that run tree; null if none is replaced.
    fn defaults(&self, _secure: &[SecureInput], _run_tree: &str) -> Result<Value, String> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use windlass_value::{parse_json, to_json};

    use super::*;

    #[test]
    fn values_that_look_like_references_are_neutralized() {
        for (given, kept) in [
            (r#"{"a":[1,"x <secret:a:b:c> y"]}"#, r#"{"a":[1,"x <secret :a:b:c> y"]}"#),
            (r#"{"<secret:a":{"b":null}}"#, r#"{"<secret :a":{"b":null}}"#),
            (r#"["<secret","secret:"]"#, r#"["<secret","secret:"]"#),
        ] {
            assert_eq!(to_json(&neutralize_references(parse_json(given).expect("JSON"))), kept);
        }
    }
}
