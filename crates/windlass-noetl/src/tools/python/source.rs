//! Finds templates in Python code. Outside of texts and comments, two opening braces have no meaning in Python that
//! could run (a set of sets), so they begin a template. In a text they may belong to the text or to an f-string: they
//! stay.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::expr;

#[derive(Default, Debug, PartialEq)]
pub(super) struct CodeScan<'c> {
    /// Templates in the code itself, in order.
    pub templates: Vec<Range<usize>>,
    /// Apparent templates inside a text that is not an f-string.
    pub in_texts: Vec<Range<usize>>,
    /// The names that the code uses.
    pub words: BTreeSet<&'c str>,
}

pub(super) fn scan(code: &str) -> CodeScan<'_> {
    let bytes = code.as_bytes();
    let (mut found, mut at) = (CodeScan::default(), 0);
    while at < bytes.len() {
        let rest = &code[at..];
        match bytes[at] {
            b'#' => at += rest.find('\n').unwrap_or(rest.len()),
            b'\'' | b'"' => {
                let end = at + text_length(rest, false);
                found.in_texts.extend(find_template_in_text(code, at..end));
                at = end;
            }
            b'{' if rest.starts_with("{{") => match expr::template_length(rest) {
                Some(length) => {
                    found.templates.push(at..at + length);
                    at += length;
                }
                None => at += 2,
            },
            first if first == b'_' || first.is_ascii_alphabetic() => {
                let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (word, after) = rest.split_at(length);
                at += length;
                match after.as_bytes().first() {
                    Some(b'\'' | b'"') if is_prefix(word) => {
                        let end = at + text_length(after, word.contains(['r', 'R']));
                        match () {
                            () if word.contains(['f', 'F']) => found.words.extend(names(&code[at..end])),
                            () if word.contains(['b', 'B']) => {}
                            () => found.in_texts.extend(find_template_in_text(code, at..end)),
                        }
                        at = end;
                    }
                    _ => {
                        found.words.insert(word);
                    }
                }
            }
            _ => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    found
}

/// Returns all possible names in an f-string.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn is_prefix(word: &str) -> bool {
    word.len() <= 2 && word.chars().all(|letter| "rRbBfFuU".contains(letter))
}

/// Returns the length of the text that begins here, including its quotes. An unterminated text is left to Python.
fn text_length(rest: &str, raw: bool) -> usize {
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let (open, close) = if rest.starts_with(&triple) { (3, triple.as_str()) } else { (1, quote) };
    let mut at = open;
    while at < rest.len() {
        let left = &rest[at..];
        if left.starts_with(close) {
            return at + close.len();
        }
        if open == 1 && left.starts_with('\n') {
            return at;
        }
        // Also in a raw text, a backslash keeps the following quote from ending the text.
        let letter = left.chars().next().map_or(1, char::len_utf8);
        let skips = left.starts_with('\\') && (!raw || left[1..].starts_with(quote));
        at += letter + if skips { left[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
    }
    rest.len()
}

/// Finds a name between double braces, as earlier versions substituted values.
fn find_template_in_text(code: &str, text: Range<usize>) -> Option<Range<usize>> {
    let inside = &code[text.clone()];
    let start = inside.find("{{ ")?;
    let end = start + inside[start..].find(" }}")? + 3;
    let name = inside[start..end].trim_matches(['{', '}']).trim();
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '|' | ' ');
    (!name.is_empty() && name.chars().all(is_path)).then_some(text.start + start..text.start + end)
}

#[cfg(test)]
mod tests {
    use super::scan;

    /// Code, its templates, and the apparent templates in its texts.
    #[test]
    fn templates_stand_outside_of_texts() {
        let cases: [(&str, &[&str], &[&str]); 12] = [
            ("x = {{ a.b }}", &["{{ a.b }}"], &[]),
            ("x = {{ a }} * {{ b | int }}", &["{{ a }}", "{{ b | int }}"], &[]),
            ("x = '{{ a }}'", &[], &["{{ a }}"]),
            ("x = f'{{ a }}' + F\"\"\"{{ b }}\"\"\"", &[], &[]),
            ("x = '''it's {{ a }}''' # {{ b }}\ny = {{ c }}", &["{{ c }}"], &["{{ a }}"]),
            ("x = 'a\\'{{ b }}' + {{ c }}", &["{{ c }}"], &["{{ b }}"]),
            ("x = r'\\' + {{ c }}'", &[], &["{{ c }}"]),
            ("x = {'a': {'b': 1}}", &[], &[]),
            ("x = {'a': {{ b }}}", &["{{ b }}"], &[]),
            ("x = b'{{ a }}'", &[], &[]),
            ("x = \"{{'a'}}\"", &[], &[]),
            ("x = 'open\ny = {{ c }}", &["{{ c }}"], &[]),
        ];
        for (code, templates, in_texts) in cases {
            let found = scan(code);
            let texts = |ranges: &[std::ops::Range<usize>]| -> Vec<String> {
                ranges.iter().map(|range| code[range.clone()].to_owned()).collect()
            };
            assert_eq!(texts(&found.templates), templates, "{code}");
            assert_eq!(texts(&found.in_texts), in_texts, "{code}");
        }
    }

    #[test]
    fn words_are_names_of_the_code() {
        let found = scan("context.get('other') # comment\nü = rb'x'\nf(text_1, f'{in_it}')");
        assert_eq!(found.words.into_iter().collect::<Vec<_>>(), ["context", "f", "get", "in_it", "text_1"]);
    }
}
