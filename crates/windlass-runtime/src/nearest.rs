//! The name that was probably meant.

/// Of long names only the beginning is compared: the time must not depend on what somebody has written.
const CHARS_COMPARED: usize = 96;

/// The candidate that differs least from a name, if it differs by less than half of it.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = letters(name);
    let allowed = (wanted.len() / 2).max(1);
    let scored = candidates.into_iter().map(|candidate| (changes(&wanted, &letters(candidate)), candidate));
    scored.filter(|(score, _)| *score <= allowed).min_by_key(|(score, _)| *score).map(|(_, candidate)| candidate)
}

/// How many letters have to be changed, put in or taken out.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    changes(&letters(one), &letters(other))
}

fn letters(name: &str) -> Vec<char> {
    name.chars().take(CHARS_COMPARED).flat_map(char::to_lowercase).collect()
}

fn changes(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (done, letter) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = done + 1;
        for (at, against) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != against);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row.last().copied().unwrap_or(one.len())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_path_that_was_meant_is_found() {
        let begun = ["sync[3].fetch", "sync[3].store", "report"];
        assert_eq!(nearest("sync[3].fetc", begun), Some("sync[3].fetch"));
        assert_eq!(nearest("sync.3.store", begun), Some("sync[3].store"));
        assert_eq!(nearest("reprot", begun), Some("report"));
        assert_eq!(nearest("x", begun), None);
    }
}
