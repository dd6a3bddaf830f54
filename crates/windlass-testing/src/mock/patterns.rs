//! Patterns of step paths, names and addresses.

/// A pattern of paths: names and iterations, from the outermost to the step itself.
///
/// It matches the end of a path, so a step's name alone matches the step wherever it is. A loop without an iteration
/// matches all its iterations: `pages.fetch` matches `pages[3].fetch`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepPattern {
    text: String,
    parts: Vec<PathPiece>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathPiece {
    /// A name, in patterns with `*` for any text.
    Name(String),
    /// The iteration of the loop before it.
    Index(u64),
    /// In patterns: any iteration.
    AnyIndex,
    /// In patterns, a `*` alone: any name or iteration.
    Any,
}

impl StepPattern {
    /// Parses a pattern. The error is the reason why it is none.
    pub(super) fn parse(text: &str) -> Result<StepPattern, &'static str> {
        if text.is_empty() || text.split('.').any(str::is_empty) {
            return Err("a part between two dots is empty");
        }
        if text.matches('[').count() != text.matches(']').count() {
            return Err("its brackets do not match");
        }
        Ok(StepPattern { text: text.to_owned(), parts: pieces(text, true) })
    }

    pub(super) fn exact(name: &str) -> StepPattern {
        StepPattern { text: name.to_owned(), parts: vec![PathPiece::Name(name.to_owned())] }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the last name, if the pattern ends with one.
    pub(super) fn last_name(&self) -> Option<&str> {
        match self.parts.last()? {
            PathPiece::Name(name) if !name.contains('*') => Some(name),
            _ => None,
        }
    }

    pub(super) fn matches(&self, path: &str) -> bool {
        ends_with(&pieces(path, false), &self.parts)
    }

    /// Matches the path of a task, or that of its step, which is one part shorter: the step `fetch` of a playbook
    /// calls as `fetch.http`.
    pub(super) fn matches_task(&self, path: &str) -> bool {
        self.matches(path) || path.rsplit_once('.').is_some_and(|(step, _)| self.matches(step))
    }
}

/// Returns the iteration of the innermost loop around a step.
pub(super) fn innermost_iteration(path: &str) -> Option<u64> {
    pieces(path, false).iter().rev().find_map(|piece| match piece {
        PathPiece::Index(index) => Some(*index),
        _ => None,
    })
}

fn pieces(path: &str, is_pattern: bool) -> Vec<PathPiece> {
    let mut pieces = Vec::new();
    for part in path.split('.') {
        let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        match name {
            "" => {}
            "*" if is_pattern => pieces.push(PathPiece::Any),
            name => pieces.push(match name.parse() {
                Ok(index) => PathPiece::Index(index),
                Err(_) => PathPiece::Name(name.to_owned()),
            }),
        }
        while let Some((index, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
            pieces.push(match index.parse() {
                Ok(index) => PathPiece::Index(index),
                Err(_) if is_pattern && index == "*" => PathPiece::AnyIndex,
                Err(_) => PathPiece::Name(index.to_owned()),
            });
            rest = after;
        }
    }
    pieces
}

fn ends_with(path: &[PathPiece], pattern: &[PathPiece]) -> bool {
    let Some((wanted, before)) = pattern.split_last() else { return true };
    let Some((found, rest)) = path.split_last() else { return false };
    match (wanted, found) {
        (PathPiece::Index(wanted), PathPiece::Index(found)) if wanted == found => ends_with(rest, before),
        (PathPiece::AnyIndex, PathPiece::Index(_)) => ends_with(rest, before),
        (PathPiece::Any, PathPiece::Index(_)) => ends_with(rest, before) || ends_with(rest, pattern),
        (PathPiece::Any, _) => ends_with(rest, before),
        // A pattern without an iteration matches all of them.
        (PathPiece::Name(_), PathPiece::Index(_)) => ends_with(rest, pattern),
        (PathPiece::Name(wanted), PathPiece::Name(found)) => matches_name(wanted, found) && ends_with(rest, before),
        _ => false,
    }
}

/// Matches the name of a step, ignoring case as Logic Apps does. A step that is reached again is `name#2`.
fn matches_name(wanted: &str, found: &str) -> bool {
    let base = match found.rsplit_once('#') {
        Some((base, visit)) if !wanted.contains('#') && visit.parse::<u64>().is_ok() => base,
        _ => found,
    };
    matches_glob(&wanted.to_lowercase(), &base.to_lowercase())
}

/// Matches a pattern in which `*` stands for any text, including none.
pub(super) fn matches_glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
    let found = middle.iter().try_fold(rest, |rest, part| rest.find(part).map(|at| &rest[at + part.len()..]));
    found.is_some_and(|rest| rest.ends_with(end))
}

/// Returns the path of an address, or the whole text if it is one.
pub(super) fn url_path(url: &str) -> &str {
    let Some((_, rest)) = url.split_once("://") else { return url };
    rest.find('/').map_or("/", |at| &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("/jobs/*/result", "/jobs/12/result", true),
            ("/jobs/*", "/job", false),
            ("a*a", "a", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches_glob(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn a_pattern_matches_the_end_of_a_path() {
        for (pattern, path, fits) in [
            ("fetch", "fetch", true),
            ("fetch", "pages[3].fetch", true),
            ("fetch", "pages[3].items[0].fetch", true),
            ("fetch", "prefetch", false),
            ("fetch", "fetch.save", false),
            ("FETCH", "pages[3].fetch", true),
            ("pages.fetch", "pages[3].fetch", true),
            ("pages.fetch", "pages.3.fetch", true),
            ("pages[3].fetch", "pages[3].fetch", true),
            ("pages[3].fetch", "pages[4].fetch", false),
            ("pages[*].fetch", "pages[4].fetch", true),
            ("pages[*].fetch", "pages.fetch", false),
            ("items.fetch", "pages[3].items[0].fetch", true),
            ("pages.fetch", "pages[3].items[0].fetch", false),
            ("loop.*.inner", "loop.0.inner", true),
            ("loop.*.inner", "loop[0].inner", true),
            ("loop.*.inner", "loop[0].middle.inner", true),
            ("gather.*", "gather.0", true),
            ("gather", "gather.0", true),
            ("gather", "gather[0]", true),
            ("work.0", "work.0.judge", false),
            ("*.judge", "review.judge", true),
            ("dep*", "all[1].deploy", true),
            ("ask", "ask#2", true),
            ("ask#2", "ask#2", true),
            ("ask#3", "ask#2", false),
        ] {
            assert_eq!(StepPattern::parse(pattern).expect("a pattern").matches(path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn the_innermost_iteration_counts() {
        for (path, expected) in [("a", None), ("a[2].b", Some(2)), ("a[2].b[0].c", Some(0)), ("a.4.b", Some(4))] {
            assert_eq!(innermost_iteration(path), expected, "{path}");
        }
    }
}
