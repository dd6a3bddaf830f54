//! Nodes that wait for each other, and choices between nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ExprId, NodeId};
use crate::{Status, StatusSet};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    pub children: Vec<Child>,
    /// How many children at once; None is no limit.
    pub max_concurrency: Option<u32>,
    pub ending: Ending,
    pub on_failure: OnFailure,
    /// The status of a child whose dependencies ended in a way it does not accept.
    pub unmet: Status,
    /// Who waits for a child that never ran because of its own dependencies does not run either, whatever it accepts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub spreads: bool,
    /// Which of the children that could start does, when not all of them can.
    #[serde(default, skip_serializing_if = "Pick::is_ready")]
    pub pick: Pick,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pick {
    /// In the order in which they became ready, and of those in the order of the plan.
    #[default]
    Ready,
    /// From each group in turn.
    RoundRobin,
    /// From the group of which the fewest are running.
    LeastBusy,
}

impl Pick {
    fn is_ready(&self) -> bool {
        *self == Pick::Ready
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Child {
    pub node: NodeId,
    /// All must have ended, each in an accepted status.
    pub after: Vec<After>,
    /// Looked at when the dependencies are met; false skips the child.
    pub condition: Option<ExprId>,
    /// Children that [`Graph::pick`] takes for alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// Index into [`Graph::children`].
    pub child: u32,
    pub accepts: StatusSet,
}

/// How the children's statuses make the graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// By the children nobody waits for: failed, timed out, else succeeded. A skipped one is replaced by those it waited for.
    Leaves,
    /// Any failed child fails the graph.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// What does not depend on the failed child goes on.
    Continue,
    /// The rest is cancelled.
    CancelRest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Branch {
    /// The value that [`Test::Equals`] compares with.
    pub on: Option<ExprId>,
    /// The first that holds is taken.
    pub cases: Vec<Case>,
    pub otherwise: Option<NodeId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    pub test: Test,
    pub node: NodeId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Test {
    /// A condition.
    When(ExprId),
    /// The branch's value equals this one, without any conversion.
    Equals(ExprId),
}
