//! Steps inside the quiet iterations of a long loop: counted here, since they publish no events of their own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::StepCounts;
use crate::plan::NodeId;

/// The ended runs of one step or task inside quiet iterations that no event has reported yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuietSteps {
    /// The node of the step.
    pub node: NodeId,
    /// The task, if it is counted apart from its step.
    pub task: Option<u32>,
    /// The counts, with the path of the run that ended first.
    pub counts: StepCounts,
}

impl QuietSteps {
    pub(crate) fn new(node: NodeId, task: Option<u32>, path: Arc<str>) -> QuietSteps {
        QuietSteps { node, task, counts: StepCounts { path, ..StepCounts::default() } }
    }
}
