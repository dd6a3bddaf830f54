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

/// How far two paths are apart: first how many letters have to be changed, put in or taken out, whatever their numbers are,
/// then by how much these differ. Of turns that were not made, the last one that was is the nearest.
pub(crate) fn apart(one: &str, other: &str) -> (usize, u64) {
    let ((one, numbers), (other, others)) = (without_numbers(one), without_numbers(other));
    let differ = numbers.iter().zip(&others).map(|(one, other)| one.abs_diff(*other));
    (changes(&one, &other), differ.fold(0, u64::saturating_add))
}

/// The letters with one digit for each number, and the numbers.
fn without_numbers(path: &str) -> (Vec<char>, Vec<u64>) {
    let (mut rest, mut numbers): (Vec<char>, Vec<u64>) = Default::default();
    let mut inside = false;
    for letter in letters(path) {
        match letter.to_digit(10).map(u64::from) {
            None => rest.push(letter),
            Some(digit) if inside => {
                let number = numbers.pop().unwrap_or_default();
                numbers.push(number.saturating_mul(10).saturating_add(digit));
            }
            Some(digit) => {
                rest.push('0');
                numbers.push(digit);
            }
        }
        inside = letter.is_ascii_digit();
    }
    (rest, numbers)
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
    use super::{apart, nearest};

    #[test]
    fn the_path_that_was_meant_is_found() {
        let begun = ["sync[3].fetch", "sync[3].store", "report"];
        assert_eq!(nearest("sync[3].fetc", begun), Some("sync[3].fetch"));
        assert_eq!(nearest("sync.3.store", begun), Some("sync[3].store"));
        assert_eq!(nearest("reprot", begun), Some("report"));
        assert_eq!(nearest("x", begun), None);
    }

    #[test]
    fn the_last_turn_is_nearest_to_one_that_was_not_made() {
        for (path, begun, found) in [
            ("count[99]", &["count[0]", "count[3]", "count[11]"][..], "count[11]"),
            ("each1", &["each[0]", "each[1]", "other"], "each[1]"),
            ("count[2].ad", &["count[2]", "count[1].add", "count[2].add"], "count[2].add"),
        ] {
            assert_eq!(begun.iter().min_by_key(|begun| apart(path, begun)), Some(&found), "{path}");
        }
    }
}
