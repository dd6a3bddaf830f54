//! `kind: shell`. Values reach the text as variables of the environment, never as parts of it.

use windlass_syntax::{Key, Kind, Node, Span};

use super::Inputs;
use super::http::text;
use crate::compiler::Compiler;
use crate::expr;
use crate::form::Work;

const PASSED: [&str; 5] = ["env", "cwd", "stdin", "shell", "argv"];

impl Compiler<'_> {
    pub fn shell(&mut self, inputs: &mut Inputs, span: Span) -> Option<Work> {
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
                let items = items.iter().map(|item| shell_text(item, &mut values)).collect();
                ("cmds", Node::new(node.span, Kind::List(items)))
            }
            _ => ("command", shell_text(node, &mut values)),
        };
        entries.push((Key { text: name.to_owned(), span: key.span }, texts));
        if !values.is_empty() {
            entries.push((Key { text: "values".to_owned(), span: key.span }, Node::new(node.span, Kind::Map(values))));
        }
        let input = Node::new(inputs.span, Kind::Map(entries));
        self.effect("shell", span, &input)
    }
}

/// The text with a variable in place of each template. Within single quotes the quotes are closed around it.
fn shell_text(node: &Node, values: &mut Vec<(Key, Node)>) -> Node {
    let Some(source) = node.as_str().filter(|source| expr::is_template(source)) else { return node.clone() };
    let mut out = String::new();
    let mut quote = None;
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        if rest.starts_with("{{")
            && let Some(end) = rest.find("}}")
        {
            let name = format!("WINDLASS_VALUE_{}", values.len() + 1);
            match quote {
                None => out.push_str(&format!("\"${{{name}}}\"")),
                Some('\'') => out.push_str(&format!("'\"${{{name}}}\"'")),
                Some(_) => out.push_str(&format!("${{{name}}}")),
            }
            values.push((Key { text: name, span: node.span }, text(&rest[..end + 2], node.span)));
            rest = &rest[end + 2..];
            continue;
        }
        match (quote, letter) {
            (Some(open), letter) if open == letter => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            _ => {}
        }
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
        if letter == '\\'
            && quote != Some('\'')
            && let Some(next) = rest.chars().next()
        {
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    text(expr::literal_text(&out), node.span)
}
