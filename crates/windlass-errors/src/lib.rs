//! The error codes of Windlass: one family `WND-nnnn` for definitions, settings, runs and the server.
//!
//! Each code has a page in `pages` with the sections Cause, Example and Fix. `windlass explain` prints it, and
//! `docs/errors` is generated from it. Some codes have other names as well, such as `LoopCountExceeded`: definitions
//! and conformance tests match on those, so they stay.

#![deny(missing_docs)]

mod table;

/// An error or warning that Windlass reports.
#[derive(Debug)]
pub struct ErrorCode {
    /// The code: `WND-` and four digits.
    pub code: &'static str,
    /// Other names of the same problem, as definitions and conformance tests write them. Several codes may share one.
    pub names: &'static [&'static str],
    /// Whether the problem is an error or a warning.
    pub severity: CodeSeverity,
    /// A short description in lower case.
    pub title: &'static str,
    /// The page in Markdown: a heading with code and title, then the sections Cause, Example and Fix.
    pub page: &'static str,
}

/// The severity of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeSeverity {
    /// The definition, request or task is refused or fails.
    Error,
    /// The work continues.
    Warning,
}

impl CodeSeverity {
    /// Returns the severity as a word: `error` or `warning`.
    pub fn as_str(self) -> &'static str {
        match self {
            CodeSeverity::Error => "error",
            CodeSeverity::Warning => "warning",
        }
    }
}

/// The prefix of all codes.
const PREFIX: &str = "WND-";

/// Returns all codes in ascending order.
pub fn all() -> &'static [ErrorCode] {
    table::TABLE
}

/// Finds codes by their number, with or without `WND-`, or by another name; case does not matter.
///
/// The result is in ascending order, and empty for an unknown text. It has several entries if codes share a name.
pub fn lookup(text: &str) -> Vec<&'static ErrorCode> {
    let text = text.trim();
    let matches = |entry: &&ErrorCode| {
        entry.code.eq_ignore_ascii_case(text)
            || entry.code.strip_prefix(PREFIX) == Some(text)
            || entry.names.iter().any(|name| name.eq_ignore_ascii_case(text))
    };
    all().iter().filter(matches).collect()
}

/// Returns the entry of a code such as `WND-2001`.
pub fn find(code: &str) -> Option<&'static ErrorCode> {
    all().binary_search_by(|entry| entry.code.cmp(code)).ok().map(|at| &all()[at])
}

/// The first code of runs; those below are about definitions, settings and commands.
const FIRST_OF_RUNS: &str = "WND-2000";

/// The first code of workflows in Rust, and the first one after them.
const OF_RUST_WORKFLOWS: (&str, &str) = ("WND-1400", "WND-1500");

/// Codes of errors whose name comes from another program: an HTTP status, an SQLSTATE, a Python class, an exit code. The
/// kind of the error says which.
const BY_KIND: &[(&str, &str)] = &[
    ("cancelled", "WND-2105"),
    ("connection", "WND-2402"),
    ("duckdb", "WND-2434"),
    ("expression", "WND-2201"),
    ("http", "WND-2401"),
    ("pg", "WND-2433"),
    ("python", "WND-2441"),
    ("rule", "WND-2120"),
    ("shell", "WND-2450"),
    ("sqlite", "WND-2432"),
    ("step", "WND-2124"),
    ("terminate", "WND-2121"),
    ("timeout", "WND-2104"),
];

/// The code of errors of unknown kinds: remote workers choose both name and kind.
const OF_REMOTE_WORKERS: &str = "WND-2125";

/// Returns the code of an error of a run: its name, such as `LoopCountExceeded` or `503`, and its kind decide.
///
/// Journals and definitions use the name; the code is derived where the error is shown.
pub fn for_run_error(name: &str, kind: &str) -> &'static str {
    let named = all().iter().find(|entry| entry.code > FIRST_OF_RUNS && entry.names.contains(&name));
    let by_kind = || BY_KIND.iter().find(|(of, _)| *of == kind).map_or(OF_REMOTE_WORKERS, |(_, code)| code);
    named.map_or_else(by_kind, |entry| entry.code)
}

