//! One file a node kind: how each comes to life and ends.

mod branch;
mod call;
mod graph;
mod loop_end;
mod looping;
mod net;
mod pipeline;
mod results;
mod wait;
