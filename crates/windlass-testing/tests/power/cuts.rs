//! Cuts the power at sampled points of a recording, rebuilds the disk, and lets a scenario check it.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use windlass_testing::crash::SeededRng;

use crate::disk::{Disk, Image, Omission};
use crate::image;
use crate::log::Record;
use crate::loss::Loss;
use crate::recording::{DATABASE, Recording, Shim};

/// A workload, and the knowledge of how it must end.
pub(crate) trait Scenario {
    fn name(&self) -> &'static str;

    /// Lets the real program recover from what is on the disk now, after the power failed after `at` records. Fails if
    /// anything that had been answered is lost, and if the workload does not end as it must.
    fn check(&self, recording: &Recording, at: usize) -> Result<(), String>;

    /// Lets the real program recover and records that, for a second power loss. Not every scenario can.
    fn record_recovery(&self, recording: &Recording, at: usize) -> Option<Recording>;

    /// Saves what a replay needs beside the recording.
    fn save(&self, folder: &Path);
}

/// Counts of what the cuts did: without losses nothing would be shown.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) cuts: u64,
    /// Cuts in the middle of copying the log into the database.
    pub(crate) in_checkpoints: u64,
    /// Cuts after which unsynced bytes or names were missing.
    pub(crate) losses: u64,
    /// Cuts after which commits were missing that the program had written and not synced.
    pub(crate) lost_commits: u64,
    /// Cuts of a recovery from a cut.
    pub(crate) second_cuts: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { cuts, in_checkpoints, losses, lost_commits, second_cuts } = self;
        write!(
            out,
            "{cuts} cuts, {in_checkpoints} in checkpoints, {second_cuts} of a recovery; {losses} lost unsynced writes, \
             {lost_commits} lost commits that were not acknowledged"
        )
    }
}

/// The number of cuts of which one is followed by a second one, during the recovery.
const CUTS_PER_SECOND_CUT: u64 = 8;

/// One power loss: the number of records before it, and the seed of what it keeps.
#[derive(Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) at: usize,
    pub(crate) seed: u64,
}

/// Cuts at `count` sampled points, and cuts some recoveries again. Panics at the first violation, with a way to replay it.
pub(crate) fn cut_often(shim: &Shim, scenario: &dyn Scenario, recording: &Recording, count: u64, seed: u64) -> Tally {
    let mut random = SeededRng(seed);
    let mut tally = Tally::default();
    let cuts = sample(recording, 1..recording.records.len() + 1, count, &mut random);
    let check_cut = |tally: &mut Tally, recording: &Recording, cut: Cut, images: Images| {
        tally.add(shim, &images);
        shim.restore(&images.left);
        if let Err(problem) = check(scenario, recording, cut.at) {
            let replay = save(scenario, recording, cut);
            let loss = Loss::random(cut.seed, cut.at as u64);
            panic!("{}: the power failed after record {}; {loss}: {problem}\n{replay}", scenario.name(), cut.at);
        }
    };
    for_each(recording, &cuts, None, |cut, images| {
        let left = images.left.clone();
        check_cut(&mut tally, recording, cut, images);
        if tally.cuts % CUTS_PER_SECOND_CUT == 0 {
            shim.restore(&left);
            if let Some(recovery) = scenario.record_recovery(recording, cut.at) {
                let second = sample(&recovery, 1..recovery.records.len() + 1, 1, &mut random);
                for_each(&recovery, &second, None, |cut, images| {
                    check_cut(&mut tally, &recovery, cut, images);
                    true
                });
                tally.second_cuts += 1;
            }
        }
        true
    });
    tally
}

