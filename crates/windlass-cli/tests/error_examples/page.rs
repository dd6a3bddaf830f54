//! Reads the examples of error pages.

use windlass_errors::ErrorCode;

/// An example as its page describes it.
pub(super) struct PageExample {
    /// Names and contents.
    pub files: Vec<(String, String)>,
    /// In the order of the page. The last one shows the error.
    pub steps: Vec<ExampleStep>,
}

/// A step of an example, as the page writes it.
pub(super) enum ExampleStep {
    /// A line of an `sh` block.
    Command(String),
    /// The text of an `http` block.
    Request(String),
}

/// The kinds of examples that do not run here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum SkippedKind {
    /// Code for the crate `windlass`.
    Rust,
    /// The page says `Not reproducible with a file`.
    NotReproducible,
}

impl PageExample {
    /// Reads the section Example of a page.
    pub(super) fn read(entry: &ErrorCode) -> Result<PageExample, SkippedKind> {
        let section = entry.page.split_once("\n## Example\n").expect(entry.code).1;
        let section = section.split_once("\n## Fix\n").expect(entry.code).0;
        if section.contains("Not reproducible with a file") {
            return Err(SkippedKind::NotReproducible);
        }
        let (mut files, mut steps) = (Vec::new(), Vec::new());
        for block in example_blocks(section) {
            match (block.file, block.language.as_str()) {
                (Some(file), _) => files.push((file, block.text)),
                (None, "rust") => return Err(SkippedKind::Rust),
                (None, "sh") => steps.extend(block.text.lines().map(|line| ExampleStep::Command(line.to_owned()))),
                (None, "http") => steps.push(ExampleStep::Request(block.text)),
                (None, language) => panic!("the example of {} has a block `{language}` without a file", entry.code),
            }
        }
        assert!(!steps.is_empty(), "the example of {} has no command", entry.code);
        Ok(PageExample { files, steps })
    }

    pub(super) fn has_requests(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, ExampleStep::Request(_)))
    }

    /// Returns whether one of its commands begins with these words.
    pub(super) fn has_command(&self, words: &str) -> bool {
        self.steps.iter().any(|step| matches!(step, ExampleStep::Command(line) if line.starts_with(words)))
    }
}

/// A fenced block of a page.
struct PageBlock {
    language: String,
    file: Option<String>,
    text: String,
}

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
