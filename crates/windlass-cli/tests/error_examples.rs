//! The examples of the error pages cause the errors that they explain.
//!
//! An example runs if its page has one `sh` block with a single `windlass check` or `windlass run` command. Its files
//! are written into an empty folder, and the output of the command must have the code, or another name of it. Messages
//! are not compared.

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use support::TestDir;
use windlass_errors::{ErrorCode, all};

/// The number of examples that run. It only grows: raise it when more of them run.
const MIN_EXAMPLES: usize = 192;

/// The number of examples that run concurrently.
const MAX_CONCURRENCY: usize = 2;

/// Maximum time of all examples together: they are part of every test run.
const MAX_TIME: Duration = Duration::from_secs(40);

/// Errors that the program reports without a code or a name so far. Their examples are skipped.
const WITHOUT_CODE: &[&str] = &[
    "WND-1500", "WND-1501", "WND-1502", "WND-1503", "WND-1504", "WND-1530", "WND-1531", "WND-1532", "WND-1533",
    "WND-1590", "WND-2208", "WND-2502", "WND-2504", "WND-2520", "WND-2604", "WND-2617", "WND-2618",
];

/// Errors that are named by another program, and the name in their example: an HTTP status, a code of SQLite, a Python
/// class, an exit code.
const FOREIGN_NAMES: &[(&str, &str)] =
    &[("WND-2401", "503"), ("WND-2432", "SQLITE_ERROR"), ("WND-2441", "ZeroDivisionError"), ("WND-2450", "exit_3")];

/// An example as its page describes it.
enum PageExample {
    Runs(RunnableExample),
    Skipped(SkippedKind),
}

struct RunnableExample {
    /// Names and contents.
    files: Vec<(String, String)>,
    /// The arguments of `windlass`.
    arguments: Vec<String>,
}

/// The kinds of examples that do not run here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SkippedKind {
    /// Requests to a server.
    Http,
    /// Code for the crate `windlass`.
    Rust,
    /// The page says `Not reproducible with a file`.
    NotReproducible,
    /// More than one command.
    SeveralCommands,
    /// A command other than `check` and `run`.
    OtherCommand,
    /// Listed in `WITHOUT_CODE`.
    WithoutCode,
}

/// A fenced block of a page.
struct PageBlock {
    language: String,
    file: Option<String>,
    text: String,
}

/// Reads the blocks of the section Example.
fn example_blocks(section: &str) -> Vec<PageBlock> {
    let mut blocks: Vec<PageBlock> = Vec::new();
    let mut open = false;
    for line in section.lines() {
        match (line.strip_prefix("```"), blocks.last_mut()) {
            (Some(_), _) if open => open = false,
            (Some(info), _) => {
                let (language, rest) = info.split_once(' ').unwrap_or((info, ""));
                let file = rest.split(' ').find_map(|word| word.strip_prefix("file=")).map(str::to_owned);
                blocks.push(PageBlock { language: language.to_owned(), file, text: String::new() });
                open = true;
            }
            (None, Some(block)) if open => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            _ => {}
        }
    }
    blocks
}

/// Splits a command into words as a shell does; only single quotes are known.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("a word").push(letter),
        }
    }
    assert!(!quoted && !command.contains(['"', '\\', '$', '|', '&', ';', '<', '>']), "not a plain command: {command}");
    words.retain(|word| !word.is_empty());
    words
}

fn read_example(entry: &ErrorCode) -> PageExample {
    let section = entry.page.split_once("\n## Example\n").expect(entry.code).1;
    let section = section.split_once("\n## Fix\n").expect(entry.code).0;
    let blocks = example_blocks(section);
    let has = |language: &str| blocks.iter().any(|block| block.language == language);
    let commands: Vec<&str> =
        blocks.iter().filter(|block| block.language == "sh").flat_map(|block| block.text.lines()).collect();
    let kind = match &commands[..] {
        _ if section.contains("Not reproducible with a file") => SkippedKind::NotReproducible,
        _ if has("http") => SkippedKind::Http,
        _ if has("rust") => SkippedKind::Rust,
        [] => panic!("the example of {} has no command", entry.code),
        [one] if one.starts_with("windlass check ") || one.starts_with("windlass run ") => {
            if !WITHOUT_CODE.contains(&entry.code) {
                let arguments = shell_words(one).into_iter().skip(1).chain(["--json".to_owned()]).collect();
                let files = blocks.iter().filter_map(|block| Some((block.file.clone()?, block.text.clone())));
                return PageExample::Runs(RunnableExample { files: files.collect(), arguments });
            }
            SkippedKind::WithoutCode
        }
        [_] => SkippedKind::OtherCommand,
        _ => SkippedKind::SeveralCommands,
    };
    PageExample::Skipped(kind)
}

/// Runs an example; returns a description of what is wrong with it.
fn failure_of(entry: &ErrorCode, example: &RunnableExample) -> Option<String> {
    let place = TestDir::new();
    for (name, content) in &example.files {
        let path = place.path(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("a folder");
        place.write(name, content);
    }
    let arguments: Vec<&str> = example.arguments.iter().map(String::as_str).collect();
    // It is killed if it hangs.
    let done = place.start(&arguments).finish();
    let foreign = FOREIGN_NAMES.iter().filter(|(code, _)| *code == entry.code).map(|(_, name)| name);
    // A name is a whole value of the JSON: many names are words that messages contain, too.
    let names = entry.names.iter().chain([&entry.code]).chain(foreign).map(|name| format!("\"{name}\""));
    let found = names.into_iter().any(|name| done.out.contains(&name) || done.err.contains(&name));
    (!found).then(|| {
        format!("{} {:?}: windlass {}\n{}{}", entry.code, entry.names, arguments.join(" "), done.out, done.err)
    })
}

#[test]
fn examples_cause_the_errors_of_their_pages() {
    let started = Instant::now();
    let (mut runnable, mut skipped) = (Vec::new(), BTreeMap::<SkippedKind, usize>::new());
    for entry in all() {
        match read_example(entry) {
            PageExample::Runs(example) => runnable.push((entry, example)),
            PageExample::Skipped(kind) => *skipped.entry(kind).or_default() += 1,
        }
    }
    let (next, failures) = (Mutex::new(runnable.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENCY {
            scope.spawn(|| {
                loop {
                    let Some((entry, example)) = next.lock().expect("no panic").next() else { break };
                    let failure = failure_of(entry, example);
                    failures.lock().expect("no panic").extend(failure);
                }
            });
        }
    });
    let (failures, time) = (failures.into_inner().expect("no panic"), started.elapsed());
    println!("{} examples ran in {time:?}; skipped: {skipped:?}", runnable.len());
    assert!(failures.is_empty(), "{} of {} examples fail:\n\n{}", failures.len(), runnable.len(), failures.join("\n"));
    assert!(runnable.len() >= MIN_EXAMPLES, "only {} examples run, {MIN_EXAMPLES} did before", runnable.len());
    assert!(time < MAX_TIME, "the examples took {time:?}");
}

/// A listed code that does not exist, or whose example is of another kind, is outdated.
#[test]
fn listed_codes_have_examples() {
    let example = |code: &str| windlass_errors::lookup(code).first().map(|entry| read_example(entry));
    for code in WITHOUT_CODE {
        let is_skipped = matches!(example(code), Some(PageExample::Skipped(SkippedKind::WithoutCode)));
        assert!(is_skipped, "{code} need not be listed");
    }
    for (code, name) in FOREIGN_NAMES {
        assert!(matches!(example(code), Some(PageExample::Runs(_))), "{code} {name} need not be listed");
    }
}