/// A program that does not even start is a violation too.
fn check(scenario: &dyn Scenario, recording: &Recording, at: usize) -> Result<(), String> {
    let checked = catch_unwind(AssertUnwindSafe(|| scenario.check(recording, at)));
    checked.unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().cloned();
        Err(message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

/// Returns the first violation that the checks find in a program that leaves out syncs, and the number of cuts it took.
pub(crate) fn find_violation(
    shim: &Shim,
    scenario: &dyn Scenario,
    recording: &Recording,
    omission: Omission,
    cuts: &[Cut],
) -> Option<(u64, String)> {
    let (mut tried, mut found) = (0, None);
    for_each(recording, cuts, Some(omission), |cut, images| {
        shim.restore(&images.left);
        tried += 1;
        found = check(scenario, recording, cut.at).err();
        found.is_none()
    });
    found.map(|problem| (tried, problem))
}

/// The disk after a cut.
pub(crate) struct Images {
    /// With everything that the system's cache had, as after kill -9.
    kept: Image,
    left: Image,
    in_checkpoint: bool,
}

/// Rebuilds the disk for each cut, in order, until `check` returns `false`.
fn for_each(
    recording: &Recording,
    cuts: &[Cut],
    omission: Option<Omission>,
    mut check: impl FnMut(Cut, Images) -> bool,
) {
    let mut disk = Disk::new(&recording.start, omission);
    let mut applied = 0;
    let mut cuts = cuts.to_vec();
    cuts.sort_by_key(|cut| cut.at);
    for cut in cuts {
        for record in &recording.records[applied..cut.at] {
            disk.apply(record).unwrap_or_else(|problem| panic!("{problem}"));
        }
        applied = cut.at;
        let images = Images {
            kept: disk.after(&Loss::nothing()),
            left: disk.after(&Loss::random(cut.seed, cut.at as u64)),
            in_checkpoint: disk.has_pending_file(DATABASE),
        };
        if !check(cut, images) {
            return;
        }
    }
}

/// Samples points of a range, in equal parts: in checkpoints if there are any, right before syncs, wherever something is
/// not synced, and anywhere.
pub(crate) fn sample(recording: &Recording, range: Range<usize>, count: u64, random: &mut SeededRng) -> Vec<Cut> {
    let mut disk = Disk::new(&recording.start, None);
    let [mut pending, mut in_checkpoints, mut before_syncs] = [const { Vec::new() }; 3];
    for (number, record) in recording.records.iter().enumerate() {
        let (before, after) = (number, number + 1);
        if matches!(record, Record::Synced { .. }) && range.contains(&before) {
            before_syncs.push(before);
        }
        disk.apply(record).unwrap_or_else(|problem| panic!("{problem}"));
        if range.contains(&after) && disk.has_pending_file(DATABASE) {
            in_checkpoints.push(after);
        }
        if range.contains(&after) && disk.has_pending() {
            pending.push(after);
        }
    }
    let any: Vec<usize> = range.collect();
    let choices = [in_checkpoints, before_syncs, pending, any.clone()];
    let cut = |number: u64| {
        let points = &choices[number as usize % choices.len()];
        let points = if points.is_empty() { &any } else { points };
        Cut { at: points[random.below(points.len() as u64) as usize], seed: random.below(u64::MAX) }
    };
    (0..count).map(cut).collect()
}

impl Tally {
    fn add(&mut self, shim: &Shim, images: &Images) {
        self.cuts += 1;
        self.in_checkpoints += u64::from(images.in_checkpoint);
        if images.kept != images.left {
            self.losses += 1;
            self.lost_commits += u64::from(commits(shim, &images.kept) > commits(shim, &images.left));
        }
    }
}

/// Returns the number of the newest row of the journal in a store. SQLite changes what it opens, so it opens a copy.
fn commits(shim: &Shim, image: &Image) -> Option<i64> {
    let scratch = shim.scratch();
    image::write(&scratch, image, None);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = rusqlite::Connection::open_with_flags(scratch.join("store").join(DATABASE), flags).ok()?;
    connection.query_row("SELECT coalesce(max(position), 0) FROM journal", [], |row| row.get(0)).ok()
}

/// Saves a failing case and returns how to replay it.
fn save(scenario: &dyn Scenario, recording: &Recording, cut: Cut) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("power-{}-{}", scenario.name(), cut.at));
    recording.save(&folder);
    scenario.save(&folder);
    std::fs::write(folder.join("cut"), format!("{} {} {}", scenario.name(), cut.at, cut.seed)).expect("it is written");
    format!(
        "replay it with WINDLASS_POWER_REPLAY={} cargo test -p windlass-testing --test power replay",
        folder.display()
    )
}

/// Checks one saved cut again.
pub(crate) fn check_again(shim: &Shim, scenario: &dyn Scenario, recording: &Recording, cut: Cut) -> Result<(), String> {
    let mut outcome = Ok(());
    for_each(recording, &[cut], None, |cut, images| {
        shim.restore(&images.left);
        println!("{}", Loss::random(cut.seed, cut.at as u64));
        outcome = check(scenario, recording, cut.at);
        false
    });
    outcome
}
