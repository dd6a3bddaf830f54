//! Measures the engine's performance targets: each benchmark is best of several, as a ratio where there is a
//! reference.
//!
//! `cargo xtask bench` runs all; `cargo xtask bench a b` only those. Absolute times on a shared machine are
//! unreliable: look at the ratios.

mod counts;
mod definitions;
mod disk;
mod durable;
mod engine;
mod expressions;
mod http;
mod overdue;
mod peers;
mod playbooks;
mod program;
mod readers;
mod reducer;
mod sample;
mod served;
mod steps;
mod trees;
mod work;
mod workloads;

use std::process::ExitCode;

struct Benchmark {
    key: &'static str,
    description: &'static str,
    target: &'static str,
    measure: fn() -> Vec<String>,
}

const BENCHMARKS: [Benchmark; 30] = [
    Benchmark {
        key: "a",
        description: "iterations of a compute-only until loop, one core",
        target: "300,000 iterations/s",
        measure: reducer::iterations,
    },
    Benchmark {
        key: "b",
        description: "durable loop, one no-op effect per iteration",
        target: "70 % of the disk's sync rate",
        measure: durable::effect_iterations,
    },
    Benchmark {
        key: "bu",
        description: "the same without syncs",
        target: "(cost of an iteration besides the disk)",
        measure: durable::unsynced_iterations,
    },
    Benchmark {
        key: "bh",
        description: "durable loop, one local HTTP call per iteration",
        target: "(reported separately)",
        measure: durable::http_iterations,
    },
    Benchmark {
        key: "c",
        description: "20,000 runs of 5 durable steps",
        target: "20,000 steps/s",
        measure: durable::many_runs,
    },
    Benchmark {
        key: "d",
        description: "foreach over 100,000 items, concurrency 100",
        target: "50,000 items/s, flat memory",
        measure: durable::items,
    },
    Benchmark {
        key: "ot",
        description: "100,000 timers that became due while no process was running",
        target: "15 s",
        measure: overdue::timers,
    },
    Benchmark {
        key: "e",
        description: "10 million iterations in one durable run",
        target: "under 100 MB, journal bounded",
        measure: durable::ten_million,
    },
    Benchmark {
        key: "f",
        description: "restart after 1 million iterations",
        target: "under 100 ms to the next iteration",
        measure: durable::restart,
    },
    Benchmark {
        key: "g",
        description: "100,000 waiting runs",
        target: "under 1 KB resident each",
        measure: durable::waiting_runs,
    },
    Benchmark {
        key: "gs",
        description: "21,500 waiting runs, evicted as on a server",
        target: "under 1 KB resident each, also before their eviction",
        measure: durable::waiting_runs_as_served,
    },
    Benchmark {
        key: "h",
        description: "cost of a tick, iteration 1,000,000 against iteration 100",
        target: "ratio under 1.1",
        measure: reducer::flatness,
    },
    Benchmark {
        key: "i",
        description: "cold start of the program to the first run done",
        target: "under 50 ms",
        measure: program::cold_start,
    },
    Benchmark {
        key: "j",
        description: "one condition of four calls, next to and inside values of 10 MB",
        target: "under 1 µs each, not growing",
        measure: expressions::condition,
    },
    Benchmark {
        key: "k",
        description: "iterations of a playbook's loop, no-op pipeline",
        target: "50,000 iterations/s",
        measure: playbooks::noop_iterations,
    },
    Benchmark {
        key: "l",
        description: "iterations of a playbook's loop, one python task",
        target: "2,000 iterations/s",
        measure: playbooks::python_iterations,
    },
    Benchmark {
        key: "m",
        description: "iterations of a playbook's loop, one local HTTP call, 64 in flight",
        target: "5,000 requests/s",
        measure: playbooks::http_iterations,
    },
    Benchmark {
        key: "n",
        description: "cost of an iteration, 100 to 1,000,000 items, 100 MB of them in the end",
        target: "flat",
        measure: playbooks::flat_iterations,
    },
    Benchmark {
        key: "o",
        description: "steps that send each other events, in memory, one core",
        target: "300,000 steps/s, linear",
        measure: steps::loop_in_memory,
    },
    Benchmark {
        key: "p",
        description: "a fan-out of 1,000 over 100 workers and its join, in memory",
        target: "5 ms",
        measure: steps::fan_out_in_memory,
    },
    Benchmark {
        key: "q",
        description: "100 concurrent durable runs, loops of steps that send each other events",
        target: "10,000 steps/s",
        measure: steps::durable_loops,
    },
    Benchmark {
        key: "r",
        description: "reload of a run with 100,000 ticks behind it",
        target: "50 ms",
        measure: steps::reload,
    },
    Benchmark {
        key: "s",
        description: "starts over HTTP, answered when durable, 64 connections, the clients on the same cores",
        target: "5,000 starts/s",
        measure: served::starts,
    },
    Benchmark {
        key: "t",
        description: "a start at half that rate, from the moment it was due",
        target: "p99 under 20 ms",
        measure: served::start_latency,
    },
    Benchmark {
        key: "u",
        description: "one busy run with readers of its events",
        target: "the same rate with 1,000",
        measure: readers::readers,
    },
    Benchmark {
        key: "v",
        description: "kill -9 of a server with 1,000 active runs, and its restart",
        target: "ready within 5 s",
        measure: served::recovery,
    },
    Benchmark {
        key: "w",
        description: "the same requests to a peer on this machine, if one is installed",
        target: "faster than it",
        measure: peers::restate,
    },
    Benchmark {
        key: "x",
        description: "cancellation of a run tree with 100,000 open runs",
        target: "acknowledged at once, done within seconds",
        measure: trees::cancel_tree,
    },
    Benchmark {
        key: "w1",
        description: "W1: one run, 1,000 sequential durable steps",
        target: "(compared with the disk's own rate)",
        measure: workloads::measure_w1,
    },
    Benchmark {
        key: "w2",
        description: "W2: 1,000 runs of 5 durable steps, all started concurrently",
        target: "(compared with the disk's own rate)",
        measure: workloads::measure_w2,
    },
];

