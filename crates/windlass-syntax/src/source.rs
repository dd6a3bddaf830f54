//! A file's text, and positions in it.

use std::sync::Arc;

/// A byte range of a file, from `start` up to `end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub const fn new(start: usize, end: usize) -> Span {
        Span { start, end }
    }

    pub const fn at(offset: usize) -> Span {
        Span { start: offset, end: offset }
    }
}

/// Line and column, both counted from 1; columns count characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineColumn {
    pub line: usize,
    pub column: usize,
}

/// A definition file: its name and its text.
#[derive(Clone, Debug)]
pub struct SourceText {
    pub name: Arc<str>,
    pub text: Arc<str>,
    /// Byte offset at which each line begins.
    lines: Vec<usize>,
}

impl SourceText {
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> SourceText {
        let text: Arc<str> = text.into();
        let after_newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        // A byte order mark is not part of the first line.
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let lines = std::iter::once(first).chain(after_newlines).collect();
        SourceText { name: name.into(), text, lines }
    }

    /// Returns the position of an offset; an offset beyond the end counts as the end.
    pub fn position(&self, offset: usize) -> LineColumn {
        let offset = self.clamp(offset);
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let column = self.text.get(self.lines[line - 1]..offset).map_or(0, |before| before.chars().count()) + 1;
        LineColumn { line, column }
    }

    /// Returns the byte range of some lines, counted from 1, both included, without the last line's break.
    pub(crate) fn line_span(&self, first: usize, last: usize) -> Span {
        let start = self.lines[first.clamp(1, self.lines.len()) - 1];
        let end = self.lines.get(last).map_or(self.text.len(), |next| next - 1);
        Span::new(start, end.max(start))
    }

    /// Returns the nearest character boundary at or before an offset.
    pub(crate) fn clamp(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}
