//! Estimates the cost of validating content against a schema before the validation runs. For a schema that refers to
//! itself in several branches the cost doubles with each level of the content, and the validating crate sets
//! no limit for that.
//!
//! The estimate counts every pair of schema and value that may be visited, and stops at the limit. It may be too
//! high, because it does not know which branches end early.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

/// A chain of schemas longer than this counts as endless. Neither content nor schemas nest as deep, so a longer chain
/// consists of references to references.
const MAX_DEPTH: usize = 1000;
/// The weight of a problem inside a branch: a failing branch records all its problems, whether they matter or not.
const BRANCH_WEIGHT: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValidationCost {
    /// The number of pairs of keyword and value.
    pub steps: u64,
    /// The maximum number of problems that may be reported; those inside branches have more weight.
    pub problems: u64,
}

/// Estimates the cost of a validation; None if it exceeds `max_steps`.
pub(super) fn validation_cost(schema: &Json, value: &Json, max_steps: u64) -> Option<ValidationCost> {
    let mut count = CostCounter {
        root: schema,
        max_steps,
        sum: ValidationCost { steps: 0, problems: 0 },
        refs: HashMap::new(),
        path: vec![],
    };
    count.visit(schema, value, 1)?;
    Some(count.sum)
}

struct CostCounter<'a> {
    root: &'a Json,
    max_steps: u64,
    sum: ValidationCost,
    /// The possible targets of a reference.
    refs: HashMap<&'a str, Vec<&'a Json>>,
    /// The pairs that are being visited. A pair that occurs again inside itself is not visited again.
    path: Vec<(*const Json, *const Json)>,
}

impl<'a> CostCounter<'a> {
    fn visit(&mut self, schema: &'a Json, value: &'a Json, weight: u64) -> Option<()> {
        let keywords = schema.as_object().map_or(0, Map::len) as u64;
        self.spend(1 + keywords, weight)?;
        let Some(map) = schema.as_object() else { return Some(()) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        // Only a chain that stays at one value can return to it.
        if self.path.iter().rev().take_while(|(_, at)| *at == pair.1).any(|known| *known == pair) {
            return Some(());
        }
        if self.path.len() >= MAX_DEPTH {
            return None;
        }
        self.path.push(pair);
        // Unevaluated parts are found by visiting all the others again.
        let again = map.contains_key("unevaluatedProperties") || map.contains_key("unevaluatedItems");
        for _ in 0..=usize::from(again) {
            map.iter().try_for_each(|(keyword, part)| self.visit_in_place(keyword, part, value, weight))?;
        }
        match value {
            Json::Object(members) => self.members(map, members, weight)?,
            Json::Array(items) => self.items(map, items, weight)?,
            _ => {}
        }
        self.path.pop();
        Some(())
    }

    fn spend(&mut self, steps: u64, weight: u64) -> Option<()> {
        self.sum.steps += steps;
        self.sum.problems = self.sum.problems.saturating_add(steps * weight);
        (self.sum.steps <= self.max_steps).then_some(())
    }

    /// Visits keywords whose schemas apply to the value itself.
    fn visit_in_place(&mut self, keyword: &str, part: &'a Json, value: &'a Json, weight: u64) -> Option<()> {
        match (keyword, part) {
            ("allOf", Json::Array(all)) => all.iter().try_for_each(|one| self.visit(one, value, weight)),
            ("anyOf" | "oneOf", Json::Array(all)) => {
                all.iter().try_for_each(|one| self.visit(one, value, BRANCH_WEIGHT))
            }
            ("not" | "if" | "then" | "else", one) => self.visit(one, value, weight),
            ("dependencies" | "dependentSchemas", Json::Object(all)) => {
                let needed = all.iter().filter(|(name, _)| value.get(name.as_str()).is_some());
                needed.map(|(_, one)| one).try_for_each(|one| self.visit(one, value, weight))
            }
            ("$ref" | "$dynamicRef" | "$recursiveRef", Json::String(name)) => {
                let root = self.root;
                let found = self.refs.entry(name).or_insert_with(|| targets(root, name)).clone();
                found.into_iter().try_for_each(|one| self.visit(one, value, weight))
            }
            ("enum", Json::Array(options)) => self.spend(options.len() as u64, 0),
            _ => Some(()),
        }
    }

    fn members(&mut self, schema: &'a Map<String, Json>, members: &'a Map<String, Json>, weight: u64) -> Option<()> {
        let named = schema.get("properties").and_then(Json::as_object);
        let patterns = schema.get("patternProperties").and_then(Json::as_object);
        let others = ["additionalProperties", "unevaluatedProperties"];
        for (name, value) in members {
            let own = named.and_then(|named| named.get(name));
            own.map_or(Some(()), |one| self.visit(one, value, weight))?;
            let matching = patterns.into_iter().flat_map(Map::values);
            matching.into_iter().try_for_each(|one| self.visit(one, value, weight))?;
            let left = others.iter().filter(|_| own.is_none()).filter_map(|keyword| schema.get(*keyword));
            left.into_iter().try_for_each(|one| self.visit(one, value, weight))?;
            if let Some(one) = schema.get("propertyNames") {
                // A name is a text: nothing is nested inside it.
                self.visit(one, &Json::Null, weight)?;
            }
        }
        Some(())
    }

    fn items(&mut self, schema: &'a Map<String, Json>, items: &'a [Json], weight: u64) -> Option<()> {
        let rows = ["items", "prefixItems"].map(|keyword| schema.get(keyword).and_then(Json::as_array));
        let each = ["items", "additionalItems", "contains", "unevaluatedItems"];
        let each: Vec<&Json> = each.iter().filter_map(|keyword| schema.get(*keyword)).collect();
        for (index, value) in items.iter().enumerate() {
            let placed = rows.iter().flatten().filter_map(|row| row.get(index));
            placed.chain(each.iter().copied()).try_for_each(|one| self.visit(one, value, weight))?;
        }
        // To find duplicates, all items are compared.
        if schema.contains_key("uniqueItems") { self.spend(2 * items.len() as u64, 0) } else { Some(()) }
    }
}

/// Returns all schemas that a reference may denote. It ignores which of several embedded documents the reference is
/// relative to.
fn targets<'a>(root: &'a Json, name: &str) -> Vec<&'a Json> {
    let fragment = name.split_once('#').map_or("", |(_, fragment)| fragment);
    let mut documents = Vec::new();
    let mut named = Vec::new();
    collect(root, fragment, &mut documents, &mut named);
    if documents.first().is_none_or(|first| !std::ptr::eq(*first, root)) {
        documents.insert(0, root);
    }
    if fragment.is_empty() || fragment.starts_with('/') {
        let pointer = percent_decode(fragment);
        return documents.into_iter().filter_map(|document| document.pointer(&pointer)).collect();
    }
    named
}

