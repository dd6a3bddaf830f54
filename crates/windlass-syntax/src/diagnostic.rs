//! Diagnostics: problems of a file and their locations.

use serde::Serialize;

use crate::render::{self, Colour};
use crate::{SourceText, Span};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

/// One problem: a stable code, a message, the location, and a hint how to fix it.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Such as `WND-1020`.
    pub code: &'static str,
    /// Another name of the problem, which the format's own conformance tests use.
    pub name: Option<&'static str>,
    pub severity: Severity,
    pub message: String,
    pub span: Span,
    /// Other locations that belong to the problem.
    pub labels: Vec<Label>,
    pub hint: Option<String>,
    /// Names on that line with their values, if they are known.
    pub values: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

impl Diagnostic {
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            name: None,
            severity: Severity::Error,
            message: message.into(),
            span,
            labels: Vec::new(),
            hint: None,
            values: Vec::new(),
        }
    }

    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_optional_hint(mut self, hint: Option<impl Into<String>>) -> Diagnostic {
        self.hint = hint.map(Into::into).or(self.hint);
        self
    }

    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Returns the machine-readable form.
    pub(crate) fn report(&self, source: &SourceText) -> DiagnosticReport {
        let (start, end) = (source.position(self.span.start), source.position(self.span.end));
        DiagnosticReport {
            code: self.code,
            name: self.name,
            severity: self.severity,
            message: self.message.clone(),
            file: source.name.to_string(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            hint: self.hint.clone(),
        }
    }
}

/// A problem in machine-readable form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagnosticReport {
    pub code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
    pub severity: Severity,
    pub message: String,
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    pub hint: Option<String>,
}

/// Maximum number of problems kept of each severity: more are of no use to a reader.
const MAX_KEPT: usize = 1_000;

/// The problems of one file.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    kept: Vec<Diagnostic>,
    errors: usize,
    warnings: usize,
}

impl Diagnostics {
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    pub fn push(&mut self, diagnostic: Diagnostic) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        *count += 1;
        if *count <= MAX_KEPT {
            self.kept.push(diagnostic);
        }
    }

    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns the number of problems that were not kept.
    pub fn omitted(&self) -> usize {
        self.errors.saturating_sub(MAX_KEPT) + self.warnings.saturating_sub(MAX_KEPT)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Diagnostic> {
        self.kept.iter()
    }

    pub fn extend(&mut self, other: Diagnostics) {
        other.kept.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// Sorts the problems into the order of the file.
    #[must_use]
    pub fn sorted(mut self) -> Diagnostics {
        self.kept.sort_by(|a, b| (a.span, a.code, &a.message).cmp(&(b.span, b.code, &b.message)));
        self.kept.dedup_by(|a, b| a.span == b.span && a.code == b.code && a.message == b.message);
        self
    }

    pub fn reports(&self, source: &SourceText) -> Vec<DiagnosticReport> {
        self.kept.iter().map(|diagnostic| diagnostic.report(source)).collect()
    }

    /// Renders text for people: each problem with its line and a caret.
    pub fn render(&self, source: &SourceText, colour: Colour) -> String {
        let mut parts: Vec<String> =
            self.kept.iter().map(|diagnostic| render::render(diagnostic, source, colour)).collect();
        if self.omitted() > 0 {
            parts.push(format!("and {} more", self.omitted()));
        }
        parts.join("\n\n")
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.into_iter()
    }
}
