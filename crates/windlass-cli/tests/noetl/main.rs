//! NoETL playbooks through the real program, with a real Postgres and a service on loopback.

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod concurrency;
mod examples;
mod gate;
mod kills;
mod world;
