//! Nodes that wait for each other, and choices between nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ExprId, NodeId};
use crate::{Status, StatusSet};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    pub children: Vec<GraphChild>,
    /// How many children at once; None is no limit.
    pub max_concurrency: Option<u32>,
    pub ending: GraphStatusRule,
    pub on_failure: GraphFailurePolicy,
    /// The status of a child whose dependencies ended in a way it does not accept.
    pub unmet: Status,
    /// Who waits for a child that never ran because of its own dependencies does not run either, whatever it accepts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skips_transitively: bool,
    /// Which of the children that could start does, when not all of them can.
    #[serde(default, skip_serializing_if = "PickPolicy::is_ready")]
    pub pick: PickPolicy,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PickPolicy {
    /// In the order in which they became ready, and of those in the order of the plan.
    #[default]
    Ready,
    /// From each group in turn.
    RoundRobin,
    /// From the group of which the fewest are running.
    LeastBusy,
}

impl PickPolicy {
    fn is_ready(&self) -> bool {
        *self == PickPolicy::Ready
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphChild {
    pub node: NodeId,
    /// All must have ended, each in an accepted status.
    pub after: Vec<GraphDependency>,
    /// Looked at when the dependencies are met; false skips the child.
    pub condition: Option<ExprId>,
    /// Children that [`Graph::pick`] takes for alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphDependency {
    /// Index into [`Graph::children`].
    pub child: u32,
    pub accepts: StatusSet,
}

/// How the children's statuses make the graph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphStatusRule {
    /// By the children nobody waits for: failed, timed out, else succeeded. A skipped one is replaced by those it waited for.
    Leaves,
    /// Any failed child fails the graph.
    Any,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphFailurePolicy {
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
    pub cases: Vec<BranchCase>,
    pub otherwise: Option<NodeId>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BranchCase {
    pub test: BranchTest,
    pub node: NodeId,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchTest {
    /// A condition.
    When(ExprId),
    /// The branch's value equals this one, without any conversion.
    Equals(ExprId),
}
