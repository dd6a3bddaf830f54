//! Truncated text. Secrets must be redacted before the cut, because half of a secret is not recognized.

use super::{REDACTED, Redactor};

/// A shorter part of a secret is too likely to be ordinary text.
const MIN_PART_CHARS: usize = 6;

tokio::task_local! {
    static CALL_REDACTION: Redactor;
}

/// Returns the redaction of the secrets in the inputs of the running call.
pub(crate) fn call_redaction() -> Redactor {
    CALL_REDACTION.try_with(Redactor::clone).unwrap_or_default()
}

impl Redactor {
    /// Runs a call whose tool obtains this redaction by [`call_redaction`].
    pub(crate) async fn scope<T>(self, call: impl Future<Output = T>) -> T {
        CALL_REDACTION.scope(self, call).await
    }

    /// Redacts a text whose end was cut off, including the beginning of a secret at the cut.
    pub(crate) fn redact_truncated_end(&self, text: &str) -> String {
        let redacted = self.redact_text(text);
        // The cut may have split a character.
        let whole = redacted.trim_end_matches(char::REPLACEMENT_CHARACTER);
        match self.longest(|form| prefixes(form).find(|part| whole.ends_with(part))) {
            Some(part) => format!("{}{REDACTED}", &whole[..whole.len() - part]),
            None => redacted,
        }
    }

    /// Redacts a text whose beginning was cut off, including the end of a secret at the cut.
    pub(crate) fn redact_truncated_start(&self, text: &str) -> String {
        let redacted = self.redact_text(text);
        let whole = redacted.trim_start_matches(char::REPLACEMENT_CHARACTER);
        match self.longest(|form| suffixes(form).find(|part| whole.starts_with(part))) {
            Some(part) => format!("{REDACTED}{}", &whole[part..]),
            None => redacted,
        }
    }

    fn longest<'a>(&'a self, part: impl Fn(&'a str) -> Option<&'a str>) -> Option<usize> {
        self.0.forms.iter().filter_map(|form| part(form)).map(str::len).max()
    }
}

/// Returns the prefixes, longest first.
fn prefixes(form: &str) -> impl Iterator<Item = &str> {
    let count = form.chars().count().saturating_sub(MIN_PART_CHARS);
    form.char_indices().rev().map(|(at, _)| &form[..at]).take(count)
}

/// Returns the suffixes, longest first.
fn suffixes(form: &str) -> impl Iterator<Item = &str> {
    let last = form.chars().count().saturating_sub(MIN_PART_CHARS);
    form.char_indices().map(|(at, _)| &form[at..]).take(last + 1).skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_secrets_are_redacted_at_a_cut() {
        let redaction =
            Redactor::new(["sk-canary-0123".to_owned(), "-----BEGIN KEY-----\nMIIcanary+line\nab\n".to_owned()]);
        for (text, after, before) in [
            ("x sk-canary-012", "x ***", "x sk-canary-012"),
            ("x sk-can", "x ***", "x sk-can"),
            ("x sk-ca", "x sk-ca", "x sk-ca"),
            ("x sk-canary\u{fffd}", "x ***", "x sk-canary\u{fffd}"),
            ("k-canary-0123 x", "k-canary-0123 x", "*** x"),
            ("y-0123 x", "y-0123 x", "*** x"),
            ("-0123 x", "-0123 x", "-0123 x"),
            ("sk-canary-0123", "***", "***"),
            // One line of a secret with several lines.
            ("x MIIcanary+line y", "x *** y", "x *** y"),
            ("x MIIcanary", "x ***", "x MIIcanary"),
            ("-----BEGIN KEY----- x", "-----BEGIN KEY----- x", "-----BEGIN KEY----- x"),
        ] {
            assert_eq!(redaction.redact_truncated_end(text), after, "{text}");
            assert_eq!(redaction.redact_truncated_start(text), before, "{text}");
        }
        let none = Redactor::default();
        assert_eq!(
            (none.redact_truncated_end("a"), none.redact_truncated_start("a")),
            ("a".to_owned(), "a".to_owned())
        );
    }
}
