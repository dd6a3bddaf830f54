//! `kind: python`. Code is no template: values come in as variables, so nothing can break out of a text.

use windlass_syntax::{Kind, Node, Span, expect_text};

use super::Inputs;
use super::http::text;
use crate::compiler::Compiler;
use crate::form::Work;
use crate::tasks::overlaid;
use crate::{codes, expr};

impl Compiler<'_> {
    pub fn python(&mut self, inputs: &mut Inputs, span: Span) -> Option<Work> {
        let code = inputs.object.take("code");
        if let Some((key, _)) = inputs.object.take_entry("script") {
            let hint = "write the code here, or run the file with `shell`";
            self.error(codes::NOT_SUPPORTED, key.span, "`script` is not supported", hint);
        }
        if let Some((key, node)) = inputs.object.take_entry("auth")
            && node.as_map().is_none_or(|entries| !entries.is_empty())
        {
            let hint = "let a task of kind `postgres` or `http` do what needs the credential";
            self.error(codes::NOT_SUPPORTED, key.span, "code gets no credentials", hint);
        }
        let imports = self.libs(inputs);
        let own = self.one_of(inputs, &["input", "args"]).map(|(_, node)| node);
        let given = match (inputs.given, own) {
            (Some(given), Some(own)) => Some(overlaid(given, own)),
            (given, own) => own.or(given).cloned(),
        };
        self.input_timeout(inputs);
        let Some(code) = code else {
            self.missing_input("python", "code", span);
            return None;
        };
        let source = &expect_text(code, "`code`", &mut self.diagnostics)?.text;
        if let Some(found) = pasted(source) {
            let message = format!("code is not a template: `{found}` stays as it is");
            self.no_effect(code.span, message, "pass the value under `input`; it is a variable of the code");
        }
        let source = format!("{imports}{source}");
        let mut entries = vec![("code", text(expr::literal_text(&source), code.span))];
        if let Some(given) = given.filter(|given| !matches!(given.kind, Kind::Null)) {
            entries.push(("args", given));
        }
        let input = Node::object(inputs.span, entries);
        self.effect("python", span, &input)
    }

    /// `libs: {np: numpy}` are imports; a list names packages that must be there.
    fn libs(&mut self, inputs: &mut Inputs) -> String {
        let Some((key, node)) = inputs.object.take_entry("libs") else { return String::new() };
        match &node.kind {
            Kind::Map(entries) => {
                let is_name =
                    |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
                let mut imports = String::new();
                for (alias, module) in entries {
                    let module = module.as_str().unwrap_or(&alias.text);
                    match is_name(&alias.text) && is_name(module) {
                        true => imports.push_str(&format!("import {module} as {}\n", alias.text)),
                        false => {
                            let message = format!("`{module}` is no module");
                            self.error(codes::BAD_VALUE, alias.span, message, "write `libs: {name: module}`");
                        }
                    }
                }
                imports
            }
            Kind::Null => String::new(),
            Kind::List(items) if items.is_empty() => String::new(),
            _ => {
                let hint = "install the packages for the python3 of this machine";
                self.no_effect(key.span, "`libs` installs nothing", hint);
                String::new()
            }
        }
    }
}

/// A template in code, as it was once pasted: a name between double braces. f-strings have braces of their own.
fn pasted(code: &str) -> Option<&str> {
    let start = code.find("{{ ")?;
    let end = code[start..].find(" }}")?;
    let found = &code[start..start + end + 3];
    let inner = found.trim_matches(|c| c == '{' || c == '}').trim();
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '|' | ' ');
    (!inner.is_empty() && inner.chars().all(is_path)).then_some(found)
}
