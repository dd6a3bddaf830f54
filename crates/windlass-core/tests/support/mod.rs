//! Shared test support: a small expression language, hand-written and random plans, a world with virtual time, and a
//! naive reference interpreter. Every test file uses a part of it.
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

/// Returns a configuration with this number of cases, multiplied by `WINDLASS_TEST_FACTOR` if it is set.
pub(crate) fn cases(count: u32) -> proptest::prelude::ProptestConfig {
    let factor = std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    proptest::prelude::ProptestConfig { cases: count * factor, failure_persistence: None, ..Default::default() }
}
