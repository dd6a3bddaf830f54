//! Secrets and their redaction.

mod forms;
#[cfg(feature = "process")]
#[cfg_attr(not(feature = "python"), allow(dead_code, reason = "only interpreters keep the ends of texts"))]
mod truncated;

use std::fmt;
use std::sync::Arc;

use windlass_core::{ErrorInfo, NextCall, TaskOutcome};
use windlass_value::{Map, Value, to_json};

use crate::http::uri;
use aho_corasick::AhoCorasick;
use forms::{SecretDigits, encoded_forms, find_escaped, secret_lines, secrets_in, unescaped_bytes};
#[cfg(feature = "process")]
pub(crate) use truncated::call_redaction;

/// A value from the settings. Its debug output is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: Arc<str>,
    is_plain: bool,
}

impl Secret {
    /// A key or password, which is redacted from everything a service returns.
    pub fn new(text: impl Into<Arc<str>>) -> Secret {
        Secret { text: text.into(), is_plain: false }
    }

    /// An ordinary text, which may appear in the reply of a service.
    pub fn plain(text: impl Into<Arc<str>>) -> Secret {
        Secret { text: text.into(), is_plain: true }
    }

    /// Returns the text itself, for the code that needs it.
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Shorter texts occur in ordinary text and numbers, which would be redacted with them.
const MIN_SECRET_CHARS: usize = 8;
const REDACTED: &str = "***";

/// The automata only find out whether a text may contain a secret, so the beginning of each is enough. For all bytes of a
/// long one they would take minutes and gigabytes.
const MAX_SEARCHED_BYTES: usize = 48;

/// Redacts secrets from the reply of a server.
#[derive(Clone, Default)]
pub struct Redactor(Arc<Needles>);

#[derive(Default)]
struct Needles {
    /// Every secret in every encoding it may be repeated in, longest first.
    forms: Vec<String>,
    /// The secrets unencoded, for the search in escaped text.
    texts: Vec<String>,
    digits: Vec<SecretDigits>,
    /// Secrets that are too short to be found.
    short: Vec<String>,
    /// Search automata for all forms and for all texts.
    any_form: Option<AhoCorasick>,
    any_text: Option<AhoCorasick>,
}

impl Redactor {
    /// Creates a redactor of all settings that are not plain: of the whole value, and of the part after a scheme such
    /// as `Bearer`.
    pub fn from_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Redactor {
        let secret = secrets.into_iter().filter(|secret| !secret.is_plain);
        Redactor::from_header_values(secret.map(Secret::reveal))
    }

    /// Creates a redactor of those headers from the settings that are not plain.
    pub fn from_headers(headers: &[(String, Secret)]) -> Redactor {
        let secret = headers.iter().map(|(_, value)| value).filter(|value| !value.is_plain);
        Redactor::from_header_values(secret.map(Secret::reveal))
    }

    /// Creates a redactor of header values: of the whole value, and of the part after a scheme such as `Bearer`.
    pub(crate) fn from_header_values<'a>(values: impl Iterator<Item = &'a str>) -> Redactor {
        Redactor::new(values.flat_map(secrets_in))
    }

    /// Adds the login of a configured URL.
    pub fn with_login(&self, url: &str) -> Redactor {
        let Some((user, password)) = uri::login_in_url(url) else { return self.clone() };
        let both = format!("{user}:{password}");
        Redactor::new(self.0.texts.iter().chain(&self.0.short).cloned().chain([both, password]))
    }

