//! The cost of validating one value against a JSON Schema. The cost of a short schema is exponential if each
//! definition refers to the next one twice.

use std::collections::HashMap;

use crate::Value;

/// The reason why a schema is refused before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaTooLarge {
    /// With references followed there are more subschemas than this for one value.
    Wide(u64),
    /// Subschemas and references are nested deeper than this.
    Deep(usize),
}

impl std::fmt::Display for SchemaTooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SchemaTooLarge::Wide(max) => {
                write!(f, "more than {max} subschemas apply to one value (references included)")
            }
            SchemaTooLarge::Deep(max) => write!(f, "its subschemas and references are more than {max} deep"),
        }
    }
}

const MAX_WIDTH: u64 = 10_000;
const MAX_DEPTH: usize = 200;
/// Maximum number of targets searched for a reference. Beyond it, the time limit of the validation applies.
const MAX_TARGETS: usize = 100;

/// Counts the subschemas that can apply to one value, with local references followed.
///
/// Subschemas of different parts of a value do not add up. A reference to a subschema that is being counted counts as
/// one: recursion ends where the value does. The width of every subschema is computed once, and added for each
/// reference to it.
pub fn schema_width(schema: &Value) -> Result<u64, SchemaTooLarge> {
    let mut counting = WidthCounter { root: schema, named: Vec::new(), counted: HashMap::new() };
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Map(map) => {
                for key in ["$id", "id", "$anchor", "$dynamicAnchor"] {
                    if let Some(name) = map.get(key).and_then(Value::as_str) {
                        counting.named.push((name, value));
                    }
                }
                open.extend(map.values());
            }
            Value::List(items) => open.extend(items.iter()),
            _ => {}
        }
    }
    counting.width(schema, 0)
}

struct WidthCounter<'a> {
    root: &'a Value,
    /// Subschemas with an `$id` or an anchor.
    named: Vec<(&'a str, &'a Value)>,
    /// Widths by address in memory: the schema does not move meanwhile.
    counted: HashMap<*const Value, u64>,
}

impl<'a> WidthCounter<'a> {
    fn width(&mut self, schema: &'a Value, depth: usize) -> Result<u64, SchemaTooLarge> {
        let Value::Map(map) = schema else { return Ok(1) };
        let address = std::ptr::from_ref(schema);
        if let Some(width) = self.counted.get(&address) {
            return Ok(*width);
        }
        if depth == MAX_DEPTH {
            return Err(SchemaTooLarge::Deep(MAX_DEPTH));
        }
        self.counted.insert(address, 1);
        let mut width: u64 = 1;
        for (key, value) in map.iter() {
            let more = match (&**key, value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::Str(to)) => self.referenced_width(to, depth)?,
                ("allOf" | "anyOf" | "oneOf", Value::List(all)) => self.sum(all.iter(), depth)?,
                ("patternProperties" | "dependentSchemas" | "dependencies", Value::Map(all)) => {
                    self.sum(all.values(), depth)?
                }
                ("properties", Value::Map(all)) => self.max_width(all.values(), depth)?,
                ("prefixItems" | "items", Value::List(all)) => self.max_width(all.iter(), depth)?,
                (
                    "not"
                    | "if"
                    | "then"
                    | "else"
                    | "items"
                    | "additionalItems"
                    | "unevaluatedItems"
                    | "contains"
                    | "additionalProperties"
                    | "unevaluatedProperties"
                    | "propertyNames"
                    | "contentSchema"
                    | "extends",
                    value,
                ) => self.width(value, depth + 1)?,
                _ => 0,
            };
            width = width.saturating_add(more);
            if width > MAX_WIDTH {
                return Err(SchemaTooLarge::Wide(MAX_WIDTH));
            }
        }
        self.counted.insert(address, width);
        Ok(width)
    }

    fn sum(&mut self, all: impl Iterator<Item = &'a Value>, depth: usize) -> Result<u64, SchemaTooLarge> {
        let mut sum: u64 = 0;
        for one in all {
            sum = sum.saturating_add(self.width(one, depth + 1)?);
        }
        Ok(sum)
    }

    fn max_width(&mut self, all: impl Iterator<Item = &'a Value>, depth: usize) -> Result<u64, SchemaTooLarge> {
        let mut widest = 0;
        for one in all {
            widest = widest.max(self.width(one, depth + 1)?);
        }
        Ok(widest)
    }

    /// Returns the widest possible target of a reference. The schema compiler refuses a reference that leads nowhere.
    fn referenced_width(&mut self, to: &str, depth: usize) -> Result<u64, SchemaTooLarge> {
        let (document, fragment) = to.split_once('#').unwrap_or((to, ""));
        let fragment = percent_decode(fragment);
        let is_named = |name: &str| name.trim_end_matches('#').rsplit('/').next() == document.rsplit('/').next();
        let documents = self.named.iter().filter(|(name, _)| document.is_empty() || is_named(name));
        let documents: Vec<&'a Value> =
            std::iter::once(self.root).chain(documents.map(|(_, value)| *value)).take(MAX_TARGETS).collect();
        let targets: Vec<&'a Value> = match fragment.as_str() {
            "" if document.is_empty() => vec![self.root],
            "" => documents,
            pointer if pointer.starts_with('/') => {
                documents.into_iter().filter_map(|document| resolve_pointer(document, pointer)).collect()
            }
            anchor => {
                let named = self.named.iter().filter(|(name, _)| name.trim_start_matches('#') == anchor);
                named.map(|(_, value)| *value).take(MAX_TARGETS).collect()
            }
        };
        self.max_width(targets.into_iter(), depth)
    }
}

