//! `kind: shell`. Values reach the command as environment variables, never as parts of its text.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Span, SpannedKey, SyntaxNode, SyntaxNodeKind};

use super::TaskInputs;
use super::http::text;
use crate::compiler::NoetlCompiler;
use crate::form::TaskWork;
use crate::{codes, expr};

mod commands;
mod nested;
mod quoting;
mod variables;
mod words;

use nested::NestedProgram;
use quoting::{QuotingProblem, ReceivedValues};

const PASSED: [&str; 5] = ["env", "cwd", "stdin", "shell", "argv"];

impl NoetlCompiler<'_> {
    pub(crate) fn shell(&mut self, inputs: &mut TaskInputs, span: Span) -> Option<TaskWork> {
        let command = self.one_of(inputs, &["cmds", "command", "cmd", "commands"]);
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        for name in PASSED {
            if let Some((key, node)) = inputs.object.take_entry(name) {
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
            self.check_argv(&entries);
            let input = SyntaxNode::new(inputs.span, SyntaxNodeKind::Map(entries));
            return self.effect("shell", span, &input);
        };
        let mut values: Vec<(SpannedKey, SyntaxNode)> =
            own.and_then(SyntaxNode::as_map).map(<[_]>::to_vec).unwrap_or_default();
        self.check_argv(&entries);
        let received = received_values(node, &entries, &values);
        let (name, texts) = match &node.kind {
            SyntaxNodeKind::List(items) => {
                let items = items.iter().map(|item| self.shell_text(item, &mut values, &received)).collect();
                ("cmds", SyntaxNode::new(node.span, SyntaxNodeKind::List(items)))
            }
            _ => ("command", self.shell_text(node, &mut values, &received)),
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
    fn shell_text(
        &mut self,
        node: &SyntaxNode,
        values: &mut Vec<(SpannedKey, SyntaxNode)>,
        received: &ReceivedValues,
    ) -> SyntaxNode {
        let Some(source) = node.as_str() else { return node.clone() };
        let first = values.len() + 1;
        let shell_text = quoting::quote_templates(source, first, received);
        let hint = "give it a name, `env: {X: \"{{ x }}\"}`, and write \"$X\" where it is used";
        let mut reported = Vec::new();
        for remark in shell_text.remarks {
            match &remark {
                _ if reported.contains(&remark) => continue,
                QuotingProblem::Refused(_) if !expr::is_template(source) => continue,
                QuotingProblem::Refused(message) => self.error(codes::NOT_SUPPORTED, node.span, *message, hint),
                QuotingProblem::Nested(program) => {
                    self.report_nested(program.message().to_owned(), *program, node.span)
                }
                QuotingProblem::NestedVariable(name, program) => {
                    self.report_nested(program.variable_message(name), *program, node.span);
                }
            }
            reported.push(remark);
        }
        if !expr::is_template(source) {
            return node.clone();
        }
        for (index, template) in shell_text.templates.into_iter().enumerate() {
            let key = SpannedKey { text: format!("WINDLASS_VALUE_{}", first + index), span: node.span };
            values.push((key, text(template, node.span)));
        }
        text(expr::literal_text(&shell_text.out), node.span)
    }

    /// Reports a value that would run as code: refused in a shell's program, a warning in that of an interpreter.
    fn report_nested(&mut self, message: String, program: NestedProgram, span: Span) {
        match program {
            NestedProgram::Shell | NestedProgram::Eval | NestedProgram::Remote | NestedProgram::Script => {
                self.error(codes::NOT_SUPPORTED, span, message, program.hint());
            }
            NestedProgram::Interpreter => self.warning(codes::RAW_SQL, span, message, program.hint()),
        }
    }

    /// Checks the words of `argv`, which no shell parses unless one of them is a shell.
    fn check_argv(&mut self, entries: &[(SpannedKey, SyntaxNode)]) {
        let Some(items) = entry(entries, "argv").and_then(SyntaxNode::as_list) else { return };
        let mut words: Vec<String> = Vec::new();
        for item in items {
            let word = item.as_str().unwrap_or_default();
            let before = word.split_once("{{").map_or(word, |(before, _)| before);
            if expr::is_template(word)
                && let Some(program) = words::program_of_argument(&words, before)
            {
                self.report_nested(program.message().to_owned(), program, item.span);
            }
            words.push(word.to_owned());
        }
        let input = entry(entries, "stdin").filter(|input| is_value(input));
        if let Some((input, program)) = input.zip(words::program_of_input(&words)) {
            self.report_nested(program.message().to_owned(), program, input.span);
        }
    }
}

fn entry<'n>(entries: &'n [(SpannedKey, SyntaxNode)], name: &str) -> Option<&'n SyntaxNode> {
    entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

fn is_value(node: &SyntaxNode) -> bool {
    node.as_str().is_some_and(expr::is_template)
}

/// Returns the values that the texts of a command receive as variables and as their standard input.
fn received_values(
    command: &SyntaxNode,
    entries: &[(SpannedKey, SyntaxNode)],
    values: &[(SpannedKey, SyntaxNode)],
) -> ReceivedValues {
    let env = entry(entries, "env").and_then(SyntaxNode::as_map).unwrap_or_default();
    let named = env.iter().chain(values).filter(|(_, node)| is_value(node));
    let variables = named.map(|(key, _)| key.text.clone()).collect();
    let is_input = entry(entries, "stdin").is_some_and(is_value);
    let mut received = ReceivedValues { variables, is_any: false, is_input };
    let texts: Vec<&str> = match command.as_list() {
        Some(items) => items.iter().filter_map(SyntaxNode::as_str).collect(),
        None => command.as_str().into_iter().collect(),
    };
    quoting::add_variables(&texts, &mut received);
    received
}
