//! `output` and `output_select`: the part of a result that later templates see. The full result stays available under
//! `_ref`, by reference if it is large, so selecting loses nothing and small fields can be read without loading the
//! rest.

use std::collections::BTreeMap;

use windlass_core::plan::ExprId;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, Span, SyntaxNode, SyntaxNodeKind, expect_list, expect_text};
use windlass_value::{ExpressionMode, Map, Value};

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::NoetlTask;
use crate::key_support::{self, KeySupport};

/// The key of the full result next to the selected fields.
const FULL_RESULT: &str = "_ref";

/// The keys of an `output` block.
const OUTPUT: [(&str, KeySupport); 8] = [
    ("select", KeySupport::Supported),
    ("output_select", KeySupport::Supported),
    ("store", KeySupport::NoEffect("the engine stores large results separately, in the store of the run")),
    ("inline_max_bytes", KeySupport::NoEffect("`limits.max_inline_bytes` in windlass.toml sets the threshold")),
    ("preview_max_bytes", KeySupport::NoEffect("a reference has no preview: templates read through it")),
    ("scope", KeySupport::NoEffect("a result is kept as long as its run")),
    ("ttl", KeySupport::NoEffect("a result is kept as long as its run")),
    ("accumulate", KeySupport::Unsupported("write `set_shared: {all: {append: …}}`, or read the loop's `results`")),
];

/// One field: its name, and its path in the result.
struct SelectedField {
    name: String,
    path: String,
}

/// The selected fields of a result.
pub(crate) struct Selection {
    fields: Vec<SelectedField>,
    pub span: Span,
}

impl NoetlCompiler<'_> {
    /// Reads `output`, `output_select` or `outputs` of a task or a step.
    pub(crate) fn selection(&mut self, object: &mut ObjectReader) -> Option<Selection> {
        let mut found: Option<Selection> = None;
        for name in ["output", "output_select", "outputs"] {
            let Some((key, node)) = object.take_entry(name) else { continue };
            let selected = match name {
                "output_select" => self.select_list(node),
                _ => self.output_block(node),
            };
            if let (Some(first), Some(_)) = (&found, &selected) {
                let problem = Diagnostic::error(codes::CONFLICT, key.span, "fields are selected twice");
                self.push(problem.with_label(first.span, "the other").with_hint("keep one of the two"));
            }
            found = found.or(selected);
        }
        found
    }

    fn output_block(&mut self, node: &SyntaxNode) -> Option<Selection> {
        let mut output = ObjectReader::read(node, "`output`", &mut self.diagnostics)?;
        let lists: Vec<_> = ["select", "output_select"].iter().filter_map(|name| output.take(name)).collect();
        key_support::check_keys(self, output, &OUTPUT, "`output`");
        if let [_, second, ..] = lists.as_slice() {
            self.error(codes::CONFLICT, second.span, "fields are selected twice", "keep one of the two");
        }
        lists.first().and_then(|list| self.select_list(list))
    }

    /// Reads a list of paths or `{path, as}`.
    fn select_list(&mut self, node: &SyntaxNode) -> Option<Selection> {
        if node.as_map().is_some_and(|entries| entries.iter().any(|(key, _)| key.text == "strategy")) {
            let hint = "the engine stores large results separately; write a list of fields to select some";
            self.no_effect(node.span, "a strategy of `output_select` has no effect", hint);
            return None;
        }
        let items = expect_list(node, "`output_select`", &mut self.diagnostics)?;
        let mut fields: BTreeMap<String, Span> = BTreeMap::new();
        let mut all = Vec::new();
        for item in items {
            let Some(field) = self.field(item) else { continue };
            if let Some(first) = fields.insert(field.name.clone(), item.span) {
                let problem =
                    Diagnostic::error(codes::DUPLICATE, item.span, format!("`{}` is selected twice", field.name));
                self.push(problem.with_label(first, "the other").with_hint("give one of them another name with `as`"));
            }
            all.push(field);
        }
        Some(Selection { fields: all, span: node.span })
    }

    fn field(&mut self, node: &SyntaxNode) -> Option<SelectedField> {
        let (path, name) = match &node.kind {
            SyntaxNodeKind::Map(_) => {
                let mut entry = ObjectReader::read(node, "a selected field", &mut self.diagnostics)?;
                let (path, name) = (entry.take("path"), entry.take("as"));
                entry.finish(codes::UNKNOWN_KEY, "a selected field", &mut self.diagnostics);
                let Some(path) = path else {
                    let hint = "write `{path: data.id, as: id}`";
                    self.error(codes::MISSING_KEY, node.span, "this field has no `path`", hint);
                    return None;
                };
                (path, name)
            }
            _ => (node, None),
        };
        let text = expect_text(path, "a path", &mut self.diagnostics)?.text.trim();
        let steps = text.strip_prefix("$.").unwrap_or(text);
        let Some(found) = attribute_path(steps) else {
            let message = format!("`{text}` is not a path into the result");
            self.error(codes::BAD_VALUE, path.span, message, "write names with dots between: data.items.0.id");
            return None;
        };
        let name = match name {
            Some(name) => expect_text(name, "`as`", &mut self.diagnostics)?.text.trim(),
            None => {
                let named = |part: &&str| part.parse::<u32>().is_err();
                steps.rsplit(['.', '[']).map(|part| part.trim_end_matches(']')).find(named).unwrap_or(steps)
            }
        };
        let name = name.to_owned();
        if name.is_empty() || name == FULL_RESULT {
            self.error(codes::BAD_VALUE, node.span, format!("a field cannot be called `{name}`"), "name it with `as`");
            return None;
        }
        Some(SelectedField { name, path: found })
    }

    /// Adds the expression of the selected fields.
    pub(crate) fn selection_expression(&mut self, selection: &Selection) -> ExprId {
        let whole = "output_select";
        let mut map = Map::new();
        for field in &selection.fields {
            map.insert(field.name.as_str(), format!("{{{{ {whole}{} }}}}", field.path));
        }
        map.insert(FULL_RESULT, format!("{{{{ {whole} }}}}"));
        self.add_expression(Value::map(map), ExpressionMode::Value, selection.span)
    }

    /// Returns a task that selects from the previous result.
    pub(crate) fn selection_task(&mut self, selection: &Selection) -> NoetlTask {
        let value = self.selection_expression(selection);
        let task = NoetlTask::new("select", crate::form::TaskWork::Evaluate(value), selection.span);
        NoetlTask { hidden: true, selects: true, ..task }
    }
}

/// Converts `data.items[0]` to `['data']['items'][0]`, so that no name is parsed as anything but a key.
pub(crate) fn attribute_path(text: &str) -> Option<String> {
    let dotted = text.replace('[', ".").replace(']', "");
    let parts: Option<Vec<String>> = dotted.split('.').map(path_segment).collect();
    parts.map(|parts| parts.concat())
}

fn path_segment(part: &str) -> Option<String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    match part.parse::<u32>() {
        Ok(index) => Some(format!("[{index}]")),
        Err(_) => (!part.is_empty() && part.chars().all(plain)).then(|| format!("['{part}']")),
    }
}
