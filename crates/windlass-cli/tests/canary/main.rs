//! Plants a secret in every source of secrets and runs workflows that send them to services that echo everything they
//! receive. Then searches for the secrets in everything that a server and its workers store, answer, print or send.

#[path = "../support/mod.rs"]
mod support;

mod everywhere;
mod forms;
mod run_tree;
mod services;
mod worker;
mod world;
