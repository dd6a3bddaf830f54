//! Reading an object whose keys are known: what is missing, what nobody knows, what is of the wrong kind.

use std::collections::HashSet;

use crate::{Diagnostic, Diagnostics, Key, Kind, Node, Span, Text, nearest};

/// An object that is being read. Keys match in any letter case, unless they must be exact; what was asked for counts as
/// known.
pub struct Object<'a> {
    span: Span,
    exact: bool,
    entries: Vec<(&'a Key, &'a Node, bool)>,
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// None, and a problem, if the node is no object. `what` names it: "an action", "`limit`".
    pub fn read(node: &'a Node, what: &str, diagnostics: &mut Diagnostics) -> Option<Object<'a>> {
        let Some(entries) = node.as_map() else {
            diagnostics.push(wrong_kind(node, what, "an object"));
            return None;
        };
        let entries = entries.iter().map(|(key, node)| (key, node, false)).collect();
        Some(Object { span: node.span, exact: false, entries, known: Vec::new() })
    }

    /// As [`Object::read`], for dialects in which letter case matters.
    pub fn read_exact(node: &'a Node, what: &str, diagnostics: &mut Diagnostics) -> Option<Object<'a>> {
        Object::read(node, what, diagnostics).map(|object| Object { exact: true, ..object })
    }

    pub fn span(&self) -> Span {
        self.span
    }

    /// The value of a key, which is thereby read. A null counts as present.
    pub fn take(&mut self, name: &'static str) -> Option<&'a Node> {
        self.take_entry(name).map(|(_, node)| node)
    }

    pub fn take_entry(&mut self, name: &'static str) -> Option<(&'a Key, &'a Node)> {
        self.known.push(name);
        let index = self.find(name)?;
        let (key, node, taken) = &mut self.entries[index];
        *taken = true;
        Some((*key, *node))
    }

    /// Looks without reading.
    pub fn peek(&self, name: &str) -> Option<(&'a Key, &'a Node)> {
        self.find(name).map(|index| (self.entries[index].0, self.entries[index].1))
    }

    /// Keys that may be there and mean nothing here.
    pub fn ignore(&mut self, names: &[&'static str]) {
        for name in names {
            self.take(name);
        }
    }

    /// Keys that are known without being read, for better suggestions.
    pub fn also_known(&mut self, names: &[&'static str]) {
        self.known.extend(names);
    }

    /// Counts everything as read.
    pub fn take_rest(&mut self) {
        for (_, _, taken) in &mut self.entries {
            *taken = true;
        }
    }

    /// The keys that nobody has asked for.
    pub fn rest(&self) -> impl Iterator<Item = (&'a Key, &'a Node)> {
        self.entries.iter().filter(|(_, _, taken)| !taken).map(|(key, node, _)| (*key, *node))
    }

    /// Reports every key that was not asked for.
    pub fn finish(self, code: &'static str, what: &str, diagnostics: &mut Diagnostics) {
        // What is given twice in the same letters is said already, where the text was read.
        let taken: HashSet<&str> =
            self.entries.iter().filter(|(_, _, taken)| *taken).map(|(key, _, _)| key.text.as_str()).collect();
        for (key, _) in self.rest().filter(|(key, _)| !taken.contains(key.text.as_str())) {
            let twice = !self.exact && self.known.iter().any(|name| name.eq_ignore_ascii_case(&key.text));
            let message = match twice {
                true => format!("`{}` is given twice in {what}, in different letter case", key.text),
                false => format!("unknown key `{}` in {what}", key.text),
            };
            let hint = match twice {
                true => "keep one of the two".to_owned(),
                false => did_you_mean(&key.text, self.known.iter().copied())
                    .unwrap_or_else(|| format!("known here: {}", list_of(self.known.iter().copied()))),
            };
            diagnostics.push(Diagnostic::error(code, key.span, message).hint(hint));
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

/// More names than this help nobody.
const MAX_NAMES_SHOWN: usize = 24;

/// Names for a sentence, each once, in order.
pub fn list_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
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

fn wrong_kind(node: &Node, what: &str, wanted: &str) -> Diagnostic {
    let hint = match wanted {
        "an object" => "an object is written {\"key\": value}",
        "an array" => "an array is written [item, item]",
        "a text" => "a text is written in double quotes",
        _ => "without quotes",
    };
    let message = format!("{what} must be {wanted}, found {}", node.describe());
    Diagnostic::error(WRONG_KIND, node.span, message).hint(hint)
}

pub fn expect_text<'a>(node: &'a Node, what: &str, diagnostics: &mut Diagnostics) -> Option<&'a Text> {
    match &node.kind {
        Kind::Str(text) => Some(text),
        _ => {
            diagnostics.push(wrong_kind(node, what, "a text"));
            None
        }
    }
}

pub fn expect_list<'a>(node: &'a Node, what: &str, diagnostics: &mut Diagnostics) -> Option<&'a [Node]> {
    node.as_list().or_else(|| {
        diagnostics.push(wrong_kind(node, what, "an array"));
        None
    })
}

pub fn expect_bool(node: &Node, what: &str, diagnostics: &mut Diagnostics) -> Option<bool> {
    match &node.kind {
        Kind::Bool(flag) => Some(*flag),
        _ => {
            diagnostics.push(wrong_kind(node, what, "true or false"));
            None
        }
    }
}
