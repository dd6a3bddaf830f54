//! Code in the documentation is compiled and run: every Rust block of a page occurs, paragraph by paragraph, in one
//! file of the examples or of their tests.

use std::fs;
use std::path::{Path, PathBuf};

const PAGES: [&str; 2] = ["docs/rust.md", "docs/tutorial-rust.md"];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder can be read").flatten().map(|entry| entry.path());
    let below = entries.flat_map(|path| match path.is_dir() {
        true => rust_files(&path),
        false if path.extension().is_some_and(|extension| extension == "rs") => vec![path],
        false => Vec::new(),
    });
    below.collect()
}

/// Returns the blocks, each with its first line.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        match (inside, line.starts_with("```")) {
            (false, true) if line.trim() == "```rust" => {
                inside = true;
                found.push((number + 1, String::new()));
            }
            (true, true) => inside = false,
            (true, false) => {
                if let Some((_, block)) = found.last_mut() {
                    block.push_str(line);
                    block.push('\n');
                }
            }
            _ => {}
        }
    }
    found
}

/// Removes the common indentation.
fn dedented(lines: &[&str]) -> Vec<String> {
    let indent = lines.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
    lines.iter().map(|line| line[indent..].to_owned()).collect()
}

/// Reports whether all paragraphs occur in the file, in order.
fn stands_in(file: &str, block: &str) -> bool {
    let file: Vec<&str> = file.lines().collect();
    let mut from = 0;
    for paragraph in block.split("\n\n") {
        let lines: Vec<&str> = paragraph.lines().filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        let expected = dedented(&lines);
        let here = |at: &usize| file.get(*at..*at + lines.len()).is_some_and(|part| dedented(part) == expected);
        match (from..file.len()).find(here) {
            Some(at) => from = at + lines.len(),
            None => return false,
        }
    }
    true
}

#[test]
fn code_in_the_pages_is_compiled() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("examples are two folders down");
    let files: Vec<String> = rust_files(here).iter().map(|path| fs::read_to_string(path).expect("a file")).collect();
    let mut wrong = Vec::new();
    for page in PAGES {
        let text = fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        let blocks = blocks(&text);
        assert!(!blocks.is_empty(), "{page} has no code");
        for (number, block) in blocks {
            if !files.iter().any(|file| stands_in(file, &block)) {
                wrong.push(format!("{page}:{number}: is in no file below examples/rust:\n{block}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
