//! The nearest of the names that would have been right.

/// None if no name is near enough to have been meant.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let most = ((wrong.chars().count() + 1) / 3).max(1);
    let far = known.into_iter().map(|name| (distance(wrong, name), name));
    far.filter(|(far, _)| *far <= most).min().map(|(_, name)| name)
}

/// `known: `a`, `b``, or that there is none.
pub(crate) fn listed<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.is_empty() {
        true => format!("{word}: none"),
        false => format!("{word}: {}", names.join(", ")),
    }
}

/// Did you mean that, or: there are these.
pub(crate) fn meant<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str> + Clone) -> String {
    match nearest(wrong, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => listed("there are", known),
    }
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
