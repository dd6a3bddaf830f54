//! One file a node kind: how each comes to life and ends.

mod branch;
mod budget;
mod call;
mod graph;
mod looks;
mod loop_end;
mod looping;
mod net;
mod pipeline;
mod results;
mod wait;
