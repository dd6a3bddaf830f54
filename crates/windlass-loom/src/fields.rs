//! An action's fields, which may be on the action itself or under `inputs`.

use windlass_syntax::{Diagnostic, Diagnostics, ObjectReader, Span, SpannedKey, SyntaxNode};

use crate::codes;

pub(crate) struct ActionFields<'a> {
    action: ObjectReader<'a>,
    inputs: Option<ObjectReader<'a>>,
    pub label: &'static str,
}

impl<'a> ActionFields<'a> {
    /// Creates the fields of an action whose `inputs`, if present, are an object of fields.
    pub(crate) fn open(
        mut action: ObjectReader<'a>,
        label: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> ActionFields<'a> {
        let inputs = action.take("inputs").and_then(|node| ObjectReader::read(node, "`inputs`", diagnostics));
        ActionFields { action, inputs, label }
    }

    /// Creates the fields of an action whose `inputs` are not an object of fields.
    pub(crate) fn without_inputs(action: ObjectReader<'a>, label: &'static str) -> ActionFields<'a> {
        ActionFields { action, inputs: None, label }
    }

    pub(crate) fn span(&self) -> Span {
        self.action.span()
    }

    pub(crate) fn take(&mut self, name: &'static str, diagnostics: &mut Diagnostics) -> Option<&'a SyntaxNode> {
        self.take_entry(name, diagnostics).map(|(_, node)| node)
    }

    pub(crate) fn take_entry(
        &mut self,
        name: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<(&'a SpannedKey, &'a SyntaxNode)> {
        let outer = self.action.take_entry(name);
        let inner = self.inputs.as_mut().and_then(|inputs| inputs.take_entry(name));
        if let (Some((first, _)), Some((second, _))) = (outer, inner) {
            let message = format!("`{name}` is given twice, on the action and under `inputs`");
            let problem = Diagnostic::error(codes::CONFLICT, second.span, message);
            diagnostics.push(problem.with_label(first.span, "also here").with_hint("keep one of the two"));
        }
        outer.or(inner)
    }

    /// Takes a field that has several names; giving two of them is a problem.
    pub(crate) fn take_any(
        &mut self,
        names: &[&'static str],
        diagnostics: &mut Diagnostics,
    ) -> Option<(&'a SpannedKey, &'a SyntaxNode)> {
        let found: Vec<_> = names.iter().filter_map(|name| self.take_entry(name, diagnostics)).collect();
        if let [first, second, ..] = found.as_slice() {
            let message = format!("`{}` and `{}` exclude each other", first.0.text, second.0.text);
            let problem = Diagnostic::error(codes::CONFLICT, second.0.span, message);
            diagnostics.push(problem.with_label(first.0.span, "the other").with_hint("keep one of the two"));
        }
        found.first().copied()
    }

    /// Takes a required field and reports it if it is missing.
    pub(crate) fn require(&mut self, name: &'static str, diagnostics: &mut Diagnostics) -> Option<&'a SyntaxNode> {
        let found = self.take(name, diagnostics);
        if found.is_none() {
            self.missing(name, diagnostics);
        }
        found
    }

    pub(crate) fn missing(&self, name: &str, diagnostics: &mut Diagnostics) {
        let at = Span::new(self.span().start, self.span().start + 1);
        let message = format!("this action of type `{}` needs `{name}`", self.label);
        diagnostics.push(Diagnostic::error(codes::MISSING_KEY, at, message).with_hint(format!("add `{name}`")));
    }

    /// Returns the fields on the action itself.
    pub(crate) fn action(&mut self) -> &mut ObjectReader<'a> {
        &mut self.action
    }

    pub(crate) fn inputs(&mut self) -> Option<&mut ObjectReader<'a>> {
        self.inputs.as_mut()
    }

    pub(crate) fn finish(self, diagnostics: &mut Diagnostics) {
        let what = format!("an action of type `{}`", self.label);
        self.action.finish(codes::UNKNOWN_KEY, &what, diagnostics);
        if let Some(inputs) = self.inputs {
            inputs.finish(codes::UNKNOWN_KEY, &what, diagnostics);
        }
    }
}
