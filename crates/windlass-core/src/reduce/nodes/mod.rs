//! One file a node kind: how each comes to life and ends. Each begins with its transition table; what all kinds have in
//! common is in the table of [`frames`](super::frames).

mod suspension;
mod side_outputs;
mod branch;
mod call;
mod effect;
mod graph;
mod entered_node;
mod lease;
mod mail;
mod task_names;
mod net;
mod pipeline;
mod reply;
mod rules;
mod wait;

pub(in crate::reduce) use task_names::TaskNames;
pub(in crate::reduce) use pipeline::with_label;
