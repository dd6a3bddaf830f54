//! The interface to the template language. No other module of this crate uses it.

use std::ops::Range;

use windlass_expr::jinja::{self, JinjaLanguage};
pub(crate) use windlass_expr::jinja::{NameQuote, SqlLoop, SqlStatement, split_sql};
use windlass_value::{CompileError, ExpressionMode, Language, PathPart, Value};

/// A name in a template.
pub(crate) struct TemplateReference {
    pub name: String,
    /// The path read from it, as far as it is literal.
    pub path: Vec<String>,
    /// It may be missing: `default`, `is defined`.
    pub guarded: bool,
    pub pointer: Vec<PathPart>,
    pub range: Range<usize>,
}

pub(crate) fn errors(source: &Value, mode: ExpressionMode) -> Vec<CompileError> {
    JinjaLanguage.compile(source, mode).err().unwrap_or_default()
}

pub(crate) fn references(source: &Value) -> Vec<TemplateReference> {
    let step = |part: PathPart| match part {
        PathPart::Key(key) => key.to_string(),
        PathPart::Index(index) => index.to_string(),
    };
    let found = jinja::references(source).into_iter().map(|found| TemplateReference {
        name: found.name.to_string(),
        path: found.path.into_iter().map(step).collect(),
        guarded: found.guarded,
        pointer: found.pointer,
        range: found.range,
    });
    found.collect()
}

/// Reports whether a text contains a template.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Returns the expression of a text that is a single template.
pub(crate) fn single_expression(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (!inner.contains("{{") && !inner.contains("}}")).then(|| inner.trim_matches('-').trim())
}

/// Returns the length of the template at the start of a text. Quoted texts and braces inside it do not end it.
pub(crate) fn template_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix("{{")?;
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (at, letter) in inner.char_indices() {
        match (quote, letter) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(letter),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if inner[at..].starts_with("}}") => return Some(2 + at + 2),
            _ => {}
        }
    }
    None
}

/// Escapes a text into a source that evaluates to exactly this text.
pub(crate) fn literal_text(text: &str) -> String {
    match is_template(text) {
        true => format!("{{{{ {} }}}}", quote(text)),
        false => text.to_owned(),
    }
}

/// Quotes a text as a literal of the language.
pub(crate) fn quote(text: &str) -> String {
    windlass_value::to_json(&Value::from(text))
}
