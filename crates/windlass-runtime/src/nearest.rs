//! Suggestions for mistyped paths.

use windlass_value::{edit_distance, nearest_within};

/// Returns the candidate that differs least from a path or a name, if it differs by less than half of it.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(name, candidates, (name.chars().count() / 2).max(1))
}

/// Returns the distance of two paths: first the edit distance of their letters, ignoring numbers, then the difference
/// of the numbers. For an iteration that does not exist, the last existing one is the nearest. The spelling of
/// iterations makes no difference.
pub(crate) fn path_distance(one: &str, other: &str) -> (usize, u64) {
    let written = |path: &str| without_numbers(bracketed_path(path).as_deref().unwrap_or(path));
    let ((one, numbers), (other, others)) = (written(one), written(other));
    let differ = numbers.iter().zip(&others).map(|(one, other)| one.abs_diff(*other));
    (edit_distance(&one, &other), differ.fold(0, u64::saturating_add))
}

/// Returns a path with its iterations in brackets, as paths are written: `loop[3].inner` for `loop.3.inner`. None if it
/// has no other spelling.
pub fn bracketed_path(path: &str) -> Option<String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = path.split_once('.')?;
    let parts = rest.split('.').map(|part| if is_number(part) { format!("[{part}]") } else { format!(".{part}") });
    let written = parts.fold(first.to_owned(), |whole, part| whole + &part);
    (written != path).then_some(written)
}

/// Returns the path with one digit for each number, and the numbers.
fn without_numbers(path: &str) -> (String, Vec<u64>) {
    let (mut rest, mut numbers): (String, Vec<u64>) = Default::default();
    let mut inside = false;
    for letter in path.chars() {
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

#[cfg(test)]
mod tests {
    use super::{bracketed_path, nearest, path_distance};

    #[test]
    fn the_nearest_path_is_found() {
        let begun = ["sync[3].fetch", "sync[3].store", "report"];
        assert_eq!(nearest("sync[3].fetc", begun), Some("sync[3].fetch"));
        assert_eq!(nearest("sync.3.store", begun), Some("sync[3].store"));
        assert_eq!(nearest("reprot", begun), Some("report"));
        assert_eq!(nearest("x", begun), None);
    }

    #[test]
    fn paths_have_iterations_in_brackets() {
        let cases = [
            ("loop.3.inner", Some("loop[3].inner")),
            ("a.1.b.2", Some("a[1].b[2]")),
            ("a[1].b", None),
            ("3.a", None),
            ("a.3x", None),
            ("", None),
        ];
        for (typed, written) in cases {
            assert_eq!(bracketed_path(typed).as_deref(), written, "{typed}");
        }
    }

    #[test]
    fn the_last_iteration_is_nearest_to_one_that_does_not_exist() {
        for (path, begun, found) in [
            ("count[99]", &["count[0]", "count[3]", "count[11]"][..], "count[11]"),
            ("each1", &["each[0]", "each[1]", "other"], "each[1]"),
            ("work.1", &["work", "work[0]", "work[1]"], "work[1]"),
            ("count[2].ad", &["count[2]", "count[1].add", "count[2].add"], "count[2].add"),
        ] {
            assert_eq!(begun.iter().min_by_key(|begun| path_distance(path, begun)), Some(&found), "{path}");
        }
    }
}
