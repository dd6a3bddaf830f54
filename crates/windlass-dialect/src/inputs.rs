//! Inputs that a definition does not read: most likely slips.

use windlass_core::plan::{ExpressionSource, Plan};
use windlass_syntax::nearest;
use windlass_value::{Value, to_json};

/// An input that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputWarning {
    pub message: String,
    pub hint: String,
}

/// Finds the keys of an input that are no parameters of the plan and that `reads` does not know either.
pub fn unused_inputs(plan: &Plan, input: &Value, reads: impl Fn(&str) -> bool) -> Vec<InputWarning> {
    let declared = || plan.parameters.iter().map(|parameter| &*parameter.name);
    let given = match input {
        Value::Null => return Vec::new(),
        Value::Map(given) => given,
        other => {
            let message = format!("the definition does not read an input of the kind {}", other.kind());
            return vec![InputWarning { message, hint: "give an object with its parameters".to_owned() }];
        }
    };
    let unknown = given.iter().filter(|(key, _)| declared().all(|name| *name != ***key) && !reads(key));
    let warning = |key: &str| InputWarning {
        message: format!("the definition does not read the input `{key}`"),
        hint: match nearest(key, declared()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if plan.parameters.is_empty() => "it declares no inputs".to_owned(),
            None => format!("its parameters: {}", declared().collect::<Vec<_>>().join(", ")),
        },
    };
    unknown.map(|(key, _)| warning(key)).collect()
}

/// The expressions that the definition itself has, as JSON; others are made by its compiler.
pub fn written_expressions(plan: &Plan) -> impl Iterator<Item = String> {
    let own = |expression: &&ExpressionSource| expression.span.end > expression.span.start;
    plan.expressions.iter().filter(own).map(|expression| to_json(&expression.source))
}
