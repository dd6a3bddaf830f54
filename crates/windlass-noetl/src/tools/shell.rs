//! `kind: shell`. Values reach the command as environment variables, never as parts of its text.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SpannedKey, SyntaxNode, SyntaxNodeKind};

use super::TaskInputs;
use super::http::text;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::{codes, expr};

mod nested;
mod quoting;

use nested::NestedProgram;
use quoting::QuotingProblem;

const PASSED: [&str; 5] = ["env", "cwd", "stdin", "shell", "argv"];

impl NoetlCompiler<'_> {
    pub(crate) fn shell(&mut self, inputs: &mut TaskInputs, span: Span) -> Option<TaskWork> {
        let command = self.one_of(inputs, &["cmds", "command", "cmd", "commands"]);
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        for name in PASSED {
            if let Some((key, node)) = inputs.object.take_entry(name) {
                if name == "argv" {
                    self.check_argv(node);
                }
                entries.push((SpannedKey { text: name.to_owned(), span: key.span }, node.clone()));
            }
        }
        let own = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node).or(inputs.step_input);
        self.input_timeout(inputs);
        let has_program = entries.iter().any(|(key, _)| key.text == "argv");
        let Some((key, node)) = command else {
            if !has_program {
                self.missing_input("shell", "cmds", span);
                return None;
            }
            let input = SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(entries));
            return self.effect("shell", span, &input);
        };
        let mut values: Vec<(SpannedKey, SyntaxNode)> =
            own.and_then(SyntaxNode::as_map).map(<[_]>::to_vec).unwrap_or_default();
        let (name, texts) = match &node.kind {
            SyntaxNodeKind::List(items) => {
                let items = items.iter().map(|item| self.shell_text(item, &mut values)).collect();
                ("cmds", SyntaxNode::new(node.span, SyntaxNodeKind::List(items)))
            }
            _ => ("command", self.shell_text(node, &mut values)),
        };
        entries.push((SpannedKey { text: name.to_owned(), span: key.span }, texts));
        if !values.is_empty() {
            entries.push((
                SpannedKey { text: "values".to_owned(), span: key.span },
                SyntaxNode::new(node.span, SyntaxNodeKind::Map(values)),
            ));
        }
        let input = SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(entries));
        self.effect("shell", span, &input)
    }

    /// Replaces each template of the text by a variable.
    fn shell_text(&mut self, node: &SyntaxNode, values: &mut Vec<(SpannedKey, SyntaxNode)>) -> SyntaxNode {
        let Some(source) = node.as_str().filter(|source| expr::is_template(source)) else { return node.clone() };
        let first = values.len() + 1;
        let shell_text = quoting::quote_templates(source, first);
        let hint = "give it a name, `env: {X: \"{{ x }}\"}`, and write \"$X\" where it is used";
        let mut reported = Vec::new();
        for remark in shell_text.remarks {
            match &remark {
                _ if reported.contains(&remark) => continue,
                QuotingProblem::Refused(message) => self.error(codes::NOT_SUPPORTED, node.span, *message, hint),
                QuotingProblem::Nested(program) => self.report_nested(*program, node.span),
            }
            reported.push(remark);
        }
        for (index, template) in shell_text.templates.into_iter().enumerate() {
            let key = SpannedKey { text: format!("WINDLASS_VALUE_{}", first + index), span: node.span };
            values.push((key, text(template, node.span)));
        }
        text(expr::literal_text(&shell_text.out), node.span)
    }

    /// Reports a value that would run as code: refused in a shell's program, a warning in that of an interpreter.
    fn report_nested(&mut self, program: NestedProgram, span: Span) {
        match program {
            NestedProgram::Shell | NestedProgram::Eval | NestedProgram::Remote => {
                self.error(codes::NOT_SUPPORTED, span, program.message(), program.hint());
            }
            NestedProgram::Interpreter => self.warning(codes::RAW_SQL, span, program.message(), program.hint()),
        }
    }

    /// Checks the words of `argv`, which no shell parses unless one of them is a shell.
    fn check_argv(&mut self, node: &SyntaxNode) {
        let mut words: Vec<String> = Vec::new();
        for item in node.as_list().unwrap_or_default() {
            let word = item.as_str().unwrap_or_default();
            if expr::is_template(word)
                && let Some(program) = nested::program_of_argument(&words)
            {
                self.report_nested(program, item.span);
            }
            words.push(word.to_owned());
        }
    }
}
