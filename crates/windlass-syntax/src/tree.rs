//! The tree into which every file format is parsed.

use std::ops::Range;

use windlass_value::{Map, PathPart, Value};

use crate::Span;

#[derive(Clone, Debug)]
pub struct SyntaxNode {
    pub span: Span,
    pub kind: SyntaxNodeKind,
}

#[derive(Clone, Debug)]
pub enum SyntaxNodeKind {
    Null,
    Bool(bool),
    Number(Value),
    Str(SpannedText),
    List(Vec<SyntaxNode>),
    Map(Vec<(SpannedKey, SyntaxNode)>),
}

#[derive(Clone, Debug)]
pub struct SpannedKey {
    pub text: String,
    pub span: Span,
}

/// A text with its escapes resolved that still maps each byte to its position in the file.
#[derive(Clone, Debug, Default)]
pub struct SpannedText {
    pub text: String,
    /// Ascending pairs of offsets in the text and in the file; from each pair on, both advance together until the next
    /// pair.
    anchors: Vec<(usize, usize)>,
}

impl SpannedText {
    /// A text that does not occur in the file: all of it maps to one position.
    pub fn synthetic(text: impl Into<String>) -> SpannedText {
        SpannedText { text: text.into(), anchors: Vec::new() }
    }

    pub(crate) fn anchored(text: String, anchors: Vec<(usize, usize)>) -> SpannedText {
        SpannedText { text, anchors }
    }

    /// Returns the bytes of the file from which a range of the text came.
    pub fn span_of(&self, range: Range<usize>, whole: Span) -> Span {
        if self.anchors.is_empty() {
            return whole;
        }
        let file_position = |offset: usize| self.file_offset(offset).clamp(whole.start, whole.end);
        let start = file_position(range.start);
        Span::new(start, file_position(range.end).max(start))
    }

    /// Returns a new text around this one without its first `skip` bytes; positions are preserved.
    #[must_use]
    pub fn wrap(&self, prefix: &str, skip: usize, suffix: &str) -> SpannedText {
        let kept = self.text.get(skip..).unwrap_or_default();
        let text = format!("{prefix}{kept}{suffix}");
        if self.anchors.is_empty() {
            return SpannedText::synthetic(text);
        }
        let end = prefix.len() + kept.len();
        let moved = self.anchors.iter().filter(|(in_text, _)| *in_text > skip);
        let moved = moved.map(|(in_text, in_file)| (in_text - skip + prefix.len(), *in_file));
        let begin = [(0, self.file_offset(0)), (prefix.len(), self.file_offset(skip))];
        let last = (end, self.file_offset(self.text.len()));
        SpannedText { text, anchors: begin.into_iter().chain(moved).chain([last]).collect() }
    }

    fn file_offset(&self, offset: usize) -> usize {
        let index = self.anchors.partition_point(|(in_text, _)| *in_text <= offset);
        let (in_text, in_file) = self.anchors[index.saturating_sub(1)];
        in_file + offset.saturating_sub(in_text)
    }
}

impl SyntaxNode {
    pub fn new(span: Span, kind: SyntaxNodeKind) -> SyntaxNode {
        SyntaxNode { span, kind }
    }

    /// Creates a text for something the author left out, at the position where it belongs.
    pub fn text(text: impl Into<String>, span: Span) -> SyntaxNode {
        SyntaxNode::new(span, SyntaxNodeKind::Str(SpannedText::synthetic(text)))
    }

    pub fn object<'a>(span: Span, entries: impl IntoIterator<Item = (&'a str, SyntaxNode)>) -> SyntaxNode {
        let with_key = |(name, node): (&str, SyntaxNode)| (SpannedKey { text: name.to_owned(), span: node.span }, node);
        SyntaxNode::new(span, SyntaxNodeKind::Map(entries.into_iter().map(with_key).collect()))
    }

    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            SyntaxNodeKind::Str(text) => Some(&text.text),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&[(SpannedKey, SyntaxNode)]> {
        match &self.kind {
            SyntaxNodeKind::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[SyntaxNode]> {
        match &self.kind {
            SyntaxNodeKind::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the value of a key, ignoring case; an exact match takes precedence.
    pub fn get(&self, name: &str) -> Option<&SyntaxNode> {
        let entries = self.as_map()?;
        let exact = entries.iter().find(|(key, _)| key.text == name);
        let found = exact.or_else(|| entries.iter().find(|(key, _)| key.text.eq_ignore_ascii_case(name)));
        found.map(|(_, node)| node)
    }

    /// Describes the node, with its article, for messages.
    pub fn describe(&self) -> String {
        match &self.kind {
            SyntaxNodeKind::Null => "null".to_owned(),
            SyntaxNodeKind::Bool(flag) => format!("the boolean {flag}"),
            SyntaxNodeKind::Number(number) => format!("the number {number:?}"),
            SyntaxNodeKind::Str(text) => format!("the text {}", truncate(&text.text)),
            SyntaxNodeKind::List(_) => "an array".to_owned(),
            SyntaxNodeKind::Map(_) => "an object".to_owned(),
        }
    }
}

fn truncate(text: &str) -> String {
    let mut shown: String = text.chars().take(40).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Converts the tree into a value, without positions.
pub fn to_value(node: &SyntaxNode) -> Value {
    match &node.kind {
        SyntaxNodeKind::Null => Value::Null,
        SyntaxNodeKind::Bool(flag) => Value::Bool(*flag),
        SyntaxNodeKind::Number(number) => number.clone(),
        SyntaxNodeKind::Str(text) => Value::from(text.text.as_str()),
        SyntaxNodeKind::List(items) => Value::list(items.iter().map(to_value).collect()),
        SyntaxNodeKind::Map(entries) => {
            let map: Map = entries.iter().map(|(key, node)| (key.text.as_str(), to_value(node))).collect();
            Value::map(map)
        }
    }
}

/// Returns the span that a pointer leads to from a node: of `range` if the target is a string, else of its key, else of
/// the whole target. A pointer that leads nowhere is followed as far as possible.
pub fn span_at_pointer(node: &SyntaxNode, pointer: &[PathPart], range: Range<usize>) -> Span {
    let (mut at, mut key) = (node, None);
    for part in pointer {
        let found = match (part, &at.kind) {
            (PathPart::Key(name), SyntaxNodeKind::Map(entries)) => {
                entries.iter().find(|(entry, _)| entry.text == **name).map(|(entry, below)| (Some(entry), below))
            }
            (PathPart::Index(index), SyntaxNodeKind::List(items)) => items.get(*index).map(|below| (None, below)),
            _ => None,
        };
        let Some(step) = found else { break };
        (key, at) = step;
    }
    match (&at.kind, key) {
        (SyntaxNodeKind::Str(text), _) if range.end <= text.text.len() => text.span_of(range, at.span),
        (_, Some(key)) => key.span,
        _ => at.span,
    }
}
