//! `kind: postgres`, `sqlite`, `duckdb`. Every template of a statement becomes a value beside it.

use windlass_dialect::Findings;
use windlass_syntax::{Diagnostic, Key, Kind, Node, Span, expect_text};

use super::http::text;
use super::{Inputs, ToolKind};
use crate::compiler::Compiler;
use crate::form::Work;
use crate::{codes, expr};

impl Compiler<'_> {
    pub(crate) fn sql(&mut self, kind: ToolKind, name: &str, inputs: &mut Inputs, span: Span) -> Option<Work> {
        let statement = self.one_of(inputs, &["command", "query", "statement", "commands", "sql"]);
        let params = inputs.object.take_entry("params");
        for unsupported in ["script", "pool"] {
            if let Some((key, _)) = inputs.object.take_entry(unsupported) {
                let message = format!("`{unsupported}` is not supported");
                self.error(codes::NOT_SUPPORTED, key.span, message, "write the statement under `command`");
            }
        }
        // Names for the templates of the statement.
        for ignored in ["input", "args"] {
            inputs.object.take(ignored);
        }
        let mut entries: Vec<(Key, Node)> = Vec::new();
        match kind {
            ToolKind::Postgres => {
                let auth = self.database_auth(inputs, span);
                entries.push((key("auth", auth.span), auth));
            }
            _ => {
                self.auth(inputs);
                let found = self.one_of(inputs, &["database", "db_path", "db"]);
                let database = found.map_or_else(|| text(":memory:", span), |(_, node)| node.clone());
                entries.push((key("database", database.span), database));
            }
        }
        self.input_timeout(inputs);
        let Some((statement_key, node)) = statement else {
            self.missing_input(name, "command", span);
            return None;
        };
        let statements = self.statements(node, params)?;
        entries.push((key("statements", statement_key.span), statements));
        entries.push((key("numbered", statement_key.span), Node::new(statement_key.span, Kind::Bool(true))));
        let input = Node::new(inputs.span, Kind::Map(entries));
        self.effect(name, span, &input)
    }

    /// One text, or several.
    pub(crate) fn statements(&mut self, node: &Node, params: Option<(&Key, &Node)>) -> Option<Node> {
        let texts: Vec<&Node> = match &node.kind {
            Kind::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut entries = Vec::new();
        for one in texts {
            entries.extend(self.statement(one, params)?);
        }
        Some(Node::new(node.span, Kind::List(entries)))
    }

    fn statement(&mut self, node: &Node, params: Option<(&Key, &Node)>) -> Option<Vec<Node>> {
        let source = &expect_text(node, "a statement", &mut self.diagnostics)?.text;
        // Nothing but a template can only mean the statement itself: as a value it would be no SQL.
        let is_whole = expr::whole(source).is_some_and(|inner| !inner.ends_with("raw"));
        if is_whole {
            let message = "the whole statement is a template: whoever gives its value says what is run";
            // A key of `workload` is the author's own text, unless whoever starts the run has another.
            if self.workload_text(source).is_none() {
                let hint = "write the statement here, with templates for its values, or let it in with `| raw`";
                self.error(codes::RAW_SQL, node.span, message, hint);
                return None;
            }
            self.warning(codes::RAW_SQL, node.span, message, "write the statement here, with templates for its values");
        }
        if is_whole || !expr::is_template(source) {
            let mut entry = vec![("sql", node.clone())];
            entry.extend(params.map(|(_, node)| ("params", node.clone())));
            return Some(vec![Node::object(node.span, entry)]);
        }
        if let Some((key, _)) = params {
            let hint = "write $1, $2, … in the statement, or templates, not both";
            self.error(codes::CONFLICT, key.span, "`params` beside templates in the statement", hint);
        }
        let place = |range: std::ops::Range<usize>| match &node.kind {
            Kind::Str(text) => text.span_of(range, node.span),
            _ => node.span,
        };
        let split = match expr::split_sql(source) {
            Ok(split) => split,
            Err(problems) => {
                for problem in problems {
                    let shown = Diagnostic::error(codes::BAD_TEMPLATE, place(problem.range), problem.message);
                    self.push(shown.maybe_hint(problem.hint));
                }
                return None;
            }
        };
        for raw in split.iter().flat_map(|one| &one.raw) {
            let message = "this goes into the statement as it is: whoever gives its value can change the statement";
            self.warning(codes::RAW_SQL, place(raw.clone()), message, "leave `raw` out, so that it becomes a value");
        }
        let mut entries = Vec::new();
        for group in split.chunk_by(|one, next| one.each.is_some() && one.each == next.each) {
            entries.push(match group.first().and_then(|one| one.each.as_ref()) {
                Some(each) => looped(each, group, place(each.range.clone())),
                None => group
                    .iter()
                    .map(|one| {
                        let params = one.params.iter().map(|param| text(&param.template, place(param.range.clone())));
                        let params = Node::new(node.span, Kind::List(params.collect()));
                        Node::object(node.span, [("sql", text(&one.sql, node.span)), ("params", params)])
                    })
                    .next()?,
            });
        }
        Some(entries)
    }
}

/// Statements that are run for every item: their values as one text of JSON, a list for each item with a list for each
/// statement.
fn looped(each: &expr::Each, group: &[expr::Statement], span: Span) -> Node {
    let values = |one: &expr::Statement| {
        let values = one.params.iter().map(|param| {
            let inner = param.template.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or("none");
            format!("{{{{ ({inner}) | tojson }}}}")
        });
        format!("[{}]", values.collect::<Vec<_>>().join(","))
    };
    let all = group.iter().map(values).collect::<Vec<_>>().join(",");
    let between = "{% if not loop.last %},{% endif %}";
    let each = format!("[{{% for {} in {} %}}[{all}]{between}{{% endfor %}}]", each.item, each.list);
    let statements = group.iter().map(|one| text(&one.sql, span)).collect();
    Node::object(span, [("each", text(each, span)), ("sqls", Node::new(span, Kind::List(statements)))])
}

fn key(name: &str, span: Span) -> Key {
    Key { text: name.to_owned(), span }
}
