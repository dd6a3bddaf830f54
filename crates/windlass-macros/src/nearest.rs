//! The nearest of the names that would have been right.

/// None if no name is near enough to have been meant.
pub fn nearest<'n>(wrong: &str, known: &[&'n str]) -> Option<&'n str> {
    let most = ((wrong.chars().count() + 1) / 3).max(1);
    known.iter().map(|name| (distance(wrong, name), *name)).filter(|(far, _)| *far <= most).min().map(|(_, name)| name)
}

/// How many letters must be put in, left out or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, from) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in other.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// `unknown key `worker`: did you mean `workers`?`, or the keys that there are.
pub fn unknown(what: &str, wrong: &str, known: &[&str]) -> String {
    match nearest(wrong, known) {
        Some(near) => format!("unknown {what} `{wrong}`: did you mean `{near}`?"),
        None if known.is_empty() => format!("unknown {what} `{wrong}`: there is none here"),
        None => format!("unknown {what} `{wrong}`: there are {}", known.join(", ")),
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
