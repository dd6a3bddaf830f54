//! Verification of the hash chain.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::end::LogEnd;
use super::key::{AuditKey, KEY_FILE};
use super::log::{line_number, log_files, split_line};

/// Maximum number of reported findings.
const MAX_FINDINGS: usize = 20;

/// The result of verifying the whole log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditVerification {
    pub lines: u64,
    /// One sentence each.
    pub findings: Vec<String>,
}

/// Verifies every file of the log beside a store. A torn last line is no finding: the next start truncates it. Lines
/// before `archived_until` are not expected, because they were moved away.
pub fn verify(directory: &Path, archived_until: Option<u64>) -> std::io::Result<AuditVerification> {
    let files = log_files(directory)?;
    let Some(key) = AuditKey::read(directory)? else {
        let findings = match files.is_empty() {
            true => Vec::new(),
            false => vec![format!("audit log: it cannot be verified: its key, {KEY_FILE}, is missing")],
        };
        return Ok(AuditVerification { lines: 0, findings });
    };
    // Read first: a server that writes meanwhile only adds lines.
    let end = LogEnd::read(directory, &key)?;
    let first = archived_until.unwrap_or(1);
    let mut verifier = AuditVerifier { key, first, end, result: AuditVerification::default(), previous: None };
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
    verifier.check_end();
    Ok(verifier.result)
}

struct AuditVerifier {
    key: AuditKey,
    /// The number of the first line that must be there.
    first: u64,
    /// The recorded end.
    end: Option<LogEnd>,
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
        if self.previous.is_none() && number > self.first {
            let (first, last) = (self.first, number - 1);
            self.add_finding(format!(
                "audit log: lines {first} to {last} are missing at its beginning ({file}); if they were moved away, \
                 `windlass doctor --audit-from {number}` expects no older ones"
            ));
        }
        // Older files may have been moved away; the first line is trusted then.
        let expected = match self.previous {
            Some((before, _)) => before + 1,
            None => number,
        };
        let fits = match self.previous {
            Some((_, before)) => self.key.chain_hash(&before, body) == hash,
            None if number == 1 => self.key.chain_hash(&[0; 32], body) == hash,
            None => true,
        };
        if number != expected {
            let missing = format!("line {expected} is missing, {number} follows");
            self.add_finding(format!("audit log: the chain is broken at line {number} ({file}): {missing}"));
        } else if !fits {
            let why = "this line or the one before was changed, or it was written without the key of this store";
            self.add_finding(format!("audit log: the chain is broken at line {number} ({file}): {why}"));
        } else if self.end.is_some_and(|end| end.number == number && end.hash != hash) {
            let why = "another line was the last one";
            self.add_finding(format!("audit log: the chain is broken at line {number} ({file}): {why}"));
        }
        self.previous = Some((number, hash));
    }

    /// Compares the last line with the recorded end.
    fn check_end(&mut self) {
        let last = self.previous.map_or(0, |(number, _)| number);
        match self.end {
            Some(end) if end.number > last => self.add_finding(format!(
                "audit log: lines {} to {} are missing at its end",
                last + 1,
                end.number
            )),
            None if last > 0 => self.add_finding(
                "audit log: the record of its end, audit.end, is missing or was changed: lines may be missing at its end"
                    .to_owned(),
            ),
            _ => {}
        }
    }

    fn add_finding(&mut self, what: String) {
        if self.result.findings.len() < MAX_FINDINGS {
            self.result.findings.push(what);
        }
    }
}
