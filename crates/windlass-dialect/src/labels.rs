//! `labels` under `x-windlass`: labels that a definition gives its runs. Each dialect compiles the values itself.

use std::sync::Arc;

use windlass_core::{Limits, label_name_problem};
use windlass_syntax::{Diagnostic, Diagnostics, ObjectReader, SyntaxNode};

/// The diagnostic codes that a dialect uses for these problems.
#[derive(Clone, Copy, Debug)]
pub struct LabelProblemCodes {
    /// A name that a label cannot have, or a value of a wrong type.
    pub bad_value: &'static str,
    /// More labels than a run may have.
    pub over_limit: &'static str,
}

/// Returns the names and values of the labels, and reports every problem.
pub fn label_entries<'n>(
    node: &'n SyntaxNode,
    limits: &Limits,
    codes: LabelProblemCodes,
    found: &mut Diagnostics,
) -> Vec<(Arc<str>, &'n SyntaxNode)> {
    let Some(object) = ObjectReader::read_exact(node, "`labels`", found) else { return Vec::new() };
    let mut labels = Vec::new();
    for (key, value) in object.unread_entries() {
        if let Some(problem) = label_name_problem(&key.text, limits) {
            found.push(
                Diagnostic::error(codes.bad_value, key.span, problem).with_hint("such as `customer` or `team/eu`"),
            );
        } else if value.as_map().is_some() || value.as_list().is_some() {
            let message = format!("the label `{}` cannot be {}", key.text, value.describe());
            let hint = "write a text, a number, or an expression that gives one";
            found.push(Diagnostic::error(codes.bad_value, value.span, message).with_hint(hint));
        } else {
            labels.push((Arc::from(key.text.as_str()), value));
        }
    }
    let max = limits.max_run_labels;
    if labels.len() > max {
        let message = format!("the definition has more than {max} labels");
        let hint = "raise `limits.max_run_labels` in windlass.toml, or remove some";
        found.push(Diagnostic::error(codes.over_limit, node.span, message).with_hint(hint));
    }
    labels
}
