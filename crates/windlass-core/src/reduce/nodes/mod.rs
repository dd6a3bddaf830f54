//! One file per node kind: how its frames begin and end. Each begins with its transition table; the table of
//! [`frames`](super::frames) covers what all kinds have in common.

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
