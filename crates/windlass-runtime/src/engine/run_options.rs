//! The options that the row of a run holds.

use std::sync::Arc;

use windlass_value::BlobHash;

use super::RestartOrigin;

/// The options under which a run was started, for resuming it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunOptions {
    /// The run has a virtual clock.
    pub virtual_time: bool,
    /// The hash of the input, to recognize a repeated start.
    pub input: BlobHash,
    /// For a child run: the id of its parent run, and the number of the call in it.
    pub parent: Option<(Arc<str>, u64)>,
    /// The number of calls that this run is nested in.
    pub depth: u64,
    /// The hash of the complete input of the delivery that this run is part of.
    pub delivery: Option<BlobHash>,
    /// The root run of the call tree, if it is another run.
    pub trace: Option<Arc<str>>,
    /// The run is in-memory only and cannot be resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_memory: bool,
    /// The run that this run was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<RestartOrigin>,
    /// The id of the run tree: shared with the runs that this run was forked from or called by, and with no other run,
    /// whatever their ids.
    pub run_tree: Arc<str>,
    /// The mock file that answered in place of tools when the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mock_file: Option<Arc<str>>,
}
