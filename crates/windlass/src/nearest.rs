//! Suggestions and lists of valid names for error messages.

use windlass_value::nearest;

/// Formats names as `known: `a`, `b``, or says that there are none.
pub(crate) fn list_names<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => format!("{word}: none"),
        false => format!("{word}: {}", names.join(", ")),
    }
}

/// Suggests the nearest known name, or lists all of them.
pub(crate) fn suggest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str> + Clone) -> String {
    match nearest(wrong, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => list_names("there are", known),
    }
}
