//! Plants secrets wherever secrets come from, and workflows use them against services that echo everything they
//! receive. Then the tests search for them in everything that a server and its workers store, answer, print or send.

#[path = "../support/mod.rs"]
mod support;

mod everywhere;
mod forms;
mod run_tree;
mod services;
mod worker;
mod world;
