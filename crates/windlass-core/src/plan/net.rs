//! Places and tokens: routing that a graph cannot express, because steps may run many times.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ExprId, NodeId, Write};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Net {
    /// A token goes to every place that accepts its kind, in this order.
    pub places: Vec<Place>,
    /// The kind of the token that the net begins with; its payload is the run's input.
    pub start: Arc<str>,
    pub end: NetEnd,
    /// The first token's payload instead of the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<ExprId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetEnd {
    /// When no token and no body is left. The output is that of the body that ended last.
    Quiet,
    /// At the first token of this kind; its payload is the output. Quiet before that is a proven hang.
    Stop(Arc<str>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    pub name: Arc<str>,
    pub accepts: Vec<Arc<str>>,
    /// How many bodies at once; more tokens wait in order.
    pub workers: u32,
    pub join: Join,
    /// False consumes the token without running the body.
    pub guard: Option<ExprId>,
    pub body: NodeId,
    pub arcs: Vec<NetArc>,
    /// All matching arcs fire, not only the first.
    pub inclusive: bool,
    /// The kinds its body's output may hold, as tokens `{kind, payload}` or a list of them; they are emitted as well.
    pub produces: Vec<Arc<str>>,
    /// What its good end is called where arcs look (`event.name`); None: `loop.done` for a loop, else `step.done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Arc<str>>,
}

/// How tokens come together before the body runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// Each token runs the body once.
    None,
    /// One token of each accepted kind; surplus ones wait for the next set.
    All,
    /// The same, and what the tokens carry is laid over each other, in the order of the kinds: one object.
    Merged,
    /// All members of the fan-out that the tokens come from; fires once when it has closed.
    FanOut,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetArc {
    /// The kind of the token it emits.
    pub emits: Arc<str>,
    pub on: ArcOn,
    pub when: Option<ExprId>,
    pub payload: Option<ExprId>,
    /// Made when the arc fires, before its token is looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Write>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArcOn {
    Succeeded,
    Failed,
    Either,
}
