//! A Petri net of places and tokens: routing that a graph cannot express, because steps may run many times.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ExprId, NodeId, VariableUpdate};

/// A net of places; tokens carry data from place to place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Net {
    /// A token goes to every place that accepts its kind, in this order.
    pub places: Vec<Place>,
    /// The kind of the token that the net begins with; its payload is the run's input.
    pub start: Arc<str>,
    /// The condition under which the net ends.
    pub end: NetEnd,
    /// The first token's payload, instead of the run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<ExprId>,
    /// Events report the slot of each body, the tokens that wait for a slot, and which bodies led to which.
    #[serde(default, skip_serializing_if = "is_false")]
    pub publishes_slots: bool,
    /// Kinds that request input from outside the run: a token of such a kind is published as `input.required`, and no
    /// place has to accept it; places may accept it as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_requests: Vec<Arc<str>>,
    /// Kinds that bodies wait for. A token that arrives before its wait is buffered, whether it comes from outside or
    /// from a place; of other kinds, only tokens from outside are buffered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub awaited_kinds: Vec<Arc<str>>,
    /// Only the net's own tokens reach its places: no event from outside starts a body.
    #[serde(default, skip_serializing_if = "is_false")]
    pub internal_only: bool,
}

impl Net {
    /// Creates a net with default options.
    pub fn new(places: Vec<Place>, start: impl Into<Arc<str>>, end: NetEnd) -> Net {
        let (asks, waits) = (Vec::new(), Vec::new());
        Net {
            places,
            start: start.into(),
            end,
            input: None,
            publishes_slots: false,
            input_requests: asks,
            awaited_kinds: waits,
            internal_only: false,
        }
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The end of a net.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetEnd {
    /// When no token and no body is left. The output is that of the body that ended last.
    Quiet,
    /// At the first token of this kind; its payload is the output. A net that becomes quiescent before that has
    /// provably hung.
    Stop(Arc<str>),
}

/// A step of the net, which runs its body for tokens that it accepts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The name of the place, unique in the net.
    pub name: Arc<str>,
    /// The kinds of tokens that it accepts.
    pub accepts: Vec<Arc<str>>,
    /// The maximum number of concurrent bodies; further tokens wait in order.
    pub max_concurrency: u32,
    /// The way tokens are combined before the body runs.
    pub join: Join,
    /// False consumes the token without running the body.
    pub guard: Option<ExprId>,
    /// The node that runs for a token.
    pub body: NodeId,
    /// The tokens that the end of a body emits, in order: the first arc that matches.
    pub arcs: Vec<NetArc>,
    /// All matching arcs fire, not only the first.
    pub inclusive: bool,
    /// The kinds that the body's output may contain, as tokens `{kind, payload}` or a list of them; they are emitted as
    /// well.
    pub produces: Vec<Arc<str>>,
    /// The name of its successful end for arcs (`event.name`); None: `loop.done` for a loop, else `step.done`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_event: Option<Arc<str>>,
    /// A body that waits for a retry, or whose task is suspended, gives its slot to the next token; when it resumes, it
    /// precedes the tokens in the queue.
    #[serde(default, skip_serializing_if = "is_false")]
    pub yields_slot: bool,
    /// The handler of a body's failure that no arc takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler: Option<FailureHandler>,
    /// The joins, by the index of their place, that fire when a fan-out of this place's body closes. Each fires once,
    /// possibly with no members, and gets its members in the order in which the body returned them. A join that is not
    /// listed collects for an outer fan-out. None: the joins that have members fire, with their members in order of
    /// arrival; if none has any, all joins fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out_joins: Option<Vec<u32>>,
}

impl Place {
    /// Creates a place that runs one body at a time, for each token separately.
    pub fn new(name: impl Into<Arc<str>>, accepts: Vec<Arc<str>>, body: NodeId) -> Place {
        Place {
            name: name.into(),
            accepts,
            max_concurrency: 1,
            join: Join::None,
            guard: None,
            body,
            arcs: Vec::new(),
            inclusive: false,
            produces: Vec::new(),
            done_event: None,
            yields_slot: false,
            handler: None,
            fan_out_joins: None,
        }
    }
}

/// A place that handles failures: tokens of the kind [`FAILED_KIND`], which go to it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureHandler {
    /// The index of the handling place in [`Net::places`].
    pub place: u32,
    /// How often one line of tokens may reach this handler: tokens that result from the handler's tokens count too.
    pub max_uses: u32,
}

/// The token kind of a failure: `{step, error, attempts, event {kind, payload}}`.
pub const FAILED_KIND: &str = crate::EventKind::STEP_FAILED;

/// The way tokens are combined before the body runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Join {
    /// Each token runs the body once.
    None,
    /// One token of each accepted kind; surplus tokens wait for the next set.
    All,
    /// The same, and the payloads are merged in the order of the kinds: one object.
    Merged,
    /// All members of the fan-out that the tokens come from; fires once when it has closed.
    FanOut,
    /// All tokens of one fan-out of arcs that reach the place; fires once none of them can still arrive, and the
    /// payloads are merged in the order of the kinds, then of arrival. Tokens that end on the way count as arrived. A
    /// net with such a place has no other joins.
    Meeting {
        /// There must be a token of each accepted kind.
        needs_all: bool,
    },
    /// One token for each of these, in this order, the same kind possibly more than once; the body sees a list of
    /// `{kind, payload}`.
    Each {
        /// The kinds of the tokens.
        needs: Vec<Arc<str>>,
        /// Only tokens with equal values of this property are combined.
        key: Option<Arc<str>>,
        /// The treatment of tokens that the current set does not need.
        surplus: SurplusPolicy,
    },
}

/// The treatment of a token whose kind is already complete in the current set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SurplusPolicy {
    /// It waits for the next set.
    Keep,
    /// It is reported and dropped.
    Drop,
    /// The net fails.
    Fail,
}

/// A token that the end of a body may emit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetArc {
    /// The kind of the token it emits.
    pub emits: Arc<str>,
    /// The statuses of the body for which the arc applies.
    pub on: ArcTrigger,
    /// A further condition; None always holds.
    pub when: Option<ExprId>,
    /// The payload of the token.
    pub payload: Option<ExprId>,
    /// Executed when the arc fires, before its token is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<VariableUpdate>,
}

/// The status of a body for which an arc applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArcTrigger {
    /// Only after a success.
    Succeeded,
    /// Only after a failure.
    Failed,
    /// After both.
    Either,
}
