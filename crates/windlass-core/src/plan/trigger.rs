//! What starts a run.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_value::Value;

use super::{ExprId, SourceSpan};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trigger {
    pub name: Arc<str>,
    /// What the dialect calls it: `request`, `recurrence`.
    pub kind: Arc<str>,
    /// Fails for a delivery that is not as it should be: that one is refused. Looked at before the conditions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validation: Option<ExprId>,
    /// All must hold, or the delivery starts nothing.
    pub conditions: Vec<ExprId>,
    /// A list: each of its items is the input of a run of its own.
    pub split: Option<ExprId>,
    /// Facts for whoever listens: a schedule, a schema, a method.
    pub settings: Value,
    pub span: SourceSpan,
}
