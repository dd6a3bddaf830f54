//! The interface to the expression languages. No other module of this crate uses them.

use std::ops::Range;
use std::sync::Arc;

use windlass_expr::wdl;
pub(crate) use windlass_expr::wdl::{setting_key, with_settings, zone_name, zone_problem};
use windlass_value::{CompileError, ExpressionMode, Language, PathPart, Value};

/// The language of a source: plain expressions, or an operation on lists that contains some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExprLanguage {
    Wdl,
    Join,
    Parse,
    Query,
    Select,
    Table,
}

impl ExprLanguage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ExprLanguage::Wdl => "wdl",
            ExprLanguage::Join => "wdl.join",
            ExprLanguage::Parse => "wdl.parse",
            ExprLanguage::Query => "wdl.query",
            ExprLanguage::Select => "wdl.select",
            ExprLanguage::Table => "wdl.table",
        }
    }

    /// Reports whether `item()` is the operation's current element at this position, regardless of any loop around it. In
    /// `from`, where the elements come from, it is not.
    pub(crate) fn has_element(self, pointer: &[PathPart]) -> bool {
        let list = matches!(pointer.first(), Some(PathPart::Key(key)) if **key == *"from");
        matches!(self, ExprLanguage::Query | ExprLanguage::Select | ExprLanguage::Table) && !list
    }
}

/// The kind of object that a name in an expression refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReferenceKind {
    Action,
    /// An action whose `result` is read.
    Result,
    Variable,
    Loop,
    /// A loop whose item is read by the loop's name.
    Item,
    /// The current element.
    Element,
    Parameter,
    Setting,
}

pub(crate) struct ExprReference {
    pub kind: ReferenceKind,
    pub name: String,
    pub pointer: Vec<PathPart>,
    pub range: Range<usize>,
}

/// The names used in a source.
pub(crate) struct ExprReferences {
    pub list: Vec<ExprReference>,
    /// Some action's name is computed.
    pub any_action: bool,
}

/// The languages, created once per file.
pub(crate) struct Languages(Vec<Arc<dyn Language>>);

impl Languages {
    pub(crate) fn new() -> Languages {
        Languages(wdl::languages())
    }

    pub(crate) fn errors(&self, kind: ExprLanguage, source: &Value, mode: ExpressionMode) -> Vec<CompileError> {
        let language = self.0.iter().find(|language| language.name() == kind.name());
        language.and_then(|language| language.compile(source, mode).err()).unwrap_or_default()
    }
}

pub(crate) fn warnings(source: &Value) -> Vec<CompileError> {
    wdl::warnings(source)
}

/// Returns the references of a source. All languages share this: their sources are trees with expressions at the
/// leaves.
pub(crate) fn references(source: &Value) -> ExprReferences {
    let found = wdl::references(source);
    let lists = [
        (ReferenceKind::Action, found.nodes),
        (ReferenceKind::Result, found.results),
        (ReferenceKind::Variable, found.variables),
        (ReferenceKind::Loop, found.loops),
        (ReferenceKind::Item, found.items),
        (ReferenceKind::Element, found.elements),
        (ReferenceKind::Parameter, found.parameters),
        (ReferenceKind::Setting, found.settings),
    ];
    let with_kind = |(refers, list): (ReferenceKind, Vec<wdl::WdlReference>)| {
        list.into_iter().map(move |one| ExprReference {
            kind: refers,
            name: one.name.to_string(),
            pointer: one.pointer,
            range: one.range,
        })
    };
    ExprReferences { list: lists.into_iter().flat_map(with_kind).collect(), any_action: found.any_node }
}

/// Reports whether a text contains an expression.
pub(crate) fn is_expression(text: &str) -> bool {
    is_whole_expression(text) || text.contains("@{")
}

/// Reports whether a text is a single expression, whose value keeps its type.
pub(crate) fn is_whole_expression(text: &str) -> bool {
    text.len() > 1 && text.starts_with('@') && !text.starts_with("@@") && !text.starts_with("@{")
}

/// Quotes a text as a literal of the language.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Escapes a value into a source that evaluates to exactly this value, whatever its texts and keys contain.
pub(crate) fn literal(value: &Value) -> Value {
    match value {
        Value::Str(text) => Value::from(literal_text(text)),
        Value::List(items) => Value::list(items.iter().map(literal).collect()),
        Value::Map(map) => Value::map(map.iter().map(|(key, value)| (literal_text(key), literal(value))).collect()),
        other => other.clone(),
    }
}

/// Escapes a text. A leading `@` is doubled, after which nothing else in the text is special. In any other text only
/// `@{` is special.
pub(crate) fn literal_text(text: &str) -> String {
    match text.starts_with('@') && text.len() > 1 {
        true => format!("@{text}"),
        false => text.replace("@{", "@@{"),
    }
}
