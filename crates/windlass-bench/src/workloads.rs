//! W1 and W2: the workloads used to compare with other engines.
//!
//! - W1: one run, 1,000 sequential durable steps in a loop, each durable before the next.
//! - W2: 1,000 runs of five durable steps each, all started concurrently.
//!
//! Each is reported beside the disk's own rate: appends of 256 bytes, each with fdatasync, to a growing file and to
//! one whose blocks are already allocated; for W2 appends of many records with one fdatasync for all of them.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use windlass_runtime::RunStartOptions;
use windlass_store_sqlite::SyncMode;
use windlass_value::Value;

use crate::counts::{self, SyscallCounts};
use crate::definitions;
use crate::disk::{self, BenchFolder};
use crate::durable;
use crate::engine::{engine, options, runtime, sqlite};

pub(crate) const W1_STEPS: u64 = 1_000;
pub(crate) const W2_RUNS: u64 = 1_000;
pub(crate) const W2_STEPS: u64 = 5;

const ROUNDS: usize = 7;

/// Duration of the disk measurement in each round.
const DISK_TIME: Duration = Duration::from_millis(400);

/// Bytes of a record.
const RECORD_BYTES: usize = 256;

/// Records that share a sync in the measurement of grouped records.
const GROUP_RECORDS: usize = 100;

/// Returns the steps per second of W1.
pub(crate) fn w1() -> f64 {
    let folder = BenchFolder::new("w1");
    W1_STEPS as f64 / run_w1(folder.path()).as_secs_f64()
}

/// Returns the steps per second of W2.
pub(crate) fn w2() -> f64 {
    let folder = BenchFolder::new("w2");
    (W2_RUNS * W2_STEPS) as f64 / run_w2(folder.path()).as_secs_f64()
}

/// Runs a workload once in this folder, to count its system calls. Returns false if there is no such workload.
pub(crate) fn run_in(name: &str, folder: &Path) -> bool {
    match name {
        "w1" => run_w1(folder),
        "w2" => run_w2(folder),
        _ => return false,
    };
    true
}

fn run_w1(folder: &Path) -> Duration {
    durable::time_run(folder, definitions::effect_loop(W1_STEPS, definitions::NOOP), SyncMode::Full)
}

fn run_w2(folder: &Path) -> Duration {
    runtime().block_on(async {
        let engine = engine(sqlite(folder, SyncMode::Full), options());
        let (plan, _) = engine.add_plan(definitions::five_steps()).expect("the plan loads");
        counts::mark(folder, counts::BEGIN);
        let begun = Instant::now();
        let mut runs = JoinSet::new();
        for _ in 0..W2_RUNS {
            let engine = engine.clone();
            runs.spawn(async move {
                let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
                let mut handle = engine.start(plan, Value::Null, options).await.expect("the run starts");
                handle.wait().await.expect("the run ends");
            });
        }
        while let Some(done) = runs.join_next().await {
            done.expect("no run panics");
        }
        let took = begun.elapsed();
        counts::mark(folder, counts::END);
        took
    })
}

pub(crate) fn measure_w1() -> Vec<String> {
    let rounds = rounds("w1-disk", w1, |folder| [growing(folder), preallocated(folder)]);
    let [ours, growing, preallocated] = rounds;
    let (rate, disk, laid_out) = (median(&ours), median(&growing), median(&preallocated));
    let mut lines = vec![
        format!("{} steps/s; load average {}", spread(&ours), load()),
        format!("append and fdatasync, growing file: {}/s; steps are {:.2} of it", spread(&growing), rate / disk),
        format!("the same, preallocated file: {}/s; steps are {:.2} of it", spread(&preallocated), rate / laid_out),
    ];
    lines.push(format_counts("w1", W1_STEPS));
    lines
}

pub(crate) fn measure_w2() -> Vec<String> {
    let rounds = rounds("w2-disk", w2, |folder| [grouped(folder), growing(folder)]);
    let [ours, grouped, growing] = rounds;
    let rate = median(&ours);
    let mut lines = vec![
        format!("{} steps/s; load average {}", spread(&ours), load()),
        format!(
            "records in groups of {GROUP_RECORDS}: {}/s; steps are {:.2} of it",
            spread(&grouped),
            rate / median(&grouped)
        ),
        format!(
            "append and fdatasync, growing file: {}/s; steps are {:.2} of it",
            spread(&growing),
            rate / median(&growing)
        ),
    ];
    lines.push(format_counts("w2", W2_RUNS * W2_STEPS));
    lines
}

/// Alternates the workload and the disk, so that a busy neighbour disturbs both.
fn rounds(name: &str, ours: fn() -> f64, disk: impl Fn(&Path) -> [f64; 2]) -> [Vec<f64>; 3] {
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let folder = BenchFolder::new(name);
        let [first, second] = disk(folder.path());
        drop(folder);
        for (rates, rate) in all.iter_mut().zip([ours(), first, second]) {
            rates.push(rate);
        }
    }
    all
}

fn format_counts(workload: &str, steps: u64) -> String {
    match counts::count(workload) {
        Ok(SyscallCounts { syncs, writes }) => format!(
            "{:.3} syncs and {:.3} writes a step ({syncs} and {writes} in all)",
            syncs as f64 / steps as f64,
            writes as f64 / steps as f64
        ),
        Err(why) => why,
    }
}

fn growing(folder: &Path) -> f64 {
    disk::sync_rate(folder, DISK_TIME)
}

/// Measures the same on a file whose blocks are already written: a sync then has no metadata to write.
fn preallocated(folder: &Path) -> f64 {
    const BYTES: usize = 4 << 20;
    let mut file = File::create(folder.join("preallocated")).expect("create the file");
    file.write_all(&vec![0; BYTES]).and_then(|()| file.sync_all()).expect("the disk takes bytes");
    file.seek(SeekFrom::Start(0)).expect("a file has a start");
    let (begun, mut count) = (Instant::now(), 0_usize);
    while begun.elapsed() < DISK_TIME {
        if (count + 1) * RECORD_BYTES > BYTES {
            break;
        }
        file.write_all(&[7; RECORD_BYTES]).and_then(|()| file.sync_data()).expect("the disk takes bytes");
        count += 1;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

/// Measures many records with one write and one sync for all of them.
fn grouped(folder: &Path) -> f64 {
    let mut file = File::create(folder.join("grouped")).expect("create the file");
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < DISK_TIME {
        file.write_all(&[7; RECORD_BYTES * GROUP_RECORDS])
            .and_then(|()| file.sync_data())
            .expect("the disk takes bytes");
        count += GROUP_RECORDS;
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn median(rates: &[f64]) -> f64 {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Formats median, lowest and highest.
fn spread(rates: &[f64]) -> String {
    let low = rates.iter().copied().fold(f64::MAX, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    format!("{:.0} ({low:.0} to {high:.0} in {} rounds)", median(rates), rates.len())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
