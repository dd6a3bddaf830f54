//! Suggestions of valid names for error messages.

/// Returns the nearest known name, or `None` if no name is near enough.
pub(crate) fn nearest<'n>(wrong: &str, known: &[&'n str]) -> Option<&'n str> {
    let max_distance = ((wrong.chars().count() + 1) / 3).max(1);
    known
        .iter()
        .map(|name| (strsim::osa_distance(wrong, name), *name))
        .filter(|(far, _)| *far <= max_distance)
        .min()
        .map(|(_, name)| name)
}

/// Formats `unknown key `worker`: did you mean `workers`?`, or lists the known keys.
pub(crate) fn unknown(what: &str, wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known) {
        Some(near) => format!("unknown {what} `{wrong}`: did you mean `{near}`?"),
        None if known.is_empty() => format!("unknown {what} `{wrong}`: none is defined here"),
        None => format!("unknown {what} `{wrong}`; known: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let known = ["workers", "timeout", "retry", "of"];
        for (wrong, right) in [
            ("worker", Some("workers")),
            ("tiemout", Some("timeout")),
            ("retyr", Some("retry")),
            ("x", None),
            ("sends", None),
        ] {
            assert_eq!(nearest(wrong, &known), right, "{wrong}");
        }
    }
}
