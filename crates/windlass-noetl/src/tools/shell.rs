//! `kind: shell`. Values reach the text as variables of the environment, never as parts of it.

use windlass_dialect::Findings;
use windlass_syntax::{Key, Kind, Node, Span};

use super::Inputs;
use super::http::text;
use crate::compiler::Compiler;
use crate::form::Work;
use crate::{codes, expr};

mod words;

use words::Remark;

const PASSED: [&str; 5] = ["env", "cwd", "stdin", "shell", "argv"];

impl Compiler<'_> {
    pub(crate) fn shell(&mut self, inputs: &mut Inputs, span: Span) -> Option<Work> {
        let command = self.one_of(inputs, &["cmds", "command", "cmd", "commands"]);
        let mut entries: Vec<(Key, Node)> = Vec::new();
        for name in PASSED {
            if let Some((key, node)) = inputs.object.take_entry(name) {
                entries.push((Key { text: name.to_owned(), span: key.span }, node.clone()));
            }
        }
        let own = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node).or(inputs.given);
        self.input_timeout(inputs);
        let has_program = entries.iter().any(|(key, _)| key.text == "argv");
        let Some((key, node)) = command else {
            if !has_program {
                self.missing_input("shell", "cmds", span);
                return None;
            }
            let input = Node::new(inputs.span, Kind::Map(entries));
            return self.effect("shell", span, &input);
        };
        let mut values: Vec<(Key, Node)> = own.and_then(Node::as_map).map(<[_]>::to_vec).unwrap_or_default();
        let (name, texts) = match &node.kind {
            Kind::List(items) => {
                let items = items.iter().map(|item| self.shell_text(item, &mut values)).collect();
                ("cmds", Node::new(node.span, Kind::List(items)))
            }
            _ => ("command", self.shell_text(node, &mut values)),
        };
        entries.push((Key { text: name.to_owned(), span: key.span }, texts));
        if !values.is_empty() {
            entries.push((Key { text: "values".to_owned(), span: key.span }, Node::new(node.span, Kind::Map(values))));
        }
        let input = Node::new(inputs.span, Kind::Map(entries));
        self.effect("shell", span, &input)
    }

    /// The text with a variable in place of each template.
    fn shell_text(&mut self, node: &Node, values: &mut Vec<(Key, Node)>) -> Node {
        let Some(source) = node.as_str().filter(|source| expr::is_template(source)) else { return node.clone() };
        let first = values.len() + 1;
        let words = words::words(source, first);
        let hint = "give it a name, `env: {X: \"{{ x }}\"}`, and write \"$X\" where it is used";
        for remark in words.remarks {
            match remark {
                Remark::Refused(message) => self.error(codes::NOT_SUPPORTED, node.span, message, hint),
                Remark::Doubtful(message) => self.warning(codes::RAW_SQL, node.span, message, hint),
            }
        }
        for (index, template) in words.templates.into_iter().enumerate() {
            let key = Key { text: format!("WINDLASS_VALUE_{}", first + index), span: node.span };
            values.push((key, text(template, node.span)));
        }
        text(expr::literal_text(&words.out), node.span)
    }
}
