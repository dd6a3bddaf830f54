//! What the tests stand on: a tiny language, plans by hand and by chance, a world with virtual time, and an interpreter
//! that is too simple to be wrong. Every test file uses a part of it.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

pub mod build;
pub mod check;
pub mod language;
pub mod looped;
pub mod mail;
pub mod naive;
pub mod random_plan;
pub mod rng;
pub mod seen;
pub mod sim;
pub mod steps;
pub mod values;
pub mod world;

pub use build::*;
pub use language::json;
pub use seen::SeenEvent;
pub use sim::Sim;
pub use world::Reply;

/// So many cases, or as many times more as `WINDLASS_TEST_FACTOR` says.
pub fn cases(count: u32) -> proptest::prelude::ProptestConfig {
    let factor = std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    proptest::prelude::ProptestConfig { cases: count * factor, failure_persistence: None, ..Default::default() }
}
