//! The only place that talks to the expression language.

use std::ops::Range;

use windlass_value::{CompileError, Mode, Value};

/// What the language says about an expression.
pub(crate) fn errors(_source: &Value, _mode: Mode) -> Vec<CompileError> {
    Vec::new()
}

/// A step that an expression names.
#[derive(Debug, PartialEq)]
pub(crate) struct Named {
    pub id: String,
    /// `steps["id"]`
    pub quoted: bool,
    /// Bytes of the expression.
    pub range: Range<usize>,
}

/// The steps that an expression names, in its order. Texts and comments are no part of it. Where several names fit, the
/// longest is meant, since a hyphen may be part of one.
pub(crate) fn steps_of(text: &str, known: &[&str]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut selected = false;
    while let Some(letter) = text[at..].chars().next() {
        if let Some(length) = quoted(&text[at..]) {
            (at, selected) = (at + length, false);
        } else if text[at..].starts_with("//") {
            at += text[at..].find('\n').unwrap_or(text.len() - at);
        } else if is_word(letter) {
            let length = word(&text[at..]);
            if &text[at..at + length] == "steps" && !selected {
                found.extend(after_steps(text, at + length, known));
            }
            (at, selected) = (at + length, false);
        } else {
            at += letter.len_utf8();
            selected = letter == '.' || (selected && letter.is_whitespace());
        }
    }
    found
}

fn after_steps(text: &str, at: usize, known: &[&str]) -> Option<Named> {
    let blank = |at: usize| at + (text[at..].len() - text[at..].trim_start().len());
    let at = blank(at);
    match text[at..].chars().next()? {
        '.' => {
            let at = blank(at + 1);
            let rest = &text[at..];
            let fits =
                |id: &&&str| !id.is_empty() && rest.strip_prefix(**id).is_some_and(|rest| !rest.starts_with(is_word));
            let id = known.iter().filter(fits).max_by_key(|id| id.len());
            let length = id.map_or_else(|| word(rest), |id| id.len());
            (length > 0).then(|| Named { id: rest[..length].to_owned(), quoted: false, range: at..at + length })
        }
        '[' => {
            let at = blank(at + 1);
            let length = quoted(&text[at..])?;
            let id = text[at..at + length].trim_matches(['\'', '"']).to_owned();
            Some(Named { id, quoted: true, range: at..at + length })
        }
        _ => None,
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn word(text: &str) -> usize {
    text.find(|letter| !is_word(letter)).unwrap_or(text.len())
}

/// How long the text is that stands here in quotes.
fn quoted(text: &str) -> Option<usize> {
    let prefix = text.len() - text.trim_start_matches(['r', 'R', 'b', 'B']).len();
    let (marks, rest) = (&text[..prefix], &text[prefix..]);
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    if prefix > 2 {
        return None;
    }
    let triple = [quote; 3].iter().collect::<String>();
    let close = if rest.starts_with(&triple) { triple } else { quote.to_string() };
    let raw = marks.contains(['r', 'R']);
    let mut at = close.len();
    while at < rest.len() {
        if rest[at..].starts_with(&close) {
            return Some(prefix + at + close.len());
        }
        let mut letters = rest[at..].chars();
        let letter = letters.next()?;
        let escaped = if letter == '\\' && !raw { letters.next().map_or(0, char::len_utf8) } else { 0 };
        at += letter.len_utf8() + escaped;
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_steps_are_found() {
        let known = ["list", "list-services", "b_1", "size"];
        for (text, names) in [
            ("steps.list-services.result.x", &["list-services"][..]),
            ("steps.list-other.result", &["list"]),
            ("steps['list'].content == steps[\"b_1\"].content", &["list", "b_1"]),
            ("'steps.list' + r'\\' + steps.b_1.content // steps.list", &["b_1"]),
            ("a.steps.list || mysteps.list || steps . list.x", &["list"]),
            ("steps.nobody.content", &["nobody"]),
            ("steps", &[]),
            ("steps[", &[]),
            ("\"\"\"steps.list\"\"\" + '''it's steps.list'''", &[]),
            ("steps[x]", &[]),
        ] {
            let found = steps_of(text, &known);
            assert_eq!(found.iter().map(|named| named.id.as_str()).collect::<Vec<_>>(), names, "{text}");
        }
    }
}
