//! Rendering of problems as text with an excerpt of the file.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, Title};

use crate::{Diagnostic, Severity, SourceText, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    Never,
    Always,
}

/// Locations further apart than this many lines get separate excerpts.
const MAX_EXCERPT_DISTANCE_LINES: usize = 40;

/// Lines longer than this many bytes are shown in part.
const MAX_LINE_BYTES: usize = 1_000;

pub(crate) fn render(diagnostic: &Diagnostic, source: &SourceText, colour: Colour) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code);
    let group = match line_of(source, diagnostic.span) {
        line if line.end - line.start > MAX_LINE_BYTES => {
            title.element(origin(source, diagnostic.span)).element(partial_line(source, diagnostic.span, line))
        }
        _ => full_excerpt(title, diagnostic, source),
    };
    let group = footer(group, diagnostic);
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    };
    renderer.render(&[group])
}

/// Renders the problem's lines and those of its labels.
fn full_excerpt<'a>(title: Title<'a>, diagnostic: &'a Diagnostic, source: &'a SourceText) -> Group<'a> {
    let short = |label: &&crate::Label| {
        let line = line_of(source, label.span);
        line.end - line.start <= MAX_LINE_BYTES
    };
    let near = |label: &&crate::Label| is_near(source, diagnostic.span, label.span);
    let labels = || diagnostic.labels.iter().filter(short);
    let mut group = title.element(excerpt(source, diagnostic.span, None, labels().filter(near)));
    for label in labels().filter(|label| !near(label)) {
        group = group.element(excerpt(source, label.span, Some(&label.text), []));
    }
    group
}

fn origin(source: &SourceText, span: Span) -> Origin<'_> {
    let position = source.position(span.start);
    Origin::path(source.name.as_ref()).line(position.line).char_column(position.column)
}

/// Renders the surroundings of a position in a very long line.
fn partial_line(source: &SourceText, span: Span, line: Span) -> Snippet<'_, annotate_snippets::Annotation<'_>> {
    let start = source.clamp(span.start.saturating_sub(60).max(line.start));
    let end = source.clamp(span.start.saturating_add(100).min(line.end)).max(start);
    let caret = source.clamp(span.start.clamp(start, end)) - start..source.clamp(span.end.clamp(start, end)) - start;
    Snippet::source(&source.text[start..end])
        .line_start(source.position(span.start).line)
        .path(None::<&str>)
        .annotation(AnnotationKind::Primary.span(caret))
}

fn line_of(source: &SourceText, span: Span) -> Span {
    let line = source.position(span.start).line;
    source.line_span(line, line)
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

fn is_near(source: &SourceText, a: Span, b: Span) -> bool {
    source.position(a.start).line.abs_diff(source.position(b.start).line) <= MAX_EXCERPT_DISTANCE_LINES
}

/// Renders an excerpt. Only the relevant lines are passed on, so that a large file costs nothing.
fn excerpt<'a>(
    source: &'a SourceText,
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

/// Returns a span relative to the excerpt, cut at the end of its first line: a caret under the beginning is
/// sufficient.
fn on_first_line(source: &SourceText, span: Span, lines: Span) -> Range<usize> {
    let line_number = source.position(span.start).line;
    let line = source.line_span(line_number, line_number);
    let start = source.clamp(span.start).clamp(lines.start, lines.end);
    let end = source.clamp(span.end).min(line.end).clamp(start, lines.end);
    start - lines.start..end - lines.start
}

/// Renders only the line of a position with a caret under it.
pub fn render_excerpt(source: &SourceText, span: Span) -> String {
    let line = line_of(source, span);
    let snippet = match line.end - line.start > MAX_LINE_BYTES {
        true => partial_line(source, span, line),
        false => excerpt(source, span, None, []),
    };
    Renderer::plain().render(&[Group::with_level(Level::ERROR).element(snippet)])
}
