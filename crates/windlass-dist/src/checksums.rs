//! Checksums in the forms that packages need: SHA-256, and MD5 inside of Debian packages.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use md5::Md5;
use sha2::{Digest, Sha256};

/// Returns the digest as hexadecimal digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the digest as wheels record it.
pub(crate) fn sha256_base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formats lines for `sha256sum --check`.
pub(crate) fn sum_lines<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    files.into_iter().map(|(name, bytes)| format!("{}  {name}\n", sha256_hex(bytes))).collect()
}

/// Formats the lines of `md5sums`, which `dpkg --verify` compares installed files with.
pub(crate) fn md5_lines<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    files.into_iter().map(|(name, bytes)| format!("{}  {name}\n", hex(&Md5::digest(bytes)))).collect()
}
