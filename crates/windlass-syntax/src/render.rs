//! Problems as text with an excerpt of the file.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::{Diagnostic, Severity, Source, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    Never,
    Always,
}

/// Places further apart than this many lines get excerpts of their own.
const TOGETHER_LINES: usize = 40;

pub(crate) fn render(diagnostic: &Diagnostic, source: &Source, colour: Colour) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code).element(excerpt(
        source,
        diagnostic.span,
        None,
        diagnostic.labels.iter().filter(|label| near(source, diagnostic.span, label.span)),
    ));
    for label in diagnostic.labels.iter().filter(|label| !near(source, diagnostic.span, label.span)) {
        group = group.element(excerpt(source, label.span, Some(&label.text), []));
    }
    group = footer(group, diagnostic);
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    };
    renderer.render(&[group])
}

fn footer<'a>(mut group: Group<'a>, diagnostic: &'a Diagnostic) -> Group<'a> {
    for (name, value) in &diagnostic.values {
        group = group.element(Level::NOTE.message(format!("{name} = {value}")));
    }
    match &diagnostic.hint {
        Some(hint) => group.element(Level::HELP.message(hint.as_str())),
        None => group,
    }
}

fn near(source: &Source, a: Span, b: Span) -> bool {
    source.position(a.start).line.abs_diff(source.position(b.start).line) <= TOGETHER_LINES
}

/// Only the lines in question are handed on, so that a large file costs nothing.
fn excerpt<'a>(
    source: &'a Source,
    span: Span,
    text: Option<&'a str>,
    labels: impl IntoIterator<Item = &'a crate::Label>,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let labels: Vec<_> = labels.into_iter().collect();
    let spans = || std::iter::once(span).chain(labels.iter().map(|label| label.span));
    let first = spans().map(|span| source.position(span.start).line).min().unwrap_or(1);
    let last = spans().map(|span| source.position(span.start).line).max().unwrap_or(first);
    let lines = source.line_span(first, last);
    let kind = if text.is_some() { AnnotationKind::Context } else { AnnotationKind::Primary };
    let mut snippet = Snippet::source(&source.text[lines.start..lines.end])
        .line_start(first)
        .path(source.name.as_ref())
        .annotation(kind.span(on_first_line(source, span, lines)).label(text));
    for label in labels {
        let range = on_first_line(source, label.span, lines);
        snippet = snippet.annotation(AnnotationKind::Context.span(range).label(label.text.as_str()));
    }
    snippet
}

/// A span relative to the excerpt, cut at the end of its first line: a caret under the beginning says enough.
fn on_first_line(source: &Source, span: Span, lines: Span) -> Range<usize> {
    let line_number = source.position(span.start).line;
    let line = source.line_span(line_number, line_number);
    let start = source.clamp(span.start).clamp(lines.start, lines.end);
    let end = source.clamp(span.end).min(line.end).clamp(start, lines.end);
    start - lines.start..end - lines.start
}
