//! `kind: postgres`, `sqlite`, `duckdb`. Every template of a statement becomes a bound parameter.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, Span, SpannedKey, SyntaxNode, SyntaxNodeKind, expect_text};

use super::http::text;
use super::{TaskInputs, ToolKind};
use crate::compiler::NoetlCompiler;
use crate::expr::NameQuote;
use crate::form::TaskWork;
use crate::{codes, expr};

impl NoetlCompiler<'_> {
    pub(crate) fn sql(&mut self, kind: ToolKind, name: &str, inputs: &mut TaskInputs, span: Span) -> Option<TaskWork> {
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
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
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
        let quote = if kind == ToolKind::Sqlite { NameQuote::Backtick } else { NameQuote::Double };
        let statements = self.statements(node, params, quote)?;
        entries.push((key("statements", statement_key.span), statements));
        entries.push((
            key("numbered", statement_key.span),
            SyntaxNode::new(statement_key.span, SyntaxNodeKind::Bool(true)),
        ));
        let input = SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(entries));
        self.effect(name, span, &input)
    }

    /// Reads one statement text, or several.
    pub(crate) fn statements(
        &mut self,
        node: &SyntaxNode,
        params: Option<(&SpannedKey, &SyntaxNode)>,
        quote: NameQuote,
    ) -> Option<SyntaxNode> {
        let texts: Vec<&SyntaxNode> = match &node.kind {
            SyntaxNodeKind::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut entries = Vec::new();
        for one in texts {
            entries.extend(self.statement(one, params, quote)?);
        }
        Some(SyntaxNode::new(node.span, SyntaxNodeKind::List(entries)))
    }

    fn statement(
        &mut self,
        node: &SyntaxNode,
        params: Option<(&SpannedKey, &SyntaxNode)>,
        quote: NameQuote,
    ) -> Option<Vec<SyntaxNode>> {
        let source = &expect_text(node, "a statement", &mut self.diagnostics)?.text;
        // A text that is nothing but a template can only be the statement itself: as a parameter it would not be SQL.
        let is_whole = expr::single_expression(source).is_some_and(|inner| !inner.ends_with("raw"));
        if is_whole {
            let message = "the whole statement is a template: the provider of its value decides what is executed";
            // A key of `workload` is the author's own text, unless the caller of the run overrides it.
            if self.workload_text(source).is_none() {
                let hint =
                    "write the statement here, with templates for its values, or insert it unescaped with `| raw`";
                self.error(codes::COMPUTED_STATEMENT, node.span, message, hint);
                return None;
            }
            self.warning(codes::RAW_SQL, node.span, message, "write the statement here, with templates for its values");
        }
        if is_whole || !expr::is_template(source) {
            let mut entry = vec![("sql", node.clone())];
            entry.extend(params.map(|(_, node)| ("params", node.clone())));
            return Some(vec![SyntaxNode::object(node.span, entry)]);
        }
        if let Some((key, _)) = params {
            let hint = "write $1, $2, … in the statement, or templates, not both";
            self.error(codes::CONFLICT, key.span, "`params` and templates in one statement", hint);
        }
        let span_at = |range: std::ops::Range<usize>| match &node.kind {
            SyntaxNodeKind::Str(text) => text.span_of(range, node.span),
            _ => node.span,
        };
        let split = match expr::split_sql(source, quote) {
            Ok(split) => split,
            Err(problems) => {
                for problem in problems {
                    let shown = Diagnostic::error(codes::BAD_TEMPLATE, span_at(problem.range), problem.message);
                    self.push(shown.with_optional_hint(problem.hint));
                }
                return None;
            }
        };
        for raw in split.iter().flat_map(|one| &one.raw) {
            let message = "this is inserted unescaped: the provider of its value can change the statement";
            self.warning(
                codes::RAW_SQL,
                span_at(raw.clone()),
                message,
                "leave `raw` out, so that it is bound as a value",
            );
        }
        let mut entries = Vec::new();
        for group in split.chunk_by(|one, next| one.for_each.is_some() && one.for_each == next.for_each) {
            entries.push(match group.first().and_then(|one| one.for_each.as_ref()) {
                Some(each) => statement_loop(each, group, span_at(each.range.clone())),
                None => group
                    .iter()
                    .map(|one| {
                        let params = one.params.iter().map(|param| text(&param.template, span_at(param.range.clone())));
                        let params = SyntaxNode::new(node.span, SyntaxNodeKind::List(params.collect()));
                        SyntaxNode::object(node.span, [("sql", text(&one.sql, node.span)), ("params", params)])
                    })
                    .next()?,
            });
        }
        Some(entries)
    }
}

/// Builds statements that run for every item: their values as one JSON text, a list per item with a list per
/// statement.
fn statement_loop(each: &expr::SqlLoop, group: &[expr::SqlStatement], span: Span) -> SyntaxNode {
    let values = |one: &expr::SqlStatement| {
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
    SyntaxNode::object(
        span,
        [("each", text(each, span)), ("sqls", SyntaxNode::new(span, SyntaxNodeKind::List(statements)))],
    )
}

fn key(name: &str, span: Span) -> SpannedKey {
    SpannedKey { text: name.to_owned(), span }
}
