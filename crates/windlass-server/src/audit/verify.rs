//! Verification of the hash chain.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::log::{chain_hash, line_number, log_files, split_line};

/// Maximum number of reported findings.
const MAX_FINDINGS: usize = 20;

/// The result of verifying the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditVerification {
    pub lines: u64,
    /// One sentence each.
    pub findings: Vec<String>,
}

/// Verifies every file of the log beside a store. A torn last line is no finding: the next start truncates it.
pub fn verify(directory: &Path) -> std::io::Result<AuditVerification> {
    let mut verifier = AuditVerifier::default();
    let files = log_files(directory)?;
    for (index, path) in files.iter().enumerate() {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut reader = BufReader::new(File::open(path)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            // What a power loss has left of lines that were not synced.
            if index + 1 == files.len() && line.contains(&0) {
                break;
            }
            match line.strip_suffix(b"\n") {
                Some(whole) => verifier.check_line(&name, whole),
                None if index + 1 == files.len() => break,
                None => verifier.check_line(&name, &line),
            }
        }
    }
    Ok(verifier.result)
}

#[derive(Default)]
struct AuditVerifier {
    result: AuditVerification,
    /// The number and hash of the previous line.
    previous: Option<(u64, [u8; 32])>,
}

impl AuditVerifier {
    fn check_line(&mut self, file: &str, line: &[u8]) {
        self.result.lines += 1;
        let (Some((body, hash)), Some(number)) = (split_line(line), line_number(line)) else {
            let at = self.previous.map_or(1, |(number, _)| number + 1);
            return self
                .add_finding(format!("audit log: the chain is broken at line {at} ({file}): it cannot be read"));
        };
        // Older files may have been moved away; the first line is trusted then.
        let expected = match self.previous {
            Some((before, _)) => before + 1,
            None => number,
        };
        let fits = match self.previous {
            Some((_, before)) => chain_hash(&before, body) == hash,
            None if number == 1 => chain_hash(&[0; 32], body) == hash,
            None => true,
        };
        if number != expected {
            let missing = format!("line {expected} is missing, {number} follows");
            self.add_finding(format!("audit log: the chain is broken at line {number} ({file}): {missing}"));
        } else if !fits {
            let why = "this line or the one before was changed";
            self.add_finding(format!("audit log: the chain is broken at line {number} ({file}): {why}"));
        }
        self.previous = Some((number, hash));
    }

    fn add_finding(&mut self, what: String) {
        if self.result.findings.len() < MAX_FINDINGS {
            self.result.findings.push(what);
        }
    }
}
