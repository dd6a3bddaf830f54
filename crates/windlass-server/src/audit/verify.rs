//! Whether the chain is whole.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::log::{chained, files, number, parts};

/// Findings are told up to here.
const MAX_FINDINGS: usize = 20;

/// What a look at the whole log has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub lines: u64,
    /// One sentence each.
    pub findings: Vec<String>,
}

/// Reads every file of the log beside a store. An end that a crash has cut short is no finding: the next start cuts it.
pub fn verify(directory: &Path) -> std::io::Result<Checked> {
    let mut look = Look::default();
    let files = files(directory)?;
    for (index, path) in files.iter().enumerate() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut reader = BufReader::new(File::open(path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            match line.strip_suffix(b"\n") {
                Some(whole) => look.line(&name, whole),
                None if index + 1 == files.len() => break,
                None => look.line(&name, &line),
            }
        }
    }
    Ok(look.checked)
}

#[derive(Default)]
struct Look {
    checked: Checked,
    /// The number and the hash of the line before.
    before: Option<(u64, [u8; 32])>,
}

impl Look {
    fn line(&mut self, file: &str, line: &[u8]) {
        self.checked.lines += 1;
        let (Some((body, hash)), Some(number)) = (parts(line), number(line)) else {
            let at = self.before.map_or(1, |(number, _)| number + 1);
            return self.find(format!("audit log: the chain is broken at line {at} ({file}): it cannot be read"));
        };
        // Older files may have been put elsewhere; then the first line is taken at its word.
        let expected = match self.before {
            Some((before, _)) => before + 1,
            None => number,
        };
        let fits = match self.before {
            Some((_, before)) => chained(&before, body) == hash,
            None if number == 1 => chained(&[0; 32], body) == hash,
            None => true,
        };
        if number != expected {
            let missing = format!("line {expected} is missing, {number} follows");
            self.find(format!("audit log: the chain is broken at line {number} ({file}): {missing}"));
        } else if !fits {
            let why = "it or the line before was changed";
            self.find(format!("audit log: the chain is broken at line {number} ({file}): {why}"));
        }
        self.before = Some((number, hash));
    }

    fn find(&mut self, what: String) {
        if self.checked.findings.len() < MAX_FINDINGS {
            self.checked.findings.push(what);
        }
    }
}
