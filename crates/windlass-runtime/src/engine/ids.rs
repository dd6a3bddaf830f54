//! Ids of runs: a text, which the caller may choose, and a number, the execution id. Both identify the run.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};

use windlass_store::{RunRow, StoreError, StoreRead};

use crate::clock::real_now;

/// The fewest digits of an execution id.
const MIN_EXECUTION_ID_DIGITS: usize = 16;

/// The bits of an execution id below the time: 10 for the process, 12 for the sequence within a millisecond. The 41
/// bits of the time last until 2089.
const PROCESS_BITS: u32 = 10;
const SEQUENCE_BITS: u32 = 12;

/// The beginning of 2020, from which execution ids count milliseconds.
const EXECUTION_EPOCH_MS: i64 = 1_577_836_800_000;

/// Reports whether a run may have this id. Ids appear in paths, commands and keys, so blanks and characters that
/// could be hidden are not allowed. Some names are reserved: `last` means the newest run, and numbers of 16 digits or
/// more are execution ids.
pub fn is_run_id(id: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    let reserved = matches!(id, "last" | "changes" | "." | "..") || looks_like_execution_id(id);
    !id.is_empty() && id.len() <= 128 && !reserved && id.chars().all(plain)
}

/// Reports whether a text refers to a run: by its id or by its execution id.
pub fn is_run_reference(text: &str) -> bool {
    is_run_id(text) || parse_execution_id(text).is_some()
}

/// Finds a run by its id or by its execution id in decimal digits.
pub fn find_run(store: &(impl StoreRead + ?Sized), reference: &str) -> Result<Option<RunRow>, StoreError> {
    match parse_execution_id(reference) {
        Some(execution_id) => store.run_by_execution_id(execution_id),
        None => store.run(reference),
    }
}

fn looks_like_execution_id(text: &str) -> bool {
    text.len() >= MIN_EXECUTION_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_execution_id(text: &str) -> Option<i64> {
    text.parse().ok().filter(|_| looks_like_execution_id(text))
}

/// Draws an execution id: a number of 63 bits that is greater than all those that this process drew before, and orders
/// runs of different processes by time. The store refuses the same number from two processes, which is improbable; then
/// another one is drawn.
pub(crate) fn new_execution_id() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    static PROCESS: LazyLock<i64> = LazyLock::new(|| (entropy() & ((1 << PROCESS_BITS) - 1)) as i64);
    // A clock far in the past must not make the number shorter than the digits by which it is recognized.
    let ms = (real_now().as_ms() - EXECUTION_EPOCH_MS).clamp(1 << 28, (1 << 41) - 1);
    let earliest = (ms << PROCESS_BITS | *PROCESS) << SEQUENCE_BITS;
    let next = |last: i64| Some(earliest.max(last + 1));
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
    earliest.max(last + 1)
}

/// Creates an id that sorts by creation time and is unique without coordination.
pub fn new_run_id() -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0u8; 16];
    let ms = real_now().as_ms() as u64;
    bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    bytes[6..].copy_from_slice(
        &entropy().to_be_bytes().iter().chain(&entropy().to_be_bytes()).copied().take(10).collect::<Vec<_>>(),
    );
    let mut number = u128::from_be_bytes(bytes);
    let mut text = [b'0'; 26];
    for digit in text.iter_mut().rev() {
        *digit = DIGITS[(number & 31) as usize];
        number >>= 5;
    }
    text.iter().map(|byte| char::from(*byte)).collect()
}

impl super::EngineInner {
    /// Draws an execution id that no run has now.
    pub(crate) fn unused_execution_id(&self) -> Result<i64, StoreError> {
        loop {
            let execution_id = new_execution_id();
            if self.store.run_by_execution_id(execution_id)?.is_none() {
                return Ok(execution_id);
            }
        }
    }
}

/// Returns random bits from the system, through the standard library's seeding.
pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{is_run_id, is_run_reference, new_execution_id};

    #[test]
    fn execution_ids_increase_and_cannot_be_mistaken_for_ids() {
        let drawn: Vec<i64> = (0..20_000).map(|_| new_execution_id()).collect();
        assert!(drawn.is_sorted());
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
        let text = drawn[0].to_string();
        assert!(!is_run_id(&text) && is_run_reference(&text), "{text}");
        assert!(is_run_id("42") && is_run_id("202611180000") && is_run_id("1234567890123456-x"));
        assert!(!is_run_reference("99999999999999999999"), "more than 63 bits");
    }

    #[test]
    fn execution_ids_are_unique_across_threads() {
        let draw = || (0..5_000).map(|_| new_execution_id()).collect::<Vec<i64>>();
        let drawn: Vec<i64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
    }
}
