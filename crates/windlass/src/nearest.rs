//! The nearest of the names that would have been right.

use windlass_value::nearest;

/// `known: `a`, `b``, or that there is none.
pub(crate) fn list_names<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => format!("{word}: none"),
        false => format!("{word}: {}", names.join(", ")),
    }
}

/// Did you mean that, or: there are these.
pub(crate) fn suggest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str> + Clone) -> String {
    match nearest(wrong, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => list_names("there are", known),
    }
}
