//! One file a node kind: how each comes to life and ends.

mod branch;
mod budget;
mod call;
mod effect;
mod graph;
mod looks;
mod loop_end;
mod looping;
mod net;
mod pipeline;
mod reply;
mod results;
mod wait;
