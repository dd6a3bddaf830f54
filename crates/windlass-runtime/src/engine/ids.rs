//! Run ids.

use crate::clock::real_now;

/// Reports whether a run may have this id. Ids appear in paths, commands and keys, so blanks and characters that
/// could be hidden are not allowed. Some names are reserved: `last` means the newest run.
pub fn is_run_id(id: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:".contains(letter);
    !id.is_empty() && id.len() <= 128 && !matches!(id, "last" | "changes" | "." | "..") && id.chars().all(plain)
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

/// Returns random bits from the system, through the standard library's seeding.
pub(crate) fn entropy() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
