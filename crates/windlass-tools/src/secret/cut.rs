//! Texts of which only a part is kept. A secret must be struck out before the cut: half of one is found by nobody.

use super::{Redaction, STRUCK};

/// A shorter part of a secret is too likely to be ordinary text.
const PART_MIN: usize = 6;

tokio::task_local! {
    static OF_CALL: Redaction;
}

/// The secrets that were put into the inputs of the call that is running.
pub(crate) fn of_call() -> Redaction {
    OF_CALL.try_with(Redaction::clone).unwrap_or_default()
}

impl Redaction {
    /// Runs a call, whose tool finds this by [`of_call`].
    pub(crate) async fn during<T>(self, call: impl Future<Output = T>) -> T {
        OF_CALL.scope(self, call).await
    }

    /// A text whose end was cut off already: with the beginning of a secret there.
    pub(crate) fn text_cut_after(&self, text: &str) -> String {
        let struck = self.text(text);
        // The cut may have gone through a character.
        let whole = struck.trim_end_matches(char::REPLACEMENT_CHARACTER);
        match self.longest(|form| beginnings(form).find(|part| whole.ends_with(part))) {
            Some(part) => format!("{}{STRUCK}", &whole[..whole.len() - part]),
            None => struck,
        }
    }

    /// A text whose beginning was cut off already: with the end of a secret there.
    pub(crate) fn text_cut_before(&self, text: &str) -> String {
        let struck = self.text(text);
        let whole = struck.trim_start_matches(char::REPLACEMENT_CHARACTER);
        match self.longest(|form| ends(form).find(|part| whole.starts_with(part))) {
            Some(part) => format!("{STRUCK}{}", &whole[part..]),
            None => struck,
        }
    }

    fn longest<'a>(&'a self, part: impl Fn(&'a str) -> Option<&'a str>) -> Option<usize> {
        self.0.forms.iter().filter_map(|form| part(form)).map(str::len).max()
    }
}

/// The longest first.
fn beginnings(form: &str) -> impl Iterator<Item = &str> {
    let count = form.chars().count().saturating_sub(PART_MIN);
    form.char_indices().rev().map(|(at, _)| &form[..at]).take(count)
}

/// The longest first.
fn ends(form: &str) -> impl Iterator<Item = &str> {
    let last = form.chars().count().saturating_sub(PART_MIN);
    form.char_indices().map(|(at, _)| &form[at..]).take(last + 1).skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_secrets_at_a_cut() {
        let redaction =
            Redaction::new(["sk-canary-0123".to_owned(), "-----BEGIN KEY-----\nMIIcanary+line\nab\n".to_owned()]);
        for (text, after, before) in [
            ("x sk-canary-012", "x ***", "x sk-canary-012"),
            ("x sk-can", "x ***", "x sk-can"),
            ("x sk-ca", "x sk-ca", "x sk-ca"),
            ("x sk-canary\u{fffd}", "x ***", "x sk-canary\u{fffd}"),
            ("k-canary-0123 x", "k-canary-0123 x", "*** x"),
            ("y-0123 x", "y-0123 x", "*** x"),
            ("-0123 x", "-0123 x", "-0123 x"),
            ("sk-canary-0123", "***", "***"),
            // One line of several.
            ("x MIIcanary+line y", "x *** y", "x *** y"),
            ("x MIIcanary", "x ***", "x MIIcanary"),
            ("-----BEGIN KEY----- x", "-----BEGIN KEY----- x", "-----BEGIN KEY----- x"),
        ] {
            assert_eq!(redaction.text_cut_after(text), after, "{text}");
            assert_eq!(redaction.text_cut_before(text), before, "{text}");
        }
        let none = Redaction::default();
        assert_eq!((none.text_cut_after("a"), none.text_cut_before("a")), ("a".to_owned(), "a".to_owned()));
    }
}
