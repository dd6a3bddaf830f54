//! One file a node kind: how each comes to life and ends. Each begins with its transition table; what all kinds have in
//! common is in the table of [`frames`](super::frames).

mod suspension;
mod side_outputs;
mod branch;
mod call;
mod effect;
mod graph;
mod inner;
mod lease;
mod mail;
mod names;
mod net;
mod pipeline;
mod reply;
mod rules;
mod wait;

pub(in crate::reduce) use names::TaskNames;
pub(in crate::reduce) use pipeline::with_label;
