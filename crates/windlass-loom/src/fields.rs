//! An action's fields, wherever its author put them: on the action, or under `inputs`.

use windlass_syntax::{Diagnostic, Diagnostics, Key, Node, Object, Span};

use crate::codes;

pub(crate) struct Fields<'a> {
    action: Object<'a>,
    inputs: Option<Object<'a>>,
    pub label: &'static str,
}

impl<'a> Fields<'a> {
    /// Fields of an action whose `inputs`, if there are any, are an object of fields.
    pub(crate) fn open(mut action: Object<'a>, label: &'static str, diagnostics: &mut Diagnostics) -> Fields<'a> {
        let inputs = action.take("inputs").and_then(|node| Object::read(node, "`inputs`", diagnostics));
        Fields { action, inputs, label }
    }

    /// Fields of an action whose `inputs` are something else.
    pub(crate) fn plain(action: Object<'a>, label: &'static str) -> Fields<'a> {
        Fields { action, inputs: None, label }
    }

    pub(crate) fn span(&self) -> Span {
        self.action.span()
    }

    pub(crate) fn take(&mut self, name: &'static str, diagnostics: &mut Diagnostics) -> Option<&'a Node> {
        self.take_entry(name, diagnostics).map(|(_, node)| node)
    }

    pub(crate) fn take_entry(
        &mut self,
        name: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Option<(&'a Key, &'a Node)> {
        let outer = self.action.take_entry(name);
        let inner = self.inputs.as_mut().and_then(|inputs| inputs.take_entry(name));
        if let (Some((first, _)), Some((second, _))) = (outer, inner) {
            let message = format!("`{name}` is given twice, on the action and under `inputs`");
            let problem = Diagnostic::error(codes::CONFLICT, second.span, message);
            diagnostics.push(problem.label(first.span, "also here").hint("keep one of the two"));
        }
        outer.or(inner)
    }

    /// A field that goes by several names; two of them at once is a problem.
    pub(crate) fn take_any(
        &mut self,
        names: &[&'static str],
        diagnostics: &mut Diagnostics,
    ) -> Option<(&'a Key, &'a Node)> {
        let found: Vec<_> = names.iter().filter_map(|name| self.take_entry(name, diagnostics)).collect();
        if let [first, second, ..] = found.as_slice() {
            let message = format!("`{}` and `{}` exclude each other", first.0.text, second.0.text);
            let problem = Diagnostic::error(codes::CONFLICT, second.0.span, message);
            diagnostics.push(problem.label(first.0.span, "the other").hint("keep one of the two"));
        }
        found.first().copied()
    }

    /// Like `take`, but its absence is a problem.
    pub(crate) fn require(&mut self, name: &'static str, diagnostics: &mut Diagnostics) -> Option<&'a Node> {
        let found = self.take(name, diagnostics);
        if found.is_none() {
            self.missing(name, diagnostics);
        }
        found
    }

    pub(crate) fn missing(&self, name: &str, diagnostics: &mut Diagnostics) {
        let at = Span::new(self.span().start, self.span().start + 1);
        let message = format!("this action of type `{}` needs `{name}`", self.label);
        diagnostics.push(Diagnostic::error(codes::MISSING_KEY, at, message).hint(format!("add `{name}`")));
    }

    /// Only on the action itself.
    pub(crate) fn action(&mut self) -> &mut Object<'a> {
        &mut self.action
    }

    pub(crate) fn inputs(&mut self) -> Option<&mut Object<'a>> {
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
