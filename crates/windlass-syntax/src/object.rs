//! Reading an object with known keys: reports missing keys, unknown keys and values of the wrong kind.

use std::collections::HashSet;

use crate::{Diagnostic, Diagnostics, Span, SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind, nearest};

/// Reads an object. Keys match ignoring case unless exact matching was requested; requested keys count as known.
pub struct ObjectReader<'a> {
    span: Span,
    exact: bool,
    entries: Vec<(&'a SpannedKey, &'a SyntaxNode, bool)>,
    known: Vec<&'static str>,
}

impl<'a> ObjectReader<'a> {
    /// Returns `None` and reports a problem if the node is not an object. `what` names it: "an action", "`limit`".
    pub fn read(node: &'a SyntaxNode, what: &str, diagnostics: &mut Diagnostics) -> Option<ObjectReader<'a>> {
        let Some(entries) = node.as_map() else {
            diagnostics.push(wrong_kind(node, what, "an object"));
            return None;
        };
        let entries = entries.iter().map(|(key, node)| (key, node, false)).collect();
        Some(ObjectReader { span: node.span, exact: false, entries, known: Vec::new() })
    }

    /// Like [`ObjectReader::read`], for dialects in which letter case matters.
    pub fn read_exact(node: &'a SyntaxNode, what: &str, diagnostics: &mut Diagnostics) -> Option<ObjectReader<'a>> {
        ObjectReader::read(node, what, diagnostics).map(|object| ObjectReader { exact: true, ..object })
    }

    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns the value of a key and marks it as read. A null counts as present.
    pub fn take(&mut self, name: &'static str) -> Option<&'a SyntaxNode> {
        self.take_entry(name).map(|(_, node)| node)
    }

    pub fn take_entry(&mut self, name: &'static str) -> Option<(&'a SpannedKey, &'a SyntaxNode)> {
        self.known.push(name);
        let index = self.find(name)?;
        let (key, node, is_read) = &mut self.entries[index];
        *is_read = true;
        Some((*key, *node))
    }

    /// Looks up a key without marking it as read.
    pub fn peek(&self, name: &str) -> Option<(&'a SpannedKey, &'a SyntaxNode)> {
        self.find(name).map(|index| (self.entries[index].0, self.entries[index].1))
    }

    /// Marks keys as read that are allowed but have no meaning here.
    pub fn ignore(&mut self, names: &[&'static str]) {
        for name in names {
            self.take(name);
        }
    }

    /// Adds keys that are known without being read, for better suggestions.
    pub fn add_known(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// Marks all keys as read.
    pub fn take_rest(&mut self) {
        for (_, _, is_read) in &mut self.entries {
            *is_read = true;
        }
    }

    /// Returns the keys that were not read.
    pub fn unread_entries(&self) -> impl Iterator<Item = (&'a SpannedKey, &'a SyntaxNode)> {
        self.entries.iter().filter(|(_, _, is_read)| !is_read).map(|(key, node, _)| (*key, *node))
    }

    /// Reports every key that was not read.
    pub fn finish(self, code: &'static str, what: &str, diagnostics: &mut Diagnostics) {
        // Exact duplicates have already been reported where the text was parsed.
        let read_keys: HashSet<&str> =
            self.entries.iter().filter(|(_, _, is_read)| *is_read).map(|(key, _, _)| key.text.as_str()).collect();
        for (key, _) in self.unread_entries().filter(|(key, _)| !read_keys.contains(key.text.as_str())) {
            let twice = !self.exact && self.known.iter().any(|name| name.eq_ignore_ascii_case(&key.text));
            let message = match twice {
                true => format!("`{}` is given twice in {what}, in different letter case", key.text),
                false => format!("unknown key `{}` in {what}", key.text),
            };
            let hint = match twice {
                true => "keep one of the two".to_owned(),
                false => did_you_mean(&key.text, self.known.iter().copied())
                    .unwrap_or_else(|| format!("known here: {}", format_names(self.known.iter().copied()))),
            };
            diagnostics.push(Diagnostic::error(code, key.span, message).with_hint(hint));
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let same = self.entries.iter().position(|(key, _, _)| key.text == name);
        if self.exact {
            return same;
        }
        same.or_else(|| self.entries.iter().position(|(key, _, _)| key.text.eq_ignore_ascii_case(name)))
    }
}

pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|found| format!("did you mean `{found}`?"))
}

/// Maximum number of names in a message; longer lists are no help.
const MAX_NAMES_SHOWN: usize = 24;

/// Formats names for a message, sorted and without duplicates.
pub fn format_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable_by_key(|name| name.to_lowercase());
    names.dedup();
    let shown: Vec<String> = names.iter().take(MAX_NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(MAX_NAMES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(crate) const WRONG_KIND: &str = "WND-1021";

fn wrong_kind(node: &SyntaxNode, what: &str, expected: &str) -> Diagnostic {
    let hint = match expected {
        "an object" => "an object is written {\"key\": value}",
        "an array" => "an array is written [item, item]",
        "a text" => "a text is written in double quotes",
        _ => "without quotes",
    };
    let message = format!("{what} must be {expected}, found {}", node.describe());
    Diagnostic::error(WRONG_KIND, node.span, message).with_hint(hint)
}

pub fn expect_text<'a>(node: &'a SyntaxNode, what: &str, diagnostics: &mut Diagnostics) -> Option<&'a SpannedText> {
    match &node.kind {
        SyntaxNodeKind::Str(text) => Some(text),
        _ => {
            diagnostics.push(wrong_kind(node, what, "a text"));
            None
        }
    }
}

pub fn expect_list<'a>(node: &'a SyntaxNode, what: &str, diagnostics: &mut Diagnostics) -> Option<&'a [SyntaxNode]> {
    node.as_list().or_else(|| {
        diagnostics.push(wrong_kind(node, what, "an array"));
        None
    })
}

pub fn expect_bool(node: &SyntaxNode, what: &str, diagnostics: &mut Diagnostics) -> Option<bool> {
    match &node.kind {
        SyntaxNodeKind::Bool(flag) => Some(*flag),
        _ => {
            diagnostics.push(wrong_kind(node, what, "true or false"));
            None
        }
    }
}