/// Returns the code of a problem of a workflow in Rust, such as `no_steps`.
pub fn for_build_problem(name: &str) -> Option<&'static str> {
    let (first, end) = OF_RUST_WORKFLOWS;
    let named = |entry: &&ErrorCode| (first..end).contains(&entry.code) && entry.names.contains(&name);
    all().iter().find(named).map(|entry| entry.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<&'static str> {
        lookup(text).into_iter().map(|entry| entry.code).collect()
    }

    #[test]
    fn codes_are_unique_and_sorted() {
        assert!(all().is_sorted_by(|one, next| one.code < next.code));
        for entry in all() {
            let number = entry.code.strip_prefix(PREFIX).expect(entry.code);
            assert!(number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()), "{}", entry.code);
        }
    }

    #[test]
    fn titles_are_short_and_names_are_words() {
        for entry in all() {
            let is_short = (1..=60).contains(&entry.title.chars().count());
            assert!(is_short && !entry.title.contains("WND-"), "{}: {}", entry.code, entry.title);
            let is_word =
                |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            assert!(entry.names.iter().all(|name| is_word(name)), "{}: {:?}", entry.code, entry.names);
        }
    }

    #[test]
    fn every_page_has_its_heading_and_sections() {
        for entry in all() {
            let heading = format!("# {}: {}\n", entry.code, entry.title);
            assert!(entry.page.starts_with(&heading), "{} does not begin with {heading:?}", entry.code);
            let sections: Vec<&str> = entry.page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
            assert_eq!(sections, ["Cause", "Example", "Fix"], "{}", entry.code);
            assert!(entry.page.ends_with('\n') && !entry.page.ends_with("\n\n"), "the end of {}", entry.code);
        }
    }

    #[test]
    fn every_page_has_an_entry() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/pages");
        let files = std::fs::read_dir(folder).expect("the folder of pages");
        let mut files: Vec<String> =
            files.map(|file| file.expect("a file").file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        let expected: Vec<String> = all().iter().map(|entry| format!("{}.md", entry.code)).collect();
        assert_eq!(files, expected);
    }

    #[test]
    fn errors_of_runs_have_a_code_by_their_name_or_else_by_their_kind() {
        let cases = [
            ("LoopCountExceeded", "limit", "WND-2001"),
            ("timeout", "timeout", "WND-2104"),
            ("503", "http", "WND-2401"),
            ("57014", "pg", "WND-2433"),
            ("ZeroDivisionError", "python", "WND-2441"),
            ("NoPython", "python", "WND-2440"),
            ("exit_3", "shell", "WND-2450"),
            ("ParseIntError", "step", "WND-2124"),
            ("OutOfStock", "terminate", "WND-2121"),
            ("OutOfStock", "warehouse", "WND-2125"),
            ("NotABuildProblem", "", "WND-2125"),
        ];
        for (name, kind, code) in cases {
            assert_eq!(for_run_error(name, kind), code, "{name} {kind}");
        }
        assert!(BY_KIND.iter().all(|(_, code)| find(code).is_some()) && find(OF_REMOTE_WORKERS).is_some());
    }

    #[test]
    fn names_of_runs_are_unique() {
        let of_runs = || all().iter().filter(|entry| entry.code > FIRST_OF_RUNS);
        let mut names: Vec<&str> = of_runs().flat_map(|entry| entry.names.iter().copied()).collect();
        names.sort_unstable();
        let twice: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn problems_of_rust_workflows_have_their_own_codes() {
        assert_eq!(for_build_problem("duplicate_step"), Some("WND-1402"));
        assert_eq!(for_build_problem("missing_name"), None);
    }

    #[test]
    fn codes_are_found_by_number_and_by_name() {
        for text in ["WND-2001", "wnd-2001", "2001", " WND-2001 ", "LoopCountExceeded", "loopcountexceeded"] {
            assert_eq!(codes(text), ["WND-2001"], "{text}");
        }
        assert_eq!(codes("missing_name"), ["WND-1301"]);
        assert_eq!(codes("dead_end"), ["WND-1421"]);
        assert_eq!(codes("duplicate_step"), ["WND-1307", "WND-1402"]);
        for text in ["", "WND-", "WND-9999", "200", "no_such_name"] {
            assert!(codes(text).is_empty(), "{text}");
        }
    }
}