/// Collects embedded documents, and the schemas that have the name.
fn collect<'a>(at: &'a Json, name: &str, documents: &mut Vec<&'a Json>, named: &mut Vec<&'a Json>) {
    let text = |keyword: &str| at.get(keyword).and_then(Json::as_str);
    let ids = [text("$id"), text("id")];
    if ids.iter().flatten().any(|id| !id.starts_with('#')) {
        documents.push(at);
    }
    let anchors = [text("$anchor"), text("$dynamicAnchor")];
    let by_id = ids.into_iter().flatten().filter_map(|id| id.split_once('#')).map(|(_, name)| name);
    if by_id.chain(anchors.into_iter().flatten()).any(|known| known == name) {
        named.push(at);
    }
    match at {
        Json::Object(map) => map.values().for_each(|inner| collect(inner, name, documents, named)),
        Json::Array(items) => items.iter().for_each(|inner| collect(inner, name, documents, named)),
        _ => {}
    }
}

/// Decodes a JSON pointer in a URI fragment, in which unusual characters are written as `%20`.
fn percent_decode(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn steps(schema: Json, value: Json) -> Option<u64> {
        validation_cost(&schema, &value, 100_000).map(|effort| effort.steps)
    }

    #[test]
    fn possible_validation_steps_are_counted() {
        assert_eq!(steps(json!(true), json!([1])), Some(1));
        assert_eq!(steps(json!({"type": "string"}), json!("x")), Some(2));
        assert_eq!(steps(json!({"items": {"type": "string"}}), json!(["x", "y"])), Some(2 + 2 * 2));
        assert_eq!(steps(json!({"properties": {"a": {"type": "string"}}}), json!({"a": 1, "b": 1})), Some(2 + 2));
        assert_eq!(steps(json!({"anyOf": [true, {"not": {}}]}), json!(5)), Some(2 + 1 + 2 + 1));
        assert_eq!(steps(json!({"$ref": "#/x%20y", "x y": {"enum": [1, 2, 3]}}), json!(5)), Some(3 + 2 + 3));
        assert_eq!(steps(json!({"$ref": "#a", "x": {"$anchor": "a"}}), json!(5)), Some(3 + 2));
        assert_eq!(steps(json!({"$ref": "i.json", "x": {"$id": "http://h/i.json"}}), json!(5)), Some(3 + 3 + 2));
    }

    #[test]
    fn an_endless_schema_has_no_cost() {
        assert_eq!(steps(json!({"$ref": "#"}), json!(5)), Some(2 + 2));
        let twice = json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
        let nested = |depth: usize| (0..depth).fold(json!([]), |inner, _| json!([inner]));
        assert!(steps(twice.clone(), nested(8)).is_some());
        assert_eq!(steps(twice, nested(60)), None);
        let row: Map<String, Json> =
            (0..2000).map(|n| (format!("d{n}"), json!({"$ref": format!("#/d{}", n + 1)}))).collect();
        let mut chain = Json::Object(row);
        chain["$ref"] = json!("#/d0");
        assert_eq!(steps(chain, json!(5)), None);
    }
}
