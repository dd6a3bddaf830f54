//! What the tests stand on: a tiny language, plans by hand and by chance, a world with virtual time, and an interpreter
//! that is too simple to be wrong. Every test file uses a part of it.
#![allow(dead_code, unused_imports)]
#![allow(clippy::unwrap_used)]

pub mod build;
pub mod check;
pub mod language;
pub mod naive;
pub mod random_plan;
pub mod rng;
pub mod sim;
pub mod values;
pub mod world;

pub use build::*;
pub use language::json;
pub use sim::Sim;
pub use world::Reply;
