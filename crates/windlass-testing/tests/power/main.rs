//! Power losses under the real program. kill -9 leaves the system's cache intact and so cannot see a missing sync. A
//! preloaded library records every change of the store and everything that leaves the program; the disk is rebuilt
//! with unsynced writes dropped, torn and reordered, and the real program has to recover from it.
#![cfg(target_os = "linux")]

mod answers;
mod cuts;
mod disk;
mod image;
mod log;
mod loss;
mod one_run;
mod recording;
mod server;

use std::path::PathBuf;

use windlass_testing::crash::SeededRng;
use windlass_testing::test_service::TestService;

use crate::cuts::{Cut, cut_often, find_violation, sample};
use crate::disk::Omission;
use crate::one_run::OneRun;
use crate::recording::Shim;
use crate::server::Server;

/// SQLite's write-ahead log.
const LOG: &str = "store/windlass.db-wal";

/// The cuts of each scenario.
const CUTS: u64 = 50;

/// Returns the multiplier of the number of cuts: nightly runs cut more often.
fn factor() -> u64 {
    std::env::var("WINDLASS_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

fn seed() -> u64 {
    let seed = std::env::var("WINDLASS_POWER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("WINDLASS_POWER_SEED={seed}");
    seed
}

#[test]
fn a_run_survives_power_losses() {
    let (shim, service) = (Shim::compile(), TestService::start().expect("the service starts"));
    let (scenario, recording) = OneRun::record(&shim, &service);
    let tally = cut_often(&shim, &scenario, &recording, CUTS * factor(), seed());
    println!("one run: {tally}");
    assert!(tally.losses > tally.cuts / 3, "hardly anything was lost: {tally}");
    // How many there are of each is chance: the least that cannot be missing is one.
    assert!(tally.lost_commits > 0, "no commit was lost: {tally}");
    assert!(tally.in_checkpoints > 0 && tally.second_cuts > 0, "{tally}");
}

#[test]
fn a_server_survives_power_losses() {
    let (shim, service) = (Shim::compile(), TestService::start().expect("the service starts"));
    let (scenario, recording) = Server::record(&shim, &service);
    let tally = cut_often(&shim, &scenario, &recording, CUTS * factor(), seed());
    println!("server: {tally}");
    // Most commits are acknowledged before the next write, so few cuts can lose one that is not: `one_run` does.
    assert!(tally.losses > tally.cuts / 3, "hardly anything was lost: {tally}");
}

/// The checks find a program that leaves out a kind of syncs, or a single one.
#[test]
fn a_missing_sync_is_found() {
    const MAX_CUTS: u64 = 60;
    let (shim, service) = (Shim::compile(), TestService::start().expect("the service starts"));
    let (scenario, recording) = OneRun::record(&shim, &service);
    let mut random = SeededRng(seed());
    let all = 1..recording.records.len() + 1;
    // The log has everything that the database lacks, until it starts over.
    let after_checkpoint = recording.last_log_header()..all.end;
    let log_syncs = recording.syncs(LOG);
    let middle = log_syncs.len() / 2;
    let one = log_syncs[middle - 1]..log_syncs[middle];
    let mutants = [
        (LOG, None, all.clone()),
        (LOG, Some(middle as u64), one),
        ("store/windlass.db", None, after_checkpoint),
        ("store/windlass.db.new", None, all.clone()),
        ("store", None, all),
    ];
    for (path, only, range) in mutants {
        let cuts = sample(&recording, range, MAX_CUTS, &mut random);
        let found = find_violation(&shim, &scenario, &recording, Omission { path, only }, &cuts);
        let syncs = only.map_or("never synced".to_owned(), |only| format!("not synced for the {only}th time"));
        let (cuts, problem) = found.unwrap_or_else(|| panic!("no cut shows that {path} is {syncs}"));
        println!("{path} is {syncs}: found by cut {cuts}: {problem:.160}");
    }
}

/// Repeats a saved case.
#[test]
fn replay() {
    let Some(folder) = std::env::var_os("WINDLASS_POWER_REPLAY").map(PathBuf::from) else { return };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a saved case");
    let (shim, port) = (Shim::compile(), read("port").parse().expect("a port"));
    let service = TestService::start_at(port).expect("the port of the recording is free");
    let cut = read("cut");
    let [name, at, seed] = cut.split(' ').collect::<Vec<_>>()[..] else { panic!("not a cut: {cut}") };
    let cut = Cut { at: at.parse().expect("a number"), seed: seed.parse().expect("a number") };
    let recording = recording::Recording::load(&folder);
    let outcome = match name {
        one_run::NAME => cuts::check_again(&shim, &OneRun::load(&shim, &service, &folder), &recording, cut),
        server::NAME => cuts::check_again(&shim, &Server::load(&shim, &service, &folder), &recording, cut),
        _ => panic!("an unknown scenario: {name}"),
    };
    outcome.unwrap_or_else(|problem| panic!("{problem}"));
}
