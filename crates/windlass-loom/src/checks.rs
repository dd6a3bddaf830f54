//! Checks after the whole file is read: every name that an expression uses must exist.

use std::sync::Arc;

use windlass_core::plan::{CollectMode, NodeId, NodeKind, Parameter, VariableKind, WriteOp};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, did_you_mean, format_names};
use windlass_value::Value;

use crate::codes;
use crate::compiler::{LoomCompiler, NameUse};
use crate::expr::{self, ReferenceKind};
use crate::records::RequestedRecords;
use crate::scopes::{LoomLoop, TRIGGER};
use crate::variables::kind_name;

/// Variables of a loop's iteration, in lower case and as written.
const ITERATION_VARIABLES: &[(&str, &str)] = &[
    ("loopindex", "loopIndex"),
    ("loopcount", "loopCount"),
    ("loopresult", "loopResult"),
    ("loopstarttime", "loopStartTime"),
    ("loopelapsedms", "loopElapsedMs"),
    ("item", "item"),
];

pub(crate) fn is_iteration_variable(lower: &str) -> bool {
    ITERATION_VARIABLES.iter().any(|(name, _)| *name == lower)
}

impl LoomCompiler<'_> {
    pub(crate) fn check_references(&mut self) {
        let uses = std::mem::take(&mut self.uses);
        let mut requested = RequestedRecords::default();
        for found in &uses {
            match found.kind {
                ReferenceKind::Action => {
                    self.check_action(found);
                    self.request_record(found, &mut requested);
                }
                ReferenceKind::Result => {
                    self.check_action(found);
                    self.request_all_records(found, &mut requested);
                }
                ReferenceKind::Variable => self.check_variable(found),
                ReferenceKind::Loop | ReferenceKind::Item => self.check_loop(found),
                ReferenceKind::Element => self.check_element(found),
                ReferenceKind::Parameter => self.check_parameter(found),
                ReferenceKind::Setting => self.check_setting(found),
            }
        }
        self.uses = uses;
        self.add_records(requested);
        self.check_writes();
    }

    /// Returns the action that a name refers to at its position. It may have no node, if it could not be compiled.
    pub(crate) fn resolve_action(&self, found: &NameUse) -> Option<Option<NodeId>> {
        let lower = found.name.to_lowercase();
        self.scopes.chain(found.scope).find_map(|scope| scope.names.get(&lower)).map(|named| named.node)
    }

    fn check_action(&mut self, found: &NameUse) {
        if let Some(node) = self.resolve_action(found) {
            self.check_order(found, node);
            return;
        }
        if found.scope == TRIGGER {
            let message = format!("a trigger cannot read `{}`: nothing has run yet", found.name);
            self.error(codes::UNKNOWN_ACTION, found.span, message, "use triggerBody() and parameters(…) only");
            return;
        }
        if let Some((looping, _)) = self.resolve_inside_loop(found) {
            self.check_order(found, Some(looping));
            return;
        }
        if let Some((message, hint)) = self.explain_hidden_action(found) {
            self.error(codes::UNKNOWN_ACTION, found.span, message, hint);
            return;
        }
        let visible = self.scopes.chain(found.scope).flat_map(|scope| scope.names.values());
        let names: Vec<Arc<str>> = visible.map(|named| named.name.clone()).collect();
        let hint = did_you_mean(&found.name, names.iter().map(|name| &**name))
            .unwrap_or_else(|| format!("actions here: {}", format_names(names.iter().map(|name| &**name))));
        self.error(codes::UNKNOWN_ACTION, found.span, format!("there is no action `{}`", found.name), hint);
    }

    /// Explains why an action inside a loop cannot be read from here, and suggests what to read instead.
    fn explain_hidden_action(&self, found: &NameUse) -> Option<(String, String)> {
        let lower = found.name.to_lowercase();
        let frames =
            self.scopes.bodies_with(found.scope, &lower).into_iter().filter_map(|body| body.enclosing_loop.as_ref());
        let frames: Vec<&LoomLoop> = frames.collect();
        if let [first, second, ..] = frames[..]
            && found.kind == ReferenceKind::Action
        {
            let message = format!("there is a `{}` in the loop `{}` and in `{}`", found.name, first.name, second.name);
            return Some((message, "give one of them another name".to_owned()));
        }
        let inside = self.scopes.all().find(|scope| scope.names.contains_key(&lower))?;
        let around = inside.enclosing_loop.as_ref()?;
        let message =
            format!("`{}` is inside the loop `{}`: its results are not available here", found.name, around.name);
        let path = inside.names.get(&lower).and_then(|named| self.path_through_loops(found, named.node?));
        let path = path.unwrap_or_else(|| format!("outputs('{}')", around.name));
        Some((message, format!("use the loop's own output: {path}")))
    }

    /// Returns the path to the output of an action through the outputs of the loops around it.
    fn path_through_loops(&self, found: &NameUse, target: NodeId) -> Option<String> {
        let around: Vec<NodeId> = self.scopes.loops(found.scope).map(|frame| frame.node).collect();
        let is_loop = |id: &NodeId| matches!(self.plan.node(*id).kind, NodeKind::Loop(_));
        let line = self.path_from_root(target);
        let outermost = line.iter().position(|id| is_loop(id) && !around.contains(id))?;
        let mut path = String::new();
        for id in &line[outermost..] {
            let node = self.plan.node(*id);
            let name = expr::quote(&node.name);
            match path.is_empty() {
                true => path = format!("outputs({name})"),
                false if node.hidden => {}
                false => path.push_str(&format!("?[{name}]")),
            }
            if let NodeKind::Loop(looping) = &node.kind {
                path.push_str(if looping.collect == CollectMode::Report { "?['lastResult']" } else { "?[0]" });
            }
        }
        Some(path)
    }

    fn check_variable(&mut self, found: &NameUse) {
        let lower = found.name.to_lowercase();
        if found.scope == TRIGGER {
            let message = format!("a trigger cannot read the variable `{}`: nothing has run yet", found.name);
            self.error(codes::UNKNOWN_VARIABLE, found.span, message, "use triggerBody() and parameters(…) only");
            return;
        }
        if found.element && lower == "item" {
            return;
        }
        if self.variables.contains_key(&lower) || self.is_loop_variable(found, &lower) || !self.is_whole_workflow {
            return;
        }
        let message = format!("there is no variable `{}`", found.name);
        let hint = match is_iteration_variable(&lower) {
            true => "it exists only inside a loop".to_owned(),
            false => self.variable_hint(&found.name),
        };
        self.error(codes::UNKNOWN_VARIABLE, found.span, message, hint);
    }

    fn is_loop_variable(&self, found: &NameUse, lower: &str) -> bool {
        let mut loops = self.scopes.loops(found.scope).peekable();
        if is_iteration_variable(lower) {
            return loops.peek().is_some();
        }
        let outer = lower.rsplit_once('_').filter(|(_, field)| is_iteration_variable(field));
        outer.is_some_and(|(name, _)| loops.any(|frame| frame.name.to_lowercase() == name))
    }

    fn variable_hint(&self, name: &str) -> String {
        let declared = self.variables.values().map(|variable| variable.name.as_str());
        let iteration = ITERATION_VARIABLES.iter().map(|(_, written)| *written);
        did_you_mean(name, declared.chain(iteration))
            .unwrap_or_else(|| "declare it with an `initializeVariable` action at the top level".to_owned())
    }

    fn check_loop(&mut self, found: &NameUse) {
        let meant = self.scopes.loops(found.scope).find(|frame| frame.name.eq_ignore_ascii_case(&found.name));
        if let Some(frame) = meant {
            if found.kind == ReferenceKind::Item && !frame.foreach {
                let label = &self.plan.node(frame.node).label;
                let message = format!("the loop `{}` has no items: its type is `{label}`", frame.name);
                let hint = format!(
                    "iterationIndexes('{}') counts its iterations; only a `foreach` has items",
                    frame.name.replace('\'', "''")
                );
                self.error(codes::UNKNOWN_LOOP, found.span, message, hint);
            }
            return;
        }
        let around: Vec<Arc<str>> = self.scopes.loops(found.scope).map(|frame| frame.name.clone()).collect();
        let message = format!("no loop `{}` encloses this expression", found.name);
        let names = || around.iter().map(|name| &**name);
        let hint = did_you_mean(&found.name, names()).unwrap_or_else(|| match names().next() {
            Some(_) => format!("enclosing loops: {}", format_names(names())),
            None => "it is not inside any loop".to_owned(),
        });
        self.error(codes::UNKNOWN_LOOP, found.span, message, hint);
    }

    /// Checks `item()`, which exists in every loop (null in loops without items) and in the operations on lists.
    fn check_element(&mut self, found: &NameUse) {
        if found.element || self.scopes.loops(found.scope).next().is_some() {
            return;
        }
        let message = "`item()` is used outside of any loop: there is no element";
        let hint = "use it in the actions of a `foreach`, or in the expressions of a `query`, `select` or `table`";
        self.error(codes::UNKNOWN_LOOP, found.span, message, hint);
    }

    /// Checks a parameter. Files of a Standard project get parameters from outside of the file; the plan then takes them
    /// as inputs.
    fn check_parameter(&mut self, found: &NameUse) {
        let all = || self.plan.parameters.iter().map(|parameter| &*parameter.name);
        if all().any(|name| name.eq_ignore_ascii_case(&found.name)) {
            return;
        }
        if let Some(value) = self.provided_parameter(&found.name, VariableKind::Any) {
            let parameter = Parameter::new(found.name.as_str(), VariableKind::Any);
            self.plan.parameters.push(Parameter { default: Some(value), ..parameter });
            return;
        }
        let close = did_you_mean(&found.name, all().take(self.declared_parameters));
        if self.is_whole_workflow && (!self.outside_parameters || close.is_some()) {
            let message = format!("there is no parameter `{}`", found.name);
            let hint = close.unwrap_or_else(|| "declare it under `parameters`".to_owned());
            self.error(codes::UNKNOWN_PARAMETER, found.span, message, hint);
            return;
        }
        if self.is_whole_workflow {
            let message = format!("the parameter `{}` is not declared: the run's input must provide it", found.name);
            let hint = "declare it under `parameters`, with a default if there is one";
            self.push(Diagnostic::warning(codes::OUTSIDE_PARAMETER, found.span, message).with_hint(hint));
        }
        self.plan.parameters.push(Parameter::new(found.name.as_str(), VariableKind::Any));
    }

    /// Checks a setting, which becomes a parameter of the plan, so that a run keeps the value it began with.
    fn check_setting(&mut self, found: &NameUse) {
        let key = expr::setting_key(&found.name);
        if self.plan.parameters.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(&key)) {
            return;
        }
        let settings = &self.options.settings;
        let in_any_case = settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(&found.name));
        let value = settings.get(&found.name).or(in_any_case.map(|(_, value)| value));
        if value.is_none() {
            let message = format!("there is no app setting `{}`", found.name);
            let hint = did_you_mean(&found.name, settings.keys().map(String::as_str))
                .unwrap_or_else(|| "add it under `[settings]` in windlass.toml".to_owned());
            let problem = match self.outside_parameters {
                true => Diagnostic::warning(codes::OUTSIDE_PARAMETER, found.span, message),
                false => Diagnostic::error(codes::UNKNOWN_SETTING, found.span, message),
            };
            self.push(problem.with_hint(hint));
        }
        let default = value.map(|value| Value::from(value.as_str()));
        self.plan.parameters.push(Parameter { default, ..Parameter::new(key, VariableKind::String) });
    }

    fn check_writes(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        for write in &writes {
            let Some(variable) = self.variables.get(&write.name) else {
                if self.is_whole_workflow {
                    let hint = self.variable_hint(&write.written);
                    let message = format!("there is no variable `{}`", write.written);
                    self.error(codes::UNKNOWN_VARIABLE, write.span, message, hint);
                }
                continue;
            };
            let (kind, name) = (variable.kind, variable.name.clone());
            match needed_kind(write.op, kind) {
                Some(expected) => {
                    let message = format!(
                        "the variable `{name}` has the type {}, but this action needs {expected}",
                        kind_name(kind)
                    );
                    self.error(codes::VARIABLE_TYPE, write.span, message, "choose the action that fits its type");
                }
                None => {
                    if let (WriteOp::Set, Some((value, span))) = (write.op, &write.literal) {
                        self.check_literal(&name, kind, Some(value.clone()), *span);
                    }
                }
            }
        }
        self.writes = writes;
    }
}

/// Returns the type that an operation needs, if the variable's kind does not fit.
fn needed_kind(op: WriteOp, kind: VariableKind) -> Option<&'static str> {
    let (expected, fits) = match op {
        WriteOp::Add | WriteOp::Subtract => {
            ("a number", matches!(kind, VariableKind::Integer | VariableKind::Float | VariableKind::Any))
        }
        WriteOp::AppendItem => ("an array", matches!(kind, VariableKind::Array | VariableKind::Any)),
        WriteOp::AppendText => ("a string", matches!(kind, VariableKind::String | VariableKind::Any)),
        _ => return None,
    };
    (!fits).then_some(expected)
}
