//! `workload`: the run's inputs with their defaults. A default may be a template over the others: it is computed when
//! the run starts, if the input does not provide the value.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::plan::{ExprId, Parameter, VariableKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{Diagnostic, ObjectReader, SpannedKey, SyntaxNode, SyntaxNodeKind, to_value};
use windlass_value::Value;

use crate::compiler::{NoetlCompiler, TemplateContext};
use crate::{codes, expr};

/// Names that a default may read besides other keys.
const WORDS: [&str; 7] =
    ["workload", "execution_id", "job", "payload", "parent_execution_id", "trace_id", "catalog_id"];

impl NoetlCompiler<'_> {
    pub(crate) fn workload(&mut self, node: &SyntaxNode) {
        if matches!(node.kind, SyntaxNodeKind::Null) {
            self.workload = Some(BTreeMap::new());
            return;
        }
        let Some(object) = ObjectReader::read(node, "`workload`", &mut self.diagnostics) else { return };
        let (computed, plain): (Vec<_>, Vec<_>) = object.unread_entries().partition(|(_, value)| has_template(value));
        let mut known = BTreeMap::new();
        for (key, value) in plain {
            let default = to_value(value);
            known.insert(key.text.clone(), default.clone());
            let parameter = Parameter::new(key.text.as_str(), VariableKind::Any);
            self.plan.parameters.push(Parameter { default: Some(default), merge: true, ..parameter });
        }
        // Their values are not known yet.
        known.extend(computed.iter().map(|(key, _)| (key.text.clone(), Value::Null)));
        self.workload = Some(known);
        self.computed_defaults(computed);
    }

    /// Compiles a value that is computed before the first step.
    pub(crate) fn at_start(&mut self, node: &SyntaxNode) -> ExprId {
        let here =
            std::mem::replace(&mut self.context, TemplateContext { at_start: true, ..TemplateContext::default() });
        let computed = self.value(node);
        self.context = here;
        computed
    }

    fn computed_defaults(&mut self, mut open: Vec<(&SpannedKey, &SyntaxNode)>) {
        while !open.is_empty() {
            let waiting: BTreeSet<&str> = open.iter().map(|(key, _)| key.text.as_str()).collect();
            let ready = open.iter().position(|(_, value)| !reads(value, &waiting));
            let Some(at) = ready else {
                for (key, value) in &open {
                    let message = format!("the default of `{}` depends on itself through other defaults", key.text);
                    let hint = "write one of them without a template";
                    self.push(Diagnostic::error(codes::CONFLICT, value.span, message).with_hint(hint));
                }
                break;
            };
            let (key, value) = open.remove(at);
            let computed = Some(self.at_start(value));
            let parameter = Parameter::new(key.text.as_str(), VariableKind::Any);
            self.plan.parameters.push(Parameter { computed, merge: true, ..parameter });
        }
    }

    /// Checks that a default may read a name: when it is computed, nothing has run.
    pub(crate) fn check_at_start(&mut self, found: &crate::names::TemplateNameUse) -> bool {
        if !found.context.at_start || WORDS.contains(&found.name.as_str()) {
            return true;
        }
        let known = self.workload.as_ref().is_some_and(|workload| workload.contains_key(&found.name));
        if !known {
            let message = format!("`{}` does not exist when the run starts", found.name);
            let hint = "a default reads other keys of `workload`, `payload` and `execution_id`";
            self.error(codes::UNKNOWN_NAME, found.span, message, hint);
        }
        known
    }
}

/// Reports whether a value reads any of these keys.
fn reads(node: &SyntaxNode, keys: &BTreeSet<&str>) -> bool {
    expr::references(&to_value(node)).iter().any(|found| match (found.name.as_str(), found.path.first()) {
        ("workload", Some(key)) => keys.contains(key.as_str()),
        // A reserved name is not the key of the same name.
        (name, _) => !WORDS.contains(&name) && keys.contains(name),
    })
}

pub(crate) fn has_template(node: &SyntaxNode) -> bool {
    match &node.kind {
        SyntaxNodeKind::Str(text) => expr::is_template(&text.text),
        SyntaxNodeKind::List(items) => items.iter().any(has_template),
        SyntaxNodeKind::Map(entries) => entries.iter().any(|(_, node)| has_template(node)),
        _ => false,
    }
}
