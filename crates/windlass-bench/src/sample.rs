//! One short sample of a benchmark, for programs: `windlass-bench --once KEY --json`.
//!
//! A sample takes seconds, so that two revisions can be measured alternately. It is one measurement, not the best of
//! several: a comparison takes many samples and looks at their medians.

use std::time::Duration;

use crate::{durable, playbooks, reducer, served, steps, workloads};

/// A benchmark in its short form.
pub(crate) struct Sample {
    pub key: &'static str,
    pub unit: &'static str,
    measure: fn() -> Result<f64, String>,
}

pub(crate) const SAMPLES: [Sample; 8] = [
    Sample { key: "a", unit: "iterations/s", measure: || Ok(reducer::iteration_rate(500_000)) },
    Sample { key: "c", unit: "steps/s", measure: || Ok(durable::run_rate(4_000)) },
    Sample { key: "k", unit: "iterations/s", measure: || Ok(playbooks::noop_rate(50_000)) },
    Sample { key: "o", unit: "steps/s", measure: || Ok(steps::memory_rate(300_000)) },
    Sample { key: "q", unit: "steps/s", measure: || Ok(steps::durable_rate(100, 100)) },
    Sample { key: "s", unit: "starts/s", measure: || served::start_rate(Duration::from_secs(2)) },
    Sample { key: "w1", unit: "steps/s", measure: || Ok(workloads::w1()) },
    Sample { key: "w2", unit: "steps/s", measure: || Ok(workloads::w2()) },
];

/// Measures once and prints a line of JSON. Returns false if there is no such benchmark or it could not be measured.
pub(crate) fn print(key: &str) -> bool {
    let Some(sample) = SAMPLES.iter().find(|sample| sample.key == key) else {
        eprintln!("`{key}` has no short form; there are: {}", SAMPLES.map(|sample| sample.key).join(" "));
        return false;
    };
    match (sample.measure)() {
        Ok(rate) => println!(r#"{{"key":"{key}","rate":{rate:.3},"unit":"{}"}}"#, sample.unit),
        Err(why) => {
            eprintln!("{key}: {why}");
            return false;
        }
    }
    true
}
