//! What the tests stand on: a tiny language, plans by hand and by chance, a world with virtual time, and an interpreter
//! that is too simple to be wrong. Every test file uses a part of it.
#![allow(dead_code, unused_imports, clippy::unwrap_used)]

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod language;
pub(crate) mod looped;
pub(crate) mod mail;
pub(crate) mod naive;
pub(crate) mod observed_event;
pub(crate) mod random_plan;
pub(crate) mod rng;
pub(crate) mod sim;
pub(crate) mod steps;
pub(crate) mod values;
pub(crate) mod world;

pub(crate) use build::*;
pub(crate) use language::json;
pub(crate) use observed_event::ObservedEvent;
pub(crate) use sim::Sim;
pub(crate) use world::Reply;

/// So many cases, or as many times more as `WINDLASS_TEST_FACTOR` says.
pub(crate) fn cases(count: u32) -> proptest::prelude::ProptestConfig {
    let factor = std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    proptest::prelude::ProptestConfig { cases: count * factor, failure_persistence: None, ..Default::default() }
}
