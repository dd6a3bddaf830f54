//! One file a node kind: how each comes to life and ends.

mod awaits;
mod beside;
mod branch;
mod budget;
mod call;
mod effect;
mod graph;
mod inner;
mod lease;
mod looks;
mod loop_end;
mod looping;
mod mail;
mod names;
mod net;
mod pipeline;
mod reply;
mod results;
mod rules;
mod wait;

pub(in crate::reduce) use budget::EXCEEDED;
pub(crate) use budget::usage;
pub(in crate::reduce) use names::TaskNames;
pub(in crate::reduce) use pipeline::with_label;