    /// Creates a redactor of texts that are secrets as they are.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Redactor {
        let (mut texts, short): (Vec<String>, Vec<String>) = secrets
            .into_iter()
            .filter(|secret| !secret.is_empty())
            .flat_map(|secret| secret_lines(&secret).into_iter().chain([secret]))
            .partition(|secret| secret.chars().count() >= MIN_SECRET_CHARS);
        // A secret may contain another one, so the longest come first.
        texts.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        texts.dedup();
        let mut all: Vec<String> = texts.iter().flat_map(|text| encoded_forms(text)).collect();
        all.retain(|form| form.chars().count() >= MIN_SECRET_CHARS);
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        let digits = texts.iter().filter_map(|text| SecretDigits::parse(text)).collect();
        let (any_form, any_text) = (finder(&all), finder(&texts));
        Redactor(Arc::new(Needles { forms: all, texts, digits, short, any_form, any_text }))
    }

    /// Adds the secrets of another redaction.
    pub(crate) fn merged_with(&self, other: &Redactor) -> Redactor {
        let secrets =
            |redaction: &Redactor| redaction.0.texts.iter().chain(&redaction.0.short).cloned().collect::<Vec<_>>();
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other.clone(),
            (_, true) => self.clone(),
            _ => Redactor::new(secrets(self).into_iter().chain(secrets(other))),
        }
    }

    /// Returns true if there is nothing to redact.
    pub fn is_empty(&self) -> bool {
        self.0.texts.is_empty() && self.0.short.is_empty()
    }

    /// Returns the text without secrets.
    pub fn redact_text(&self, text: &str) -> String {
        if !self.is_contained_in(text) {
            return text.to_owned();
        }
        let redacted = self.0.forms.iter().fold(text.to_owned(), |text, form| match text.contains(form.as_str()) {
            true => text.replace(form.as_str(), REDACTED),
            false => text,
        });
        self.0.texts.iter().fold(redacted, |text, secret| redact_escaped(text, secret))
    }

    /// Returns how many bytes at the end of a text may be the beginning of a secret that continues in the next chunk.
    pub fn partial_match_len(&self, text: &str) -> usize {
        let begun = |form: &str| {
            let starts = form.char_indices().rev().map(|(at, _)| at).filter(|at| *at > 0);
            starts.into_iter().find(|at| text.ends_with(&form[..*at])).unwrap_or(0)
        };
        self.0.forms.iter().map(|form| begun(form)).max().unwrap_or(0)
    }

    /// Returns the value without secrets.
    pub fn redact_value(&self, value: &Value) -> Value {
        match value {
            _ if self.0.texts.is_empty() => value.clone(),
            Value::Str(text) if self.is_contained_in(text) => Value::from(self.redact_text(text)),
            Value::List(items) => Value::list(items.iter().map(|item| self.redact_value(item)).collect()),
            Value::Map(map) => {
                let clean: Map =
                    map.iter().map(|(key, value)| (self.redact_shared(key), self.redact_value(value))).collect();
                Value::map(clean)
            }
            Value::Int(_) | Value::Float(_) | Value::Big(_) if self.is_secret_number(value) => Value::from(REDACTED),
            other => other.clone(),
        }
    }

    /// Redacts everything of an outcome that is visible or persisted.
    pub fn redact_outcome(&self, outcome: TaskOutcome) -> TaskOutcome {
        let again = outcome.next_call.map(|again| NextCall { input: self.redact_value(&again.input), ..again });
        TaskOutcome {
            output: self.redact_value(&outcome.output),
            error: outcome.error.map(|error| self.redact_error(error)),
            meta: self.redact_value(&outcome.meta),
            facts: self.redact_value(&outcome.facts),
            private: self.unless_secret(outcome.private),
            next_call: again,
            // Tools that receive secrets have no side outputs and do not suspend.
            side_outputs: None,
            suspension: None,
            reused: None,
        }
    }

    /// Returns a value that must stay as it is, or null if it contains a secret.
    fn unless_secret(&self, value: Value) -> Value {
        if self.redact_value(&value) == value { value } else { Value::Null }
    }

    fn redact_error(&self, error: ErrorInfo) -> ErrorInfo {
        let hint = error.hint.as_ref().map(|hint| self.redact_shared(hint));
        // Without a reply there is nothing to redact.
        let unreached = matches!(&*error.kind, "connection" | "timeout");
        let hint = if !self.0.short.is_empty() && !unreached { Some(with_warning(hint)) } else { hint };
        let (code, message) = (self.redact_shared(&error.code), self.redact_shared(&error.message));
        ErrorInfo { code, message, hint, ..error }
    }

    fn redact_shared(&self, text: &Arc<str>) -> Arc<str> {
        if self.is_contained_in(text) { self.redact_text(text).into() } else { text.clone() }
    }

    pub(crate) fn is_contained_in(&self, text: &str) -> bool {
        let found = |finder: &Option<AhoCorasick>, bytes: &[u8]| finder.as_ref().is_some_and(|any| any.is_match(bytes));
        found(&self.0.any_form, text.as_bytes())
            || (self.0.any_text.is_some() && may_be_escaped(text) && found(&self.0.any_text, &unescaped_bytes(text)))
    }

    fn is_secret_number(&self, number: &Value) -> bool {
        !self.0.digits.is_empty() && {
            let text = to_json(number);
            self.0.digits.iter().any(|digits| digits.occur_in(&text, number.as_f64()))
        }
    }
}

const WARNING: &str = "a configured secret has fewer than 8 characters, too few to be redacted from replies";

fn with_warning(hint: Option<Arc<str>>) -> Arc<str> {
    match hint {
        // An outcome may be redacted twice.
        Some(hint) if hint.contains(WARNING) => hint,
        Some(hint) => format!("{hint}; {WARNING}").into(),
        None => WARNING.into(),
    }
}

fn redact_escaped(text: String, secret: &str) -> String {
    if !may_be_escaped(&text) {
        return text;
    }
    let (mut redacted, mut at) = (String::new(), 0);
    while let Some(range) = find_escaped(&text, at, secret) {
        redacted.push_str(&text[at..range.start]);
        redacted.push_str(REDACTED);
        at = range.end;
    }
    redacted.push_str(&text[at..]);
    redacted
}

/// Builds the automaton. It cannot exceed its limits: only the beginnings of secrets are in it.
fn finder(texts: &[String]) -> Option<AhoCorasick> {
    let beginnings = texts.iter().map(|text| &text.as_bytes()[..text.len().min(MAX_SEARCHED_BYTES)]);
    if texts.is_empty() { None } else { AhoCorasick::new(beginnings).ok() }
}