/// Runs a mode meant for other programs; returns `None` if the arguments select none. `--modes` lists the others;
/// `cargo xtask compare` rejects a revision whose source does not contain `"--modes"`.
fn run_mode(arguments: &[String]) -> Option<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Some(match &words[..] {
        ["--modes"] => {
            println!("once counts work {}", work::WORKS.join(" "));
            true
        }
        ["--once", key, "--json"] => sample::print(key),
        ["--counts", workload, "--json"] => counts::print(workload),
        ["--workload", ..] => counts::child(&arguments[1..]),
        ["--work", name, times] => times.parse().is_ok_and(|times| work::run(name, times)),
        _ => return None,
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(done) = run_mode(&arguments) {
        return if done { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    // Each benchmark runs in a separate process, so that it measures only its own memory.
    if let [flag, key] = &arguments[..]
        && flag == "--one"
    {
        if let Some(benchmark) = BENCHMARKS.iter().find(|candidate| candidate.key == key) {
            (benchmark.measure)().iter().for_each(|line| println!("    {line}"));
        }
        return ExitCode::SUCCESS;
    }
    if let Some(("--readers", rest)) = arguments.split_first().map(|(flag, rest)| (flag.as_str(), rest)) {
        if let Err(why) = readers::child(rest) {
            eprintln!("{why}");
        }
        return ExitCode::SUCCESS;
    }
    for benchmark in
        BENCHMARKS.iter().filter(|candidate| arguments.is_empty() || arguments.iter().any(|key| key == candidate.key))
    {
        println!("({}) {} — target: {}", benchmark.key, benchmark.description, benchmark.target);
        let program = std::env::current_exe().expect("the path of this program");
        let status = std::process::Command::new(program).args(["--one", benchmark.key]).status();
        if !status.is_ok_and(|status| status.success()) {
            println!("    failed");
        }
    }
    ExitCode::SUCCESS
}
