//! SHA-256 in the forms that packages need.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Returns the digest as hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the digest as wheels record it.
pub(crate) fn sha256_base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

/// Formats lines for `sha256sum --check`.
pub(crate) fn sum_lines<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    files.into_iter().map(|(name, bytes)| format!("{}  {name}\n", sha256_hex(bytes))).collect()
}
