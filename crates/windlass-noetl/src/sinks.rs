//! Sinks: tasks that write a step's result and leave it unchanged.

use std::sync::Arc;

use windlass_core::plan::Amount;
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, Span, SyntaxNode, SyntaxNodeKind, expect_text};

use crate::codes;
use crate::compiler::NoetlCompiler;
use crate::form::NoetlTask;
use crate::tools::TaskInputs;

impl NoetlCompiler<'_> {
    /// Compiles `{tool, table | statement, auth, …}`.
    pub(crate) fn sink(&mut self, label: impl Into<Arc<str>>, node: &SyntaxNode) -> Option<NoetlTask> {
        let mut object = ObjectReader::read(node, "`sink`", &mut self.diagnostics)?;
        let (tool, kind) = (object.take("tool"), object.take("kind"));
        let tool = match tool.or(kind) {
            // A tool with its inputs inside.
            Some(tool) if tool.as_map().is_some() => {
                object.finish(codes::UNKNOWN_KEY, "`sink`", &mut self.diagnostics);
                let mut inner = ObjectReader::read(tool, "`tool`", &mut self.diagnostics)?;
                let kind = inner.take("kind");
                return self.parse_sink(label.into(), kind, inner, node.span);
            }
            found => found,
        };
        self.parse_sink(label.into(), tool, object, node.span)
    }

    fn parse_sink(
        &mut self,
        label: Arc<str>,
        tool: Option<&SyntaxNode>,
        object: ObjectReader,
        span: Span,
    ) -> Option<NoetlTask> {
        let Some(tool) = tool else {
            let hint = "add `tool: postgres`";
            self.error(codes::MISSING_KEY, span, "this sink has no `tool`", hint);
            return None;
        };
        let kind = expect_text(tool, "`tool`", &mut self.diagnostics)?.text.trim().to_owned();
        let mut inputs = TaskInputs { object, step_input: None, span, timeout: None, is_mocked: false };
        let table = inputs.object.take("table");
        let stated = ["statement", "command", "query", "commands", "sql"];
        let has_statement = stated.iter().any(|name| inputs.object.peek(name).is_some());
        let work = match table.filter(|_| !has_statement) {
            Some(table) => self.insert(&kind, table, &mut inputs, tool.span),
            None => self.work(&kind, tool.span, &mut inputs),
        };
        let timeout: Option<Amount<_>> = inputs.timeout.take();
        inputs.object.finish(codes::UNKNOWN_KEY, &format!("a sink of kind `{kind}`"), &mut self.diagnostics);
        Some(NoetlTask { keeps_previous: true, timeout, ..NoetlTask::new(label, work?, span) })
    }

    /// Compiles a sink with only a table: the result is inserted as rows, columns by name.
    fn insert(
        &mut self,
        kind: &str,
        table: &SyntaxNode,
        inputs: &mut TaskInputs,
        span: Span,
    ) -> Option<crate::form::TaskWork> {
        if kind != "postgres" {
            let message = format!("a sink of kind `{kind}` needs a `statement`");
            self.error(
                codes::NOT_SUPPORTED,
                table.span,
                message,
                "only a `postgres` sink derives its columns from the table",
            );
            inputs.object.take_rest();
            return None;
        }
        let name = expect_text(table, "`table`", &mut self.diagnostics)?.text.trim();
        let plain = |part: &str| {
            let mut letters = part.chars();
            letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if !name.split('.').all(plain) || name.split('.').count() > 2 {
            let message = format!("`{name}` is not a plain table name");
            self.error(codes::BAD_VALUE, table.span, message, "write schema.table, or a whole `statement`");
            return None;
        }
        let auth = self.database_auth(inputs, span);
        self.input_timeout(inputs);
        let sql = format!("INSERT INTO {name} SELECT * FROM jsonb_populate_recordset(NULL::{name}, $1::jsonb)");
        let rows = "{{ ([result] if result is mapping else result) | tojson }}";
        let at = |kind| SyntaxNode::new(table.span, kind);
        let params = at(SyntaxNodeKind::List(vec![SyntaxNode::text(rows, table.span)]));
        let statement =
            SyntaxNode::object(table.span, [("sql", SyntaxNode::text(sql, table.span)), ("params", params)]);
        let statements = at(SyntaxNodeKind::List(vec![statement]));
        let input = SyntaxNode::object(inputs.span, [("auth", auth), ("statements", statements)]);
        self.effect("postgres", span, &input)
    }
}
