//! Secrets are planted wherever secrets come from, and workflows use them against services that tell back all they were
//! told. Then they are looked for in everything that a server and its workers keep, answer, say or send.

#[path = "../support/mod.rs"]
mod support;

mod everywhere;
mod forms;
mod run_tree;
mod services;
mod worker;
mod world;
