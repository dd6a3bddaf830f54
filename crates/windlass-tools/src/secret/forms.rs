//! The encodings in which a server may repeat a secret.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use windlass_value::{Value, to_json};

use crate::http::uri::{escape, is_unreserved};

/// Returns the secrets in a header value, which is sent without surrounding blanks.
pub(super) fn secrets_in(value: &str) -> Vec<String> {
    let whole = value.trim();
    let is_scheme = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let part = whole.split_once(' ').filter(|(word, _)| is_scheme(word)).map(|(_, part)| part.trim().to_owned());
    let login = part.as_ref().and_then(|part| STANDARD.decode(part).ok());
    let login = login.and_then(|login| String::from_utf8(login).ok()).filter(|login| login.contains(':'));
    let password = login.as_ref().and_then(|login| login.split_once(':')).map(|(_, password)| password.to_owned());
    [Some(whole.to_owned()), part, login, password].into_iter().flatten().collect()
}

/// Returns the lines of a secret with several lines, such as a PEM key: each may appear alone.
pub(super) fn secret_lines(secret: &str) -> Vec<String> {
    if !secret.trim().contains('\n') {
        return Vec::new();
    }
    let lines = secret.lines().map(str::trim);
    // The first and the last line are the same in every PEM file.
    let telling = lines.filter(|line| line.chars().count() >= super::MIN_SECRET_CHARS && !line.starts_with("-----"));
    telling.map(str::to_owned).collect()
}

/// Returns all encodings of a text that can be searched literally, including the text itself.
pub(super) fn encoded_forms(text: &str) -> Vec<String> {
    let quoted = to_json(&Value::from(text));
    let quoted = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned();
    let escaped = escape(text, is_unreserved);
    let plus = escape(text, |byte| is_unreserved(byte) || byte == b' ').replace(' ', "+");
    // Host names are written in lower case.
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![text.to_owned(), text.to_ascii_lowercase(), quoted, escaped, plus, hex.to_uppercase(), hex];
    for before in 0..3 {
        forms.extend(in_base64(text, before));
    }
    forms
}

/// Returns the base64 characters that depend only on the text, if it begins `before` bytes after a multiple of three.
fn in_base64(text: &str, before: usize) -> [String; 2] {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(text.as_bytes());
    let (start, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .map(|encoded| encoded.get(start..end).unwrap_or_default().to_owned())
}

/// A secret that may be repeated as a number.
pub(super) struct SecretDigits {
    text: String,
    /// Without leading zeros, as numbers are written.
    number: String,
    value: f64,
}

impl SecretDigits {
    pub(super) fn parse(text: &str) -> Option<SecretDigits> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| is_number)?;
        Some(SecretDigits { text: text.to_owned(), number: text.trim_start_matches('0').to_owned(), value })
    }

    pub(super) fn occur_in(&self, number: &str, value: Option<f64>) -> bool {
        let digits = number.trim_start_matches('-');
        digits.contains(&self.text) || digits == self.number || value.is_some_and(|value| value.abs() == self.value)
    }
}

/// Finds the next occurrence of the secret with some or all characters written as `%2F`, `\u0053` or `\/`.
pub(super) fn find_escaped(text: &str, from: usize, secret: &str) -> Option<Range<usize>> {
    let mut at = from;
    while at < text.len() {
        if let Some(end) = match_end(text, at, secret)
            && text.is_char_boundary(at)
            && text.is_char_boundary(end)
        {
            return Some(at..end);
        }
        at += next_byte(text, at)?.1;
    }
    None
}

/// Returns the bytes of a text with all escapes decoded.
pub(super) fn unescaped_bytes(text: &str) -> Vec<u8> {
    let (mut bytes, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some((byte, length)) = next_byte(text, at) {
        bytes.push(byte);
        at += length;
    }
    bytes
}

/// Returns the end of the secret if it begins at `at`.
fn match_end(text: &str, mut at: usize, secret: &str) -> Option<usize> {
    for expected in secret.bytes() {
        let (byte, length) = next_byte(text, at)?;
        if byte != expected {
            return None;
        }
        at += length;
    }
    Some(at)
}

/// Returns the decoded byte at a position, and the length of its encoding.
fn next_byte(text: &str, at: usize) -> Option<(u8, usize)> {
    let bytes = text.as_bytes();
    let hex = |from: usize, to: usize| {
        let digits = text.get(at + from..at + to)?;
        u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
    };
    Some(match (bytes.get(at)?, bytes.get(at + 1)) {
        (b'%', _) => hex(1, 3).map_or((b'%', 1), |byte| (byte, 3)),
        (b'\\', Some(b'u')) => hex(2, 6).map_or((b'\\', 1), |byte| (byte, 6)),
        (b'\\', Some(next @ (b'/' | b'"' | b'\\'))) => (*next, 2),
        (first, _) => (*first, 1),
    })
}
