//! Triggers, which start runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Value;

use super::{ExprId, SourceSpan};

/// A trigger of a definition: which deliveries start runs, and how many.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trigger {
    /// The name of the trigger, unique in the definition.
    pub name: Arc<str>,
    /// The dialect's name of the trigger: `request`, `recurrence`.
    pub kind: Arc<str>,
    /// An expression that fails for an invalid delivery, which is then rejected. Evaluated before the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ExprId>,
    /// All conditions must hold, or the delivery starts no run.
    pub conditions: Vec<ExprId>,
    /// A list: each of its items is the input of a separate run.
    pub split: Option<ExprId>,
    /// Settings for the listener of the trigger: a schedule, a schema, a method.
    pub settings: Value,
    /// The place in the definition.
    pub span: SourceSpan,
}
