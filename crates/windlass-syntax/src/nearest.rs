//! The name that was probably meant.

/// The candidate that differs least from a name, letter case aside; None if all differ too much.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    let allowed = (wanted.len() / 3).clamp(1, 4);
    // Any two names of one or two letters are near to each other: one must at least begin as the other does.
    let alike = |other: &[char]| wanted.len() > 2 || other.starts_with(&wanted) || wanted.starts_with(other);
    let alike = candidates.into_iter().filter(|candidate| alike(&folded(candidate)));
    let scored = alike.map(|candidate| (distance(&wanted, &folded(candidate)), candidate));
    scored.filter(|(score, _)| *score <= allowed).min_by_key(|(score, _)| *score).map(|(_, candidate)| candidate)
}

/// Long names are cut: the time must not depend on what somebody wrote into a file.
fn folded(name: &str) -> Vec<char> {
    name.chars().take(64).flat_map(char::to_lowercase).collect()
}

/// Single-letter changes between two names; two neighbours swapped count as one.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1];
        for j in 0..b.len() {
            let mut best = (above[j] + usize::from(a[i] != b[j])).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_slips_are_found_and_strangers_are_not() {
        let names = ["until", "while", "doUntil", "foreach"];
        assert_eq!(nearest("unitl", names), Some("until"));
        assert_eq!(nearest("WHILE", names), Some("while"));
        assert_eq!(nearest("for_each", names), Some("foreach"));
        assert_eq!(nearest("dountil", names), Some("doUntil"));
        assert_eq!(nearest("banana", names), None);
        assert_eq!(nearest("", names), None);
    }
}
