//! The only place that talks to the expression language.

use std::ops::Range;

use windlass_expr::wdl::{self, Wdl};
use windlass_value::{CompileError, Language, Mode, PathPart, Value};

pub(crate) const LANGUAGE: &str = "wdl";

/// What a name in an expression stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refers {
    Action,
    Variable,
    Loop,
    Parameter,
}

pub(crate) struct Reference {
    pub refers: Refers,
    pub name: String,
    pub pointer: Vec<PathPart>,
    pub range: Range<usize>,
}

pub(crate) fn errors(source: &Value, mode: Mode) -> Vec<CompileError> {
    Wdl.compile(source, mode).err().unwrap_or_default()
}

pub(crate) fn warnings(source: &Value) -> Vec<CompileError> {
    wdl::warnings(source)
}

pub(crate) fn references(source: &Value) -> Vec<Reference> {
    let found = wdl::references(source);
    let lists = [
        (Refers::Action, found.nodes),
        (Refers::Variable, found.variables),
        (Refers::Loop, found.loops),
        (Refers::Parameter, found.parameters),
    ];
    let with_kind = |(refers, list): (Refers, Vec<wdl::Ref>)| {
        list.into_iter().map(move |one| Reference {
            refers,
            name: one.name.to_string(),
            pointer: one.pointer,
            range: one.range,
        })
    };
    lists.into_iter().flat_map(with_kind).collect()
}

/// Whether a text is anything but itself.
pub(crate) fn is_expression(text: &str) -> bool {
    is_whole_expression(text) || text.contains("@{")
}

/// Whether a text is one expression, which keeps its type.
pub(crate) fn is_whole_expression(text: &str) -> bool {
    text.len() > 1 && text.starts_with('@') && !text.starts_with("@@") && !text.starts_with("@{")
}

/// A text as a literal of the language.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
