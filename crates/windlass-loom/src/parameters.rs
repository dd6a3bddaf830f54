//! `parameters`: the inputs of a run and their defaults.

use windlass_core::plan::{Parameter, VariableKind};
use windlass_dialect::DiagnosticSink;
use windlass_syntax::{ObjectReader, SyntaxNode, did_you_mean, expect_list, span_at_pointer, to_value};
use windlass_value::Value;

use crate::codes;
use crate::compiler::LoomCompiler;
use crate::expr;
use crate::variables::{describe_value, kind_accepts, kind_name};

impl LoomCompiler<'_> {
    /// Reads the parameters of the definition, then the values next to the definition, as in exports and Standard
    /// projects.
    pub(crate) fn parameters(&mut self, node: Option<&SyntaxNode>, wrapper: Option<&SyntaxNode>) {
        let object = node.and_then(|node| ObjectReader::read(node, "`parameters`", &mut self.diagnostics));
        for (key, node) in object.iter().flat_map(ObjectReader::unread_entries) {
            if let Some(parameter) = self.parameter(&key.text, node) {
                self.plan.parameters.push(parameter);
            }
        }
        let wrapper_values = wrapper.and_then(|node| {
            let inner = || node.get("properties").and_then(|inner| inner.get("parameters"));
            node.get("parameters").or_else(inner)
        });
        let wrapper_values =
            wrapper_values.and_then(|node| ObjectReader::read(node, "`parameters`", &mut self.diagnostics));
        for (key, node) in wrapper_values.iter().flat_map(ObjectReader::unread_entries) {
            self.apply_provided_value(&key.text, node);
        }
        self.declared_parameters = self.plan.parameters.len();
    }

    /// Returns a value from outside of the file; `None` also if its settings are missing.
    pub(crate) fn provided_parameter(&self, name: &str, kind: VariableKind) -> Option<Value> {
        let (_, value) = self.options.parameters.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        let resolved = expr::with_settings(value, &self.options.settings).ok()?;
        Some(if resolved == *value { resolved } else { coerce_to_kind(kind, resolved) })
    }

    fn parameter(&mut self, name: &str, node: &SyntaxNode) -> Option<Parameter> {
        let mut object = ObjectReader::read(node, "a parameter", &mut self.diagnostics)?;
        let kind = object.take("type");
        let secure =
            kind.and_then(SyntaxNode::as_str).is_some_and(|text| text.to_ascii_lowercase().starts_with("secure"));
        let kind = kind.and_then(|node| self.variable_kind(node)).unwrap_or(VariableKind::Any);
        let default = object.take("defaultValue").or_else(|| object.take("value"));
        let allowed = object.take("allowedValues");
        object.ignore(&["metadata", "description"]);
        object.finish(codes::UNKNOWN_KEY, "a parameter", &mut self.diagnostics);
        let allowed = allowed.and_then(|node| {
            let items = expect_list(node, "`allowedValues`", &mut self.diagnostics)?;
            Some(items.iter().map(to_value).collect::<Vec<Value>>())
        });
        let mut parameter = Parameter { allowed, secure, ..Parameter::new(name, kind) };
        let default = default.and_then(|node| self.default_value(&parameter, node));
        parameter.default = self.provided_parameter(name, kind).or(default);
        Some(parameter)
    }

    /// Reads `{"value": …}` next to the definition: replaces the default of a declared parameter, or declares one.
    fn apply_provided_value(&mut self, name: &str, node: &SyntaxNode) {
        let index = self.plan.parameters.iter().position(|parameter| parameter.name.eq_ignore_ascii_case(name));
        let Some(index) = index else {
            let parameter = self.parameter(name, node);
            self.plan.parameters.extend(parameter);
            return;
        };
        if let Some(value) = node.get("value").or_else(|| node.get("defaultValue")) {
            let parameter = self.plan.parameters[index].clone();
            self.plan.parameters[index].default = self.default_value(&parameter, value);
        }
    }

    /// Reads a default. Null counts as no default if the type has no null.
    fn default_value(&mut self, parameter: &Parameter, node: &SyntaxNode) -> Option<Value> {
        let (name, kind) = (&parameter.name, parameter.kind);
        let value = self.resolve_settings(name, kind, node)?;
        if value.is_null() && matches!(kind, VariableKind::Boolean | VariableKind::Integer | VariableKind::Float) {
            return None;
        }
        // For a secret, the definition contains only the reference to where it is stored.
        let is_reference = parameter.secure && value.get("$secret").is_some();
        if !is_reference && !kind_accepts(kind, &value) {
            let message = format!(
                "the parameter `{name}` has the type {}, but its default is {}",
                kind_name(kind),
                describe_value(&value)
            );
            self.error(codes::VARIABLE_TYPE, node.span, message, "change the default or the `type`");
        }
        if parameter.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&value)) {
            let message = format!("the default of `{name}` is not among its `allowedValues`");
            self.error(codes::BAD_VALUE, node.span, message, "add it to the list, or choose one from the list");
        }
        Some(value)
    }

    /// Substitutes app settings in a value. Any other expression is an error, since there is nothing to evaluate it with.
    fn resolve_settings(&mut self, name: &str, kind: VariableKind, node: &SyntaxNode) -> Option<Value> {
        let written = to_value(node);
        let value = match expr::with_settings(&written, &self.options.settings) {
            Ok(value) => value,
            Err(missing) => {
                for setting in missing {
                    let span = span_at_pointer(node, &setting.pointer, setting.range);
                    let known = self.options.settings.keys().map(String::as_str);
                    let hint = did_you_mean(&setting.name, known)
                        .unwrap_or_else(|| "add it under `[settings]` in windlass.toml".to_owned());
                    let message = format!("there is no app setting `{}`", setting.name);
                    self.error(codes::UNKNOWN_SETTING, span, message, hint);
                }
                return None;
            }
        };
        if value != written {
            return Some(coerce_to_kind(kind, value));
        }
        if node.as_str().is_some_and(expr::is_expression) {
            let message = format!("an expression as the default of the parameter `{name}` is not supported");
            let hint = "write a literal value, name an app setting, or pass the value when starting a run";
            self.error(codes::NOT_SUPPORTED, node.span, message, hint);
            return None;
        }
        Some(value)
    }
}

/// Converts the text of a setting to the parameter's kind, if possible.
fn coerce_to_kind(kind: VariableKind, value: Value) -> Value {
    let Value::Str(text) = &value else { return value };
    let read = match kind {
        VariableKind::Any | VariableKind::String => None,
        VariableKind::Boolean => text.trim().to_ascii_lowercase().parse::<bool>().ok().map(Value::Bool),
        VariableKind::Integer | VariableKind::Float | VariableKind::Array | VariableKind::Object => {
            windlass_value::parse_json(text).ok()
        }
    };
    read.unwrap_or(value)
}