fn may_be_escaped(text: &str) -> bool {
    text.contains(['%', '\\'])
}

#[cfg(test)]
mod tests {
    use windlass_value::parse_json;

    use super::*;

    /// An automaton over all bytes of this secret would not be built within minutes.
    #[test]
    fn a_long_secret_is_redacted() {
        let secret = "a".repeat(65_536);
        let redactor = Redactor::new([secret.clone()]);
        assert_eq!(redactor.redact_text(&format!("x {secret} y")), "x *** y");
        let beginning = &secret[..60_000];
        assert_eq!(redactor.redact_text(beginning), beginning);
    }

    fn clean(secret: &str, json: &str) -> String {
        to_json(&Redactor::new([secret.to_owned()]).redact_value(&parse_json(json).unwrap()))
    }

    #[test]
    fn secrets_are_taken_out_wherever_they_are() {
        let redaction = Redactor::new(["hush-hush".to_owned(), "hush-hush-hush".to_owned(), "blue".to_owned()]);
        let value = parse_json(r#"{"hush-hush": ["a hush-hush-hush b", {"x": "no blue"}], "n": 1}"#).unwrap();
        assert_eq!(to_json(&redaction.redact_value(&value)), r#"{"***":["a *** b",{"x":"no blue"}],"n":1}"#);
        assert_eq!(format!("{:?} {:?}", Secret::new("hush"), Secret::plain("blue")), "*** ***");
    }

    #[test]
    fn secrets_are_redacted_in_every_form() {
        for (secret, text, expected) in [
            ("sk-Ab/c+d==", r#""x=sk-Ab%2Fc%2Bd%3D%3D&y""#, r#""x=***&y""#),
            ("sk-Ab/c+d==", r#""x=sk-Ab%2fc+d==&y""#, r#""x=***&y""#),
            ("sk-Ab/c+d==", r#""%73k-Ab/c%2Bd==""#, r#""***""#),
            ("sk-Ab/c+d==", r#""http://sk-ab/c+d==/""#, r#""http://***/""#),
            ("say \"hush\"", r#""{\"a\":\"say \\\"hush\\\"\"}""#, r#""{\"a\":\"***\"}""#),
            ("sk-canary-1", r#""{\"a\":\"\\u0073k-canary-1\"}""#, r#""{\"a\":\"***\"}""#),
            (
                "0123456789",
                r#"[123456789, "0123456789", 123456789.0, 12345678, 1234567890]"#,
                r#"["***","***","***",12345678,1234567890]"#,
            ),
            ("12345678901234567890123", "12345678901234567890123", r#""***""#),
        ] {
            assert_eq!(clean(secret, text), expected, "{secret} in {text}");
        }
    }

    #[test]
    fn secrets_are_redacted_in_base64_at_every_offset() {
        use base64::Engine;
        use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
        let secret = "sk-canary?0123456789>";
        for before in ["", "a", "ab", "abc", "Bearer "] {
            for after in ["", ":", "::", ":::"] {
                let whole = format!("{before}{secret}{after}");
                for text in [STANDARD.encode(&whole), URL_SAFE_NO_PAD.encode(&whole)] {
                    let redacted = Redactor::new([secret.to_owned()]).redact_text(&text);
                    assert!(redacted.contains(REDACTED) && redacted.len() < 24, "{redacted}");
                }
            }
        }
    }

    #[test]
    fn every_part_of_an_outcome_is_redacted() {
        let data = || parse_json(r#"{"x": "a hush-hush b"}"#).unwrap();
        let again = Some(NextCall { input: data(), after: windlass_value::Duration::ZERO });
        let error = Some(ErrorInfo::new("hush-hush", "y", "hush-hush"));
        let outcome =
            TaskOutcome { error, meta: data(), next_call: again, facts: data(), ..TaskOutcome::success(data()) };
        let redacted = Redactor::new(["hush-hush".to_owned()]).redact_outcome(outcome);
        assert!(!format!("{redacted:?}").contains("hush"), "{redacted:?}");
    }

    #[test]
    fn short_secrets_produce_a_warning() {
        let failure = TaskOutcome::failure(ErrorInfo::new("x", "y", "blue").hint("look"));
        let redaction = Redactor::from_headers(&[("a".to_owned(), Secret::new("blue"))]);
        let outcome = redaction.redact_outcome(redaction.redact_outcome(failure.clone()));
        let error = outcome.error.unwrap();
        assert_eq!((&*error.message, error.hint.unwrap().matches("fewer than 8").count()), ("blue", 1));
        // Without a reply there is nothing to redact.
        let unreached = TaskOutcome::failure(ErrorInfo::new("x", "connection", "gone").hint("look"));
        assert_eq!(redaction.redact_outcome(unreached.clone()), unreached);
        let plain = Redactor::from_headers(&[("a".to_owned(), Secret::plain("blue"))]);
        assert_eq!(plain.redact_outcome(failure.clone()), failure);
    }
}
