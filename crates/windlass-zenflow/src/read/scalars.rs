//! Numbers, durations and texts.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SpannedText, SyntaxNode, SyntaxNodeKind, did_you_mean, format_names};
use windlass_value::{Duration, Value};

use super::{DocumentReader, unicode};
use crate::codes;
use crate::document::Spanned;

impl DocumentReader<'_> {
    pub(crate) fn wrong_type(&mut self, node: &SyntaxNode, what: &str, expected: &str, hint: impl Into<String>) {
        let message = format!("`{what}` must be {expected}, found {}", node.describe());
        let hint = match node.kind {
            SyntaxNodeKind::Null => "omit the key if it has no value".to_owned(),
            _ => hint.into(),
        };
        self.error(codes::VALIDATION, node.span, message, hint);
    }

    pub(crate) fn text<'n>(&mut self, node: &'n SyntaxNode, what: &str) -> Option<&'n SpannedText> {
        match &node.kind {
            SyntaxNodeKind::Str(text) => Some(text),
            _ => {
                let hint = if matches!(node.kind, SyntaxNodeKind::List(_) | SyntaxNodeKind::Map(_)) {
                    "write one text"
                } else {
                    "put it in quotes"
                };
                self.wrong_type(node, what, "a text", hint);
                None
            }
        }
    }

    /// Reads a text as it is.
    pub(crate) fn plain(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<String>> {
        let text = self.text(node, what)?;
        Some(Spanned::new(text.text.clone(), node.span))
    }

    /// Reads a text that is not empty.
    pub(crate) fn non_empty_text(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<String>> {
        let text = self.plain(node, what)?;
        if text.trim().is_empty() {
            self.error(codes::VALIDATION, node.span, format!("`{what}` is empty"), "omit the key if it has no value");
            return None;
        }
        Some(text)
    }

    pub(crate) fn text_list(&mut self, node: &SyntaxNode, what: &str) -> Option<Vec<Spanned<String>>> {
        let Some(items) = node.as_list() else {
            let hint = node.as_str().map_or("write [one, two]".to_owned(), |text| format!("write [{text}]"));
            self.wrong_type(node, what, "a list of texts", hint);
            return None;
        };
        Some(items.iter().filter_map(|item| self.non_empty_text(item, what)).collect())
    }

    /// Reads a text that is shown in lists of names: on one line, without invisible characters.
    pub(crate) fn label(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<String>> {
        let text = self.text(node, what)?;
        self.check_overrides(text, node.span, what);
        Some(Spanned::new(unicode::strip_invisible(&text.text, false), node.span))
    }

    /// Reads a description, which may have several lines but is limited in length.
    pub(crate) fn short_text(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<String>> {
        let text = self.text(node, what)?;
        self.check_overrides(text, node.span, what);
        self.check_length(text, node.span, what);
        Some(Spanned::new(unicode::strip_invisible(&text.text, true), node.span))
    }

    pub(crate) fn check_length(&mut self, text: &SpannedText, span: Span, what: &str) {
        let length = text.text.chars().count();
        let max_chars = self.options.limits.max_description_chars;
        if length > max_chars {
            let message = format!("`{what}` has {length} characters, more than {max_chars}");
            let hint = match what {
                "instructions" => {
                    "put the text into a file and write `@path/to/it.md`; a file may be longer; or raise \
                     `limits.max_description_chars` in windlass.toml"
                }
                _ => "shorten it, or raise `limits.max_description_chars` in windlass.toml",
            };
            self.error(codes::VALIDATION, span, message, hint);
        }
    }

    /// Reads a text for a model. `@path` is replaced by the file's text.
    pub(crate) fn model_text(&mut self, node: &SyntaxNode, what: &str, capped: bool) -> Option<Spanned<String>> {
        let text = self.text(node, what)?;
        self.check_overrides(text, node.span, what);
        if capped {
            self.check_length(text, node.span, what);
        }
        if let Some(path) = text.text.strip_prefix('@') {
            return self.resolve_reference(path, text, node.span, what).map(|text| Spanned::new(text, node.span));
        }
        self.warn_templates(text, node.span);
        Some(Spanned::new(unicode::strip_invisible(&text.text, true), node.span))
    }

    /// Warns about `{{…}}`: there is no template syntax, and the text reaches the model as it is.
    fn warn_templates(&mut self, text: &SpannedText, span: Span) {
        let Some(begin) = text.text.find("{{") else { return };
        let Some(length) = text.text[begin..].find("}}") else { return };
        let range = begin..begin + length + 2;
        let message = format!("`{}` is not replaced: texts are not templates", &text.text[range.clone()]);
        let hint = "the model sees item, index, iteration and earlier outputs in separate sections; remove it";
        self.warning(codes::TEMPLATE, text.span_of(range, span), message, hint);
    }

    /// Reads a whole number of at least `min`; `code` is the error code if it is less.
    pub(crate) fn count(
        &mut self,
        node: &SyntaxNode,
        what: &str,
        min: i64,
        code: &'static str,
    ) -> Option<Spanned<u64>> {
        let number = match &node.kind {
            SyntaxNodeKind::Number(Value::Int(number)) => Some(*number),
            SyntaxNodeKind::Number(Value::Float(number)) if number.fract() == 0.0 && number.abs() < 9e15 => {
                Some(*number as i64)
            }
            _ => None,
        };
        let Some(number) = number else {
            self.wrong_type(node, what, "a whole number", "such as 3");
            return None;
        };
        match u64::try_from(number).ok().filter(|_| number >= min) {
            Some(number) => Some(Spanned::new(number, node.span)),
            None => {
                let message = format!("`{what}` is {number}, but must be at least {min}");
                let hint = match min {
                    0 => "write 0 or more, or omit it",
                    _ => "write at least 1",
                };
                self.error(code, node.span, message, hint);
                None
            }
        }
    }

    /// Reads a number between 0 and `max`.
    pub(crate) fn number_up_to(&mut self, node: &SyntaxNode, what: &str, max: f64) -> Option<Spanned<f64>> {
        let SyntaxNodeKind::Number(number) = &node.kind else {
            self.wrong_type(node, what, "a number", "such as 0.5");
            return None;
        };
        match number.as_f64().filter(|number| (0.0..=max).contains(number)) {
            Some(number) => Some(Spanned::new(number, node.span)),
            None => {
                let message = format!("`{what}` is {number:?}, but must be between 0 and {max}");
                self.error(codes::VALIDATION, node.span, message, format!("write a number from 0 to {max}"));
                None
            }
        }
    }

    /// Reads a duration: hours, minutes and seconds, in that order.
    pub(crate) fn duration(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<Duration>> {
        let Some(text) = node.as_str() else {
            let hint = match &node.kind {
                SyntaxNodeKind::Number(Value::Int(number)) if *number >= 0 => {
                    format!("write \"{number}s\" if seconds are meant")
                }
                _ => "such as \"30s\", \"10m\" or \"1h30m\"".to_owned(),
            };
            self.wrong_type(node, what, "a duration, which is a text", hint);
            return None;
        };
        match parse_duration(text) {
            Some(duration) => Some(Spanned::new(duration, node.span)),
            None => {
                let message = format!("`{what}` is {text:?}, which is not a duration");
                let hint = "whole hours, minutes and seconds in this order, each with its letter: \"30s\", \"1h30m\"";
                self.error(codes::VALIDATION, node.span, message, hint);
                None
            }
        }
    }

    /// Reads one of several keywords.
    pub(crate) fn one_of<T: Copy>(
        &mut self,
        node: &SyntaxNode,
        what: &str,
        choices: &[(&'static str, T)],
        code: &'static str,
    ) -> Option<Spanned<T>> {
        let text = self.text(node, what)?.text.as_str();
        if let Some((_, meaning)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(Spanned::new(*meaning, node.span));
        }
        let names = || choices.iter().map(|(word, _)| *word).filter(|word| !word.is_empty());
        let hint = did_you_mean(text, names()).unwrap_or_else(|| format!("one of {}", format_names(names())));
        self.error(code, node.span, format!("`{what}` cannot be {text:?}"), hint);
        None
    }

    /// Reads the path of a file next to the workflow. Does not check whether the file exists.
    pub(crate) fn path(&mut self, node: &SyntaxNode, what: &str) -> Option<Spanned<String>> {
        let path = self.non_empty_text(node, what)?;
        match crate::paths::normalize(&path) {
            Ok(_) => Some(path),
            Err(why) => {
                let message = format!("`{}` {why}", *path);
                self.error(codes::FILE_REFERENCE, node.span, message, crate::paths::PATH_HINT);
                None
            }
        }
    }
}

/// Parses a duration such as `1h30m`: at least one part, each a whole number.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let (mut rest, mut seconds) = (text, 0_u64);
    for (letter, worth) in [('h', 3_600_u64), ('m', 60), ('s', 1)] {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 && rest[digits..].starts_with(letter) {
            let number: u64 = rest[..digits].parse().ok()?;
            seconds = seconds.checked_add(number.checked_mul(worth)?)?;
            rest = &rest[digits + 1..];
        }
    }
    let micros = seconds.checked_mul(1_000_000)?;
    (rest.is_empty() && !text.is_empty()).then_some(Duration(micros))
}
