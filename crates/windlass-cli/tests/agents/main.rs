//! Workflows of agents through the real program, with a scripted model over a real connection.

#[path = "../support/mod.rs"]
mod support;

mod documented;
mod examples;
mod kills;
mod people;
mod warnings;
mod world;
