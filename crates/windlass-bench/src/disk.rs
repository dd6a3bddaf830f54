//! The disk's own sync rate: the upper bound for durable iterations.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder on the measured disk, removed when dropped.
pub(crate) struct BenchFolder(PathBuf);

impl BenchFolder {
    pub(crate) fn new(name: &str) -> BenchFolder {
        let base = std::env::var_os("WINDLASS_BENCH_DIR").map_or_else(|| PathBuf::from("target/bench"), PathBuf::from);
        let path = base.join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("create the bench folder");
        BenchFolder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for BenchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Measures appends of 256 bytes, each with fdatasync, per second.
pub(crate) fn sync_rate(folder: &Path, time: Duration) -> f64 {
    let mut file = File::create(folder.join("appended")).expect("create the file");
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time {
        file.write_all(&[7; 256]).expect("the disk takes bytes");
        file.sync_data().expect("the disk syncs");
        count += 1;
    }
    f64::from(count) / begun.elapsed().as_secs_f64()
}

/// Returns the resident memory of this process in bytes.
pub(crate) fn resident() -> u64 {
    field("VmRSS:")
}

pub(crate) fn resident_peak() -> u64 {
    field("VmHWM:")
}

fn field(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}
