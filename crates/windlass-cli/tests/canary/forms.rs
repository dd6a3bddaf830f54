//! The planted secrets and all encodings in which they may appear.

use std::collections::BTreeMap;

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The planted secrets with their origin. Each is a unique text.
pub(crate) const PLANTED: [(&str, &str); 14] = [
    ("credential of the environment", "cnry-01/aK+9=zQw3x"),
    ("credential of the settings", "cnry-02/bL+8=yRe4v"),
    ("text in the settings under a telling name", "cnry-03/cM+7=xTr5u"),
    ("key of a model", "cnry-04/dN+6=wYt6s"),
    ("header of an activity", "cnry-05/eP+5=vUy7r"),
    ("header of a tool server", "cnry-06/fQ+4=uIu8q"),
    ("secret of a webhook", "cnry-07/gR+3=tOi9p"),
    ("password of a database", "cnry-08/hS+2=sPo1n"),
    ("key of an agent's model", "cnry-09/iT+1=rAp2m"),
    ("variable of a tool server", "cnry-10/jU+0=qSs3k"),
    ("password in the address of a database", "cnry-11/kV+9=pDd4j"),
    ("credential of a worker's environment", "cnry-12/lW+8=oFf5h"),
    ("credential of a worker's settings", "cnry-13/mX+7=nGg6g"),
    ("header of a worker's activity", "cnry-14/nY+6=mHh7f"),
];

pub(crate) fn planted(number: usize) -> &'static str {
    PLANTED[number - 1].1
}

pub(crate) fn percent_encoded(text: &str) -> String {
    let one = |byte: u8| match byte.is_ascii_alphanumeric() || byte == b'-' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

fn encoded_forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = percent_encoded(secret);
    let all_percent: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let escaped = |text: &str| text.chars().map(|letter| format!("\\u{:04x}", letter as u32)).collect::<String>();
    let backwards: String = secret.chars().rev().collect();
    let mut forms = vec![
        secret.to_owned(),
        percent.to_lowercase(),
        percent,
        all_percent.to_lowercase(),
        all_percent,
        hex.to_uppercase(),
        hex,
        secret.replace('/', "\\/"),
        secret.replace('=', "\\u003d"),
        secret.replace('+', "\\u002b"),
        escaped(secret),
        escaped(&backwards),
        backwards,
        // Half of a secret is still a leak.
        secret[..12].to_owned(),
        secret[7..].to_owned(),
    ];
    for before in ["", "a", "ab"] {
        for encoded in
            [STANDARD_NO_PAD.encode(format!("{before}{secret}")), URL_SAFE_NO_PAD.encode(format!("{before}{secret}"))]
        {
            forms.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    forms
}

/// Finds all planted secrets, and tokens and keys created meanwhile.
pub(crate) struct SecretFinder {
    forms: AhoCorasick,
    /// The name of the secret for each form.
    names: Vec<String>,
}

impl SecretFinder {
    pub(crate) fn new(made: &[(&str, &str)]) -> SecretFinder {
        let all = PLANTED.iter().chain(made);
        let (names, forms): (Vec<String>, Vec<String>) = all
            .flat_map(|(name, secret)| encoded_forms(secret).into_iter().map(|form| ((*name).to_owned(), form)))
            .unzip();
        SecretFinder { forms: AhoCorasick::new(forms).expect("few and short"), names }
    }

    pub(crate) fn found_in(&self, bytes: &[u8]) -> Vec<&str> {
        let mut found: Vec<&str> = self
            .forms
            .find_overlapping_iter(bytes)
            .map(|found| self.names[found.pattern().as_usize()].as_str())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// All output that an observer could read, by its source.
#[derive(Default)]
pub(crate) struct CollectedOutput(BTreeMap<String, Vec<u8>>);

impl CollectedOutput {
    pub(crate) fn keep(&mut self, source: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(source.into(), bytes.into());
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn size(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Returns the secrets found, with their source, except allowed ones.
    pub(crate) fn leaks(&self, finder: &SecretFinder, exceptions: &[(&str, &str)]) -> Vec<String> {
        let mut leaks = Vec::new();
        for (source, bytes) in &self.0 {
            for what in finder.found_in(bytes) {
                if !exceptions.iter().any(|(allowed, at)| *allowed == what && source.contains(at)) {
                    leaks.push(format!("{what} in {source}"));
                }
            }
        }
        leaks
    }
}

#[test]
fn every_encoding_is_found() {
    let finder = SecretFinder::new(&[("made", "wl_0123456789abcdefghijk")]);
    for (name, secret) in PLANTED {
        let base64 = STANDARD_NO_PAD.encode(format!("user:{secret}:x"));
        let json = format!("\"{}\"", secret.replace('/', "\\/"));
        let hex: String = secret.bytes().map(|byte| format!("{byte:02X}")).collect();
        for text in [secret, &base64, &json, &hex, &percent_encoded(secret), &secret.chars().rev().collect::<String>()]
        {
            assert_eq!(finder.found_in(format!("<{text}>").as_bytes()), [name], "{text}");
        }
    }
    assert!(finder.found_in(b"cnry and wl_ and nothing else").is_empty());
    assert_eq!(finder.found_in(b"x wl_0123456789abcdefghijk"), ["made"]);
}
