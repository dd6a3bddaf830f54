//! The tree that every file format is read into.

use std::ops::Range;

use windlass_value::{Map, PathPart, Value};

use crate::Span;

#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Bool(bool),
    Number(Value),
    Str(Text),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub struct Key {
    pub text: String,
    pub span: Span,
}

/// A text with its escapes undone, which still knows where each byte was written.
#[derive(Clone, Debug, Default)]
pub struct Text {
    pub text: String,
    /// Offsets in the text and in the file, ascending; from each pair on, both run side by side until the next.
    anchors: Vec<(usize, usize)>,
}

impl Text {
    /// A text that was not written in the file: all of it is at one place.
    pub fn synthetic(text: impl Into<String>) -> Text {
        Text { text: text.into(), anchors: Vec::new() }
    }

    pub(crate) fn anchored(text: String, anchors: Vec<(usize, usize)>) -> Text {
        Text { text, anchors }
    }

    /// The bytes of the file that a range of the text came from.
    pub fn span_of(&self, range: Range<usize>, whole: Span) -> Span {
        if self.anchors.is_empty() {
            return whole;
        }
        let place = |offset: usize| self.file_offset(offset).clamp(whole.start, whole.end);
        let start = place(range.start);
        Span::new(start, place(range.end).max(start))
    }

    /// A new text around this one without its first `skip` bytes, which keeps its places.
    #[must_use]
    pub fn wrapped(&self, prefix: &str, skip: usize, suffix: &str) -> Text {
        let kept = self.text.get(skip..).unwrap_or_default();
        let text = format!("{prefix}{kept}{suffix}");
        if self.anchors.is_empty() {
            return Text::synthetic(text);
        }
        let end = prefix.len() + kept.len();
        let moved = self.anchors.iter().filter(|(in_text, _)| *in_text > skip);
        let moved = moved.map(|(in_text, in_file)| (in_text - skip + prefix.len(), *in_file));
        let begin = [(0, self.file_offset(0)), (prefix.len(), self.file_offset(skip))];
        let last = (end, self.file_offset(self.text.len()));
        Text { text, anchors: begin.into_iter().chain(moved).chain([last]).collect() }
    }

    fn file_offset(&self, offset: usize) -> usize {
        let index = self.anchors.partition_point(|(in_text, _)| *in_text <= offset);
        let (in_text, in_file) = self.anchors[index.saturating_sub(1)];
        in_file + offset.saturating_sub(in_text)
    }
}

impl Node {
    pub fn new(span: Span, kind: Kind) -> Node {
        Node { span, kind }
    }

    /// A text that stands for something the author left out, at the place where it belongs.
    pub fn text(text: impl Into<String>, span: Span) -> Node {
        Node::new(span, Kind::Str(Text::synthetic(text)))
    }

    pub fn object<'a>(span: Span, entries: impl IntoIterator<Item = (&'a str, Node)>) -> Node {
        let with_key = |(name, node): (&str, Node)| (Key { text: name.to_owned(), span: node.span }, node);
        Node::new(span, Kind::Map(entries.into_iter().map(with_key).collect()))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            Kind::Str(text) => Some(&text.text),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&[(Key, Node)]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::List(items) => Some(items),
            _ => None,
        }
    }

    /// The value of a key, any letter case; an exact match wins.
    pub fn get(&self, name: &str) -> Option<&Node> {
        let entries = self.as_map()?;
        let exact = entries.iter().find(|(key, _)| key.text == name);
        let found = exact.or_else(|| entries.iter().find(|(key, _)| key.text.eq_ignore_ascii_case(name)));
        found.map(|(_, node)| node)
    }

    /// What the node is, with its article, for messages.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(flag) => format!("the boolean {flag}"),
            Kind::Number(number) => format!("the number {number:?}"),
            Kind::Str(text) => format!("the text {}", shortened(&text.text)),
            Kind::List(_) => "an array".to_owned(),
            Kind::Map(_) => "an object".to_owned(),
        }
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// The tree without its places.
pub fn to_value(node: &Node) -> Value {
    match &node.kind {
        Kind::Null => Value::Null,
        Kind::Bool(flag) => Value::Bool(*flag),
        Kind::Number(number) => number.clone(),
        Kind::Str(text) => Value::from(text.text.as_str()),
        Kind::List(items) => Value::list(items.iter().map(to_value).collect()),
        Kind::Map(entries) => {
            let map: Map = entries.iter().map(|(key, node)| (key.text.as_str(), to_value(node))).collect();
            Value::map(map)
        }
    }
}

/// The place of a range of a string somewhere below a node. A pointer may end at a key whose own text is meant.
pub fn locate(node: &Node, pointer: &[PathPart], range: Range<usize>) -> Span {
    let (mut at, mut key) = (node, None);
    for part in pointer {
        let found = match (part, &at.kind) {
            (PathPart::Key(name), Kind::Map(entries)) => {
                entries.iter().find(|(entry, _)| entry.text == **name).map(|(entry, below)| (Some(entry), below))
            }
            (PathPart::Index(index), Kind::List(items)) => items.get(*index).map(|below| (None, below)),
            _ => None,
        };
        let Some(step) = found else { break };
        (key, at) = step;
    }
    match (&at.kind, key) {
        (Kind::Str(text), _) if range.end <= text.text.len() => text.span_of(range, at.span),
        (_, Some(key)) => key.span,
        _ => at.span,
    }
}
