//! Keeps words out of the code base that `docs/glossary.md` replaces.
//!
//! [`PHRASES`] have no everyday meaning in technical prose, so they are looked for in all text: comments, messages and
//! documentation. [`IDENTIFIER_WORDS`] are ordinary words in prose and misleading as names, so they are looked for only
//! in identifiers. The list of exceptions is part of the check: each has its reason.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A word or phrase, and its replacement.
const PHRASES: [(&str, &str); 16] = [
    ("whoever", "operator, author, caller, client, owner, worker or user"),
    ("whomever", "operator, author, caller, client, owner, worker or user"),
    ("nobody", "no client, no worker, …"),
    ("somebody", "operator, author, caller, client, owner, worker or user"),
    ("tells of", "publishes, reports"),
    ("let go of", "evict, release"),
    ("lets go of", "evicts, releases"),
    ("call off", "cancel"),
    ("called off", "cancelled"),
    ("calls off", "cancels"),
    ("strike out", "redact"),
    ("strikes out", "redacts"),
    ("struck out", "redacted"),
    ("set aside", "quarantine"),
    ("sets aside", "quarantines"),
    ("unkept", "in-memory"),
];

/// A word of an identifier, and its replacement.
const IDENTIFIER_WORDS: [(&str, &str); 19] = [
    ("told", "published, reported"),
    ("hearing", "signal delivery"),
    ("turn", "iteration"),
    ("turns", "iterations"),
    ("most", "max"),
    ("aside", "quarantined"),
    ("unkept", "in_memory"),
    ("struck", "redacted"),
    ("veil", "redact"),
    ("veiled", "redacted"),
    ("taken", "reused"),
    ("beside", "side_outputs"),
    ("awaits", "suspension"),
    ("leave", "permission"),
    ("figures", "metrics, stats"),
    ("fates", "unsupported keys"),
    ("speech", "protocol"),
    ("shelf", "cache, ring buffer"),
    ("troubles", "warnings"),
];

/// Words (without a plural `s`) with another meaning below a path, and that meaning.
const EXCEPTIONS: [(&str, &str, &str); 8] = [
    ("crates/windlass-agents/", "turn", AGENT_TURN),
    ("crates/windlass-zenflow/", "turn", AGENT_TURN),
    ("crates/windlass-testing/src/mock", "turn", AGENT_TURN),
    ("crates/windlass-cli/tests/agents/", "turn", AGENT_TURN),
    ("crates/windlass-tools/tests/mock.rs", "turn", AGENT_TURN),
    ("crates/windlass-core/src/limits.rs", "turn", AGENT_TURN),
    ("examples/rust/agent.rs", "turn", AGENT_TURN),
    ("crates/windlass-testing/src/test_postgres.rs", "nobody", "a Unix user"),
];

const AGENT_TURN: &str = "a turn of an agent is one model call";

/// A name with this many words or more is a sentence, such as the name of a test: there the words have their everyday
/// meaning.
const SENTENCE_WORDS: usize = 4;

/// Files that list the words themselves.
const WORD_LISTS: [&str; 3] = ["xtask/src/vocabulary.rs", "docs/glossary.md", "CONTRIBUTING.md"];

const ENDINGS: [&str; 8] = [".rs", ".md", ".ts", ".tsx", ".mjs", ".toml", ".html", ".py"];

/// Returns a line for each use of a replaced word in a tracked file.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let names = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let checked = |name: &&str| {
        let written_here = !name.contains("/dist/") && !name.contains("/tests/cases") && !WORD_LISTS.contains(name);
        written_here && ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let mut problems = Vec::new();
    for name in names.split('\0').filter(checked) {
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        for (number, line) in text.lines().enumerate() {
            let found = phrases(name, line).chain(identifiers(name, line));
            problems.extend(
                found.map(|(word, instead)| {
                    format!("{name}:{}: `{word}`: use {instead} (docs/glossary.md)", number + 1)
                }),
            );
        }
    }
    problems
}

fn phrases(name: &str, line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (name, line) = (name.to_owned(), line.to_lowercase());
    PHRASES.into_iter().filter(move |(phrase, _)| {
        !is_excepted(&name, phrase)
            && line.match_indices(phrase).any(|(at, _)| {
                let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
                let before = at.checked_sub(1).and_then(|before| line.as_bytes().get(before));
                !is_word(before) && !is_word(line.as_bytes().get(at + phrase.len()))
            })
    })
}

fn identifiers(name: &str, line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let words: Vec<String> = match name.ends_with(".rs") {
        true => {
            let names = code(line);
            let names = names.split(|c: char| !c.is_alphanumeric() && c != '_').map(segments);
            names.filter(|segments| segments.len() < SENTENCE_WORDS).flatten().collect()
        }
        false => Vec::new(),
    };
    let name = name.to_owned();
    IDENTIFIER_WORDS
        .into_iter()
        .filter(move |(word, _)| !is_excepted(&name, word) && words.iter().any(|found| found == word))
}

fn is_excepted(name: &str, word: &str) -> bool {
    EXCEPTIONS.iter().any(|(path, allowed, _)| name.starts_with(path) && *allowed == word.trim_end_matches('s'))
}

/// Returns a line of Rust without its comment and without the text of its string literals.
fn code(line: &str) -> String {
    let line = line.split("//").next().unwrap_or_default();
    line.split('"').step_by(2).collect::<Vec<_>>().join(" ")
}

/// Splits an identifier at underscores and at changes of case.
fn segments(identifier: &str) -> Vec<String> {
    let mut segments = Vec::new();
    for part in identifier.split('_') {
        let mut segment = String::new();
        let mut last_was_lower = false;
        for letter in part.chars() {
            if letter.is_uppercase() && last_was_lower {
                segments.push(std::mem::take(&mut segment));
            }
            last_was_lower = letter.is_lowercase();
            segment.extend(letter.to_lowercase());
        }
        segments.push(segment);
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_as_whole_words() {
        assert_eq!(phrases("a.md", "Whoever waits").count(), 1);
        assert_eq!(phrases("a.md", "the run was set aside by it").count(), 1);
        assert_eq!(phrases("a.md", "nobodys and a preset aside2").count(), 0);
    }

    #[test]
    fn words_are_found_in_identifiers_of_code_alone() {
        let found = |line: &str| identifiers("crates/a.rs", line).map(|(word, _)| word).collect::<Vec<_>>();
        assert_eq!(found("let loop_turns_max = TurnRow::new(); // at most"), ["turn", "turns"]);
        assert_eq!(found("return Err(\"most of it\") // a turn"), Vec::<&str>::new());
        assert_eq!(found("let almost = returns;"), Vec::<&str>::new());
    }
}
