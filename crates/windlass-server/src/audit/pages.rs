//! Paging through the log. Numbers increase along a file, so a page is found by binary search.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::log::{MAX_LINE_BYTES, line_number, log_files};

/// Lines after a number, oldest first.
#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    pub items: Vec<serde_json::Value>,
    /// The value of `after` for the next page, if there is one.
    pub next: Option<u64>,
    /// The number of the newest line.
    pub last: u64,
}

pub fn read_page(directory: &Path, after: u64, limit: usize) -> std::io::Result<AuditPage> {
    let files = log_files(directory)?;
    let mut page = AuditPage { last: last_line_number(&files)?, ..AuditPage::default() };
    // The newest file that begins at or before the requested line.
    let mut from = 0;
    for (index, path) in files.iter().enumerate() {
        if first_line_number(path)?.is_some_and(|first| first <= after.saturating_add(1)) {
            from = index;
        }
    }
    let mut last = after;
    for path in &files[from.min(files.len())..] {
        let mut reader = BufReader::new(File::open(path)?);
        seek_near(&mut reader, after)?;
        let mut line = Vec::new();
        while page.items.len() <= limit {
            line.clear();
            if reader.read_until(b'\n', &mut line)? == 0 || !line.ends_with(b"\n") {
                break;
            }
            let Ok(value) = serde_json::from_slice::<serde_json::Value>(&line) else { continue };
            match value.get("n").and_then(serde_json::Value::as_u64).filter(|number| *number > after) {
                Some(_) if page.items.len() == limit => {
                    page.next = Some(last);
                    return Ok(page);
                }
                Some(number) => {
                    last = number;
                    page.items.push(value);
                }
                None => {}
            }
        }
    }
    Ok(page)
}

fn first_line_number(path: &Path) -> std::io::Result<Option<u64>> {
    let mut line = Vec::new();
    BufReader::new(File::open(path)?).read_until(b'\n', &mut line)?;
    Ok(line_number(&line))
}

/// Reads the number of the newest line from the end of the newest non-empty file.
fn last_line_number(files: &[PathBuf]) -> std::io::Result<u64> {
    for path in files.iter().rev() {
        let mut file = File::open(path)?;
        let length = file.seek(SeekFrom::End(0))?;
        // The newest line may be incomplete; the one before it is complete.
        file.seek(SeekFrom::Start(length.saturating_sub(2 * MAX_LINE_BYTES as u64)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        if let Some(number) = end.split(|byte| *byte == b'\n').rev().find_map(line_number) {
            return Ok(number);
        }
    }
    Ok(0)
}

/// Seeks to the start of a line at, or shortly before, the first line after `after`.
fn seek_near(reader: &mut BufReader<File>, after: u64) -> std::io::Result<()> {
    const NEAR_BYTES: u64 = 64 * 1024;
    let (mut low, mut high) = (0, reader.seek(SeekFrom::End(0))?);
    let mut line = Vec::new();
    while high - low > NEAR_BYTES {
        let middle = low + (high - low) / 2;
        reader.seek(SeekFrom::Start(middle))?;
        line.clear();
        let skipped = reader.read_until(b'\n', &mut line)? as u64;
        line.clear();
        reader.read_until(b'\n', &mut line)?;
        match line_number(&line) {
            Some(number) if number <= after => low = middle + skipped,
            _ => high = middle,
        }
    }
    reader.seek(SeekFrom::Start(low)).map(drop)
}
