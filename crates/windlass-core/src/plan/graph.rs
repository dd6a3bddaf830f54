//! Graphs of nodes with dependencies, and branches.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ExprId, NodeId};
use crate::{Status, StatusSet};

/// Children that run as soon as their dependencies have ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Graph {
    /// The children, in the order of the definition.
    pub children: Vec<GraphChild>,
    /// The maximum number of concurrent children; None is no limit.
    pub max_concurrency: Option<u32>,
    /// Decides the status of the graph.
    pub ending: GraphStatusRule,
    /// The treatment of the other children when one fails.
    pub on_failure: GraphFailurePolicy,
    /// The status of a child whose dependencies ended with a status that it does not accept.
    pub unmet: Status,
    /// A dependent of a child that never ran because of its own dependencies does not run either, whatever it accepts.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skips_transitively: bool,
    /// Selects the next of the ready children when not all of them can start.
    #[serde(default, skip_serializing_if = "PickPolicy::is_ready")]
    pub pick: PickPolicy,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The order in which ready children start when there are more than may run concurrently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PickPolicy {
    /// In the order in which they became ready; among those, in plan order.
    #[default]
    Ready,
    /// Alternates between the groups.
    RoundRobin,
    /// From the group with the fewest running children.
    LeastBusy,
}

impl PickPolicy {
    fn is_ready(&self) -> bool {
        *self == PickPolicy::Ready
    }
}

/// A child of a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphChild {
    /// The node to run.
    pub node: NodeId,
    /// All must have ended, each with an accepted status.
    pub after: Vec<GraphDependency>,
    /// Evaluated when the dependencies are met; false skips the child.
    pub condition: Option<ExprId>,
    /// Children of one group are equivalent for [`Graph::pick`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
}

/// A dependency of a child on another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphDependency {
    /// Index into [`Graph::children`].
    pub child: u32,
    /// The statuses with which the other child may end.
    pub accepts: StatusSet,
}

/// Derives the graph's status from the children's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphStatusRule {
    /// By the children without dependents: failed, timed out, else succeeded. A skipped child is replaced by its
    /// dependencies.
    Leaves,
    /// Any failed child fails the graph.
    Any,
}

/// The effect of a failed child on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GraphFailurePolicy {
    /// Children that do not depend on the failed child continue.
    Continue,
    /// The remaining children are cancelled.
    CancelRest,
}

/// Runs the node of the first case that holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Branch {
    /// The value that [`BranchTest::Equals`] compares with.
    pub on: Option<ExprId>,
    /// The first case that holds is taken.
    pub cases: Vec<BranchCase>,
    /// The node to run if no case holds; None skips all.
    pub otherwise: Option<NodeId>,
}

/// A case of a branch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BranchCase {
    /// The test for this case.
    pub test: BranchTest,
    /// The node to run if the test holds.
    pub node: NodeId,
}

/// The test of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BranchTest {
    /// A condition.
    When(ExprId),
    /// The branch's value equals this one, without any conversion.
    Equals(ExprId),
}
