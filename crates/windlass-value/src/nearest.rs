//! The most similar name: one rule for every "did you mean" message.

/// Maximum number of characters compared: the time must not depend on the content of a file.
const MAX_COMPARED_CHARS: usize = 96;

/// Returns the candidate that differs least from a name, ignoring case; `None` if all differ in more than a third of
/// the name's letters. At least one and at most four letters may differ.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded_name = folded(name);
    let length = folded_name.chars().count();
    // Any two names of one or two letters are close to each other: one must at least be a prefix of the other.
    let alike = |candidate: &&str| {
        let other = folded(candidate);
        length > 2 || other.starts_with(&folded_name) || folded_name.starts_with(&other)
    };
    nearest_within(name, candidates.into_iter().filter(alike), (length / 3).clamp(1, 4))
}

/// Returns the candidate that differs least from a name, ignoring case, if at most `max_edits` letters differ.
pub fn nearest_within<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    max_edits: usize,
) -> Option<&'a str> {
    let scored = candidates.into_iter().map(|candidate| (edit_distance(name, candidate), candidate));
    scored.filter(|(edits, _)| *edits <= max_edits).min_by_key(|(edits, _)| *edits).map(|(_, candidate)| candidate)
}

/// Counts the single-letter changes between two texts, ignoring case; two swapped neighbours count as one.
pub fn edit_distance(one: &str, other: &str) -> usize {
    strsim::osa_distance(&folded(one), &folded(other))
}

fn folded(name: &str) -> String {
    name.chars().take(MAX_COMPARED_CHARS).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest, nearest_within};

    #[test]
    fn small_typos_are_found_and_unrelated_names_are_not() {
        let names = ["until", "while", "doUntil", "foreach"];
        assert_eq!(nearest("unitl", names), Some("until"));
        assert_eq!(nearest("WHILE", names), Some("while"));
        assert_eq!(nearest("for_each", names), Some("foreach"));
        assert_eq!(nearest("dountil", names), Some("doUntil"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn the_number_of_edits_can_be_given() {
        assert_eq!(nearest_within("sync.3.store", ["sync[3].store"], 6), Some("sync[3].store"));
        assert_eq!(nearest_within("sync.3.store", ["sync[3].store"], 1), None);
        assert_eq!(edit_distance("retyr", "Retry"), 1);
    }
}