fn resolve_pointer<'a>(from: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(from, |at, step| match at {
        Value::Map(map) => map.get(&step.replace("~1", "/").replace("~0", "~")),
        Value::List(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (*first, digit(0), digit(1)) {
            // Two hexadecimal digits are a byte.
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::parse_json;

    fn chain(count: usize, link: impl Fn(&str) -> String) -> Value {
        let links: Vec<String> =
            (0..count).map(|at| format!(r#""d{at}": {}"#, link(&format!("#/$defs/d{}", at + 1)))).collect();
        let text = format!(r##"{{"$ref": "#/$defs/d0", "$defs": {{{}, "d{count}": {{}}}}}}"##, links.join(", "));
        parse_json(&text).unwrap()
    }

    #[test]
    fn references_that_double_are_refused() {
        let wide = Err(SchemaTooLarge::Wide(MAX_WIDTH));
        for kind in ["anyOf", "allOf", "oneOf"] {
            let doubled =
                |count| chain(count, |to| format!(r#"{{"{kind}": [{{"$ref": "{to}"}}, {{"$ref": "{to}"}}]}}"#));
            assert_eq!(schema_width(&doubled(40)), wide, "{kind}");
            assert!(schema_width(&doubled(5)).is_ok(), "{kind}");
        }
        // As many subschemas for each level of the value are not fewer.
        let deeper = chain(40, |to| {
            format!(r#"{{"anyOf": [{{"properties": {{"a": {{"$ref": "{to}"}}}}}}, {{"items": {{"$ref": "{to}"}}}}]}}"#)
        });
        assert_eq!(schema_width(&deeper), wide);
        let links = |link: &dyn Fn(usize) -> String| {
            let all: Vec<String> = (0..40).map(link).collect();
            parse_json(&format!(r##"{{"$ref": "#a0", "$defs": {{{}}}}}"##, all.join(", "))).unwrap()
        };
        let anchors = links(&|at| {
            let to = at + 1;
            format!(r##""{at}": {{"$anchor": "a{at}", "anyOf": [{{"$ref": "#a{to}"}}, {{"$ref": "#a{to}"}}]}}"##)
        });
        assert_eq!(schema_width(&anchors), wide);
        let ids = links(&|at| {
            let (to, anchor) = (at + 1, if at == 0 { r#""$anchor": "a0", "# } else { "" });
            format!(
                r##""{at}": {{{anchor}"$id": "http://x/i{at}", "anyOf": [{{"$ref": "i{to}"}}, {{"$ref": "i{to}#"}}]}}"##
            )
        });
        assert_eq!(schema_width(&ids), wide);
    }

    #[test]
    fn schemas_that_grow_with_the_value_are_accepted() {
        for text in [
            "true",
            "{}",
            r##"{"$ref": "#"}"##,
            r##"{"properties": {"a": {"$ref": "#"}, "b": {"items": {"$ref": "#"}}}}"##,
            r##"{"anyOf": [{"properties": {"a": {"$ref": "#/anyOf/0"}}}, {"$ref": "#/%61nyOf/0"}]}"##,
            r#"{"const": {"$ref": "nowhere"}, "properties": {"default": {"type": "string"}}}"#,
        ] {
            assert!(schema_width(&parse_json(text).unwrap()).is_ok(), "{text}");
        }
        // Different parts of a value: as many subschemas as the value has parts.
        let parts =
            chain(60, |to| format!(r#"{{"properties": {{"a": {{"$ref": "{to}"}}, "b": {{"$ref": "{to}"}}}}}}"#));
        assert!(schema_width(&parts).is_ok());
        let long = chain(5_000, |to| format!(r#"{{"$ref": "{to}"}}"#));
        assert_eq!(schema_width(&long), Err(SchemaTooLarge::Deep(MAX_DEPTH)));
    }
}
