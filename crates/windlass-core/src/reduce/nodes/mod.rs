//! One file a node kind: how each comes to life and ends. Each begins with its transition table; what all kinds have in
//! common is in the table of [`frames`](super::frames).

mod branch;
mod call;
mod effect;
mod entered_node;
mod graph;
mod lease;
mod mail;
mod net;
mod pipeline;
mod reply;
mod rules;
mod side_outputs;
mod suspension;
mod task_names;
mod wait;

pub(in crate::reduce) use pipeline::with_label;
pub(in crate::reduce) use task_names::TaskNames;
