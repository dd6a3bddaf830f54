//! The rules for labels of runs: short names and texts, by which listings find runs.

use windlass_value::{Value, to_json};

use crate::Limits;

/// Returns the reason why a label cannot have this name.
pub fn label_name_problem(name: &str, limits: &Limits) -> Option<String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) || !name.chars().all(allowed) {
        return Some(format!(
            "`{}` cannot be the name of a label: letters, digits and -_./ are allowed, the first is a letter or a digit",
            name.escape_debug()
        ));
    }
    let max = limits.max_label_name_chars;
    (name.chars().count() > max)
        .then(|| format!("the name of the label `{name}` is longer than {max} characters (`max_label_name_chars`)"))
}

/// Returns the reason why a label cannot have this value.
pub fn label_value_problem(name: &str, value: &str, limits: &Limits) -> Option<String> {
    if value.chars().any(char::is_control) {
        return Some(format!("the value of the label `{name}` contains control characters"));
    }
    let max = limits.max_label_value_chars;
    (value.chars().count() > max)
        .then(|| format!("the value of the label `{name}` is longer than {max} characters (`max_label_value_chars`)"))
}

/// Returns an evaluated label as text: numbers and booleans as they are written in JSON. `None` for a list or an
/// object.
pub fn label_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(text) => Some(text.to_string()),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_) => Some(to_json(value)),
        Value::Null | Value::List(_) | Value::Map(_) | Value::Stored(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_short_and_plain() {
        let limits = Limits::default();
        for name in ["customer", "team/eu", "a.b-c_1", "7"] {
            assert_eq!(label_name_problem(name, &limits), None, "{name}");
        }
        for name in ["", "-a", "a b", "a=b", "ü", &"x".repeat(65)] {
            assert!(label_name_problem(name, &limits).is_some(), "{name}");
        }
        assert_eq!(label_value_problem("a", "Ümläut & Co, = 5", &limits), None);
        assert_eq!(label_value_problem("a", "", &limits), None);
        assert!(label_value_problem("a", "two\nlines", &limits).is_some());
        assert!(label_value_problem("a", &"x".repeat(257), &limits).is_some());
    }

    #[test]
    fn scalars_become_text() {
        assert_eq!(label_text(&Value::from(7i64)), Some("7".to_owned()));
        assert_eq!(label_text(&Value::Bool(true)), Some("true".to_owned()));
        assert_eq!(label_text(&Value::from("x")), Some("x".to_owned()));
        assert_eq!(label_text(&Value::list(Vec::new())), None);
    }
}
