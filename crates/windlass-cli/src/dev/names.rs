//! The names that a broken file may give its definition. Its text may not even parse, so it is searched for them.

use std::sync::Arc;

/// Keys after which no name of a definition follows.
const BODY_KEYS: [&str; 5] = ["actions", "triggers", "steps", "workflow", "workbook"];

/// Returns the names: those that its head declares, and the default of a definition without a name.
pub(super) fn possible_names(text: &str, default: Arc<str>) -> Vec<Arc<str>> {
    let parts = text.split(['\n', ',', '{', '}']).filter_map(key_and_value);
    let head = parts.take_while(|(key, _)| !BODY_KEYS.contains(key));
    let named = head.filter(|(key, value)| *key == "name" && !value.is_empty());
    named.map(|(_, name)| Arc::from(name)).chain([default]).collect()
}

/// Returns whether a text cannot show whether it is a definition: it is empty or incomplete.
pub(super) fn is_cut_off(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim();
    text.is_empty() || text.starts_with(['{', '[']) && windlass_value::parse_json(text).is_err()
}

/// Splits `key: value`, with or without quotes.
fn key_and_value(part: &str) -> Option<(&str, &str)> {
    let (key, value) = part.split_once(':')?;
    Some((unquoted(key), unquoted(value)))
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_texts_are_no_data() {
        for (text, expected) in [("", true), ("\n", true), ("{\"a\": 1", true), ("{\"a\": 1}", false), ("a: 1", false)]
        {
            assert_eq!(is_cut_off(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_found_in_texts_that_do_not_parse() {
        for (text, expected) in [
            ("{", &["file"][..]),
            (r#"{"name": "orders", "actions": {"a": {"name": "inner""#, &["orders", "file"]),
            ("{\n  \"name\": \"orders\",\n  \"actions\": [", &["orders", "file"]),
            ("name: orders\nsteps:\n  - name: [", &["orders", "file"]),
            ("kind: Playbook\nmetadata: {name: 'orders', path: a/b}\nworkflow: [", &["orders", "file"]),
            ("metadata:\n  name: \"orders\"\nworkbook:\n  - name: task", &["orders", "file"]),
            ("steps:\n  - name: a\nname: late", &["file"]),
        ] {
            let found = possible_names(text, Arc::from("file"));
            assert_eq!(found.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
