//! What comes into a run from outside: inputs, deliveries, signals, replies.
//!
//! A run may hold references to secrets, texts that are opened where a tool is called. Whoever is outside must not be able
//! to hand one in: what looks like a reference is broken before it is kept.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_value::{Map, Value};

/// How a reference to a secret begins.
pub const REFERENCE: &str = "<secret:";

const BROKEN: &str = "<secret :";

/// The value without references.
pub fn outside(value: Value) -> Value {
    match &value {
        _ if !has_reference(&value) => value,
        Value::Str(text) => Value::from(text.replace(REFERENCE, BROKEN)),
        Value::List(items) => Value::list(items.iter().cloned().map(outside).collect()),
        Value::Map(map) => {
            let entry = |(key, inner): (&Arc<str>, &Value)| {
                (Arc::<str>::from(key.replace(REFERENCE, BROKEN)), outside(inner.clone()))
            };
            Value::map(map.iter().map(entry).collect::<Map>())
        }
        _ => value,
    }
}

/// Also in a key: it may become a text in an expression.
pub fn has_reference(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.contains(REFERENCE),
        Value::List(items) => items.iter().any(has_reference),
        Value::Map(map) => map.iter().any(|(key, inner)| key.contains(REFERENCE) || has_reference(inner)),
        _ => false,
    }
}

/// Looks at what a run is started with.
pub trait Gate: Send + Sync {
    /// The input as it is kept by a run of that family, or a sentence that says what is wrong with it.
    fn admit(&self, plan: &Plan, family: &str, input: Value) -> Result<Value, String>;

    /// What stands in the place of the plan's defaults in a run of that family, as an object; null if they are as they
    /// are.
    fn defaults(&self, _plan: &Plan, _family: &str) -> Result<Value, String> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use windlass_value::{parse_json, to_json};

    use super::*;

    #[test]
    fn what_looks_like_a_reference_is_none() {
        for (given, kept) in [
            (r#"{"a":[1,"x <secret:a:b:c> y"]}"#, r#"{"a":[1,"x <secret :a:b:c> y"]}"#),
            (r#"{"<secret:a":{"b":null}}"#, r#"{"<secret :a":{"b":null}}"#),
            (r#"["<secret","secret:"]"#, r#"["<secret","secret:"]"#),
        ] {
            assert_eq!(to_json(&outside(parse_json(given).expect("JSON"))), kept);
        }
    }
}
