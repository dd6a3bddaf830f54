//! Counts the writes and syncs of a workload exactly, from the system calls on the store's files.
//!
//! The workload runs in a child process under `strace`, never during a timed measurement: tracing slows system calls
//! down. Only calls between the two marks count, so that opening and closing the store is left out. A mark is an
//! attempt to open a file of a known name, which the trace shows at its position among the other calls.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::disk::BenchFolder;
use crate::workloads;

pub(crate) const BEGIN: &str = "measured-part-begins";
pub(crate) const END: &str = "measured-part-ends";

const SYNCS: [&str; 2] = ["fsync(", "fdatasync("];
const WRITES: [&str; 4] = ["write(", "pwrite64(", "writev(", "pwritev("];

const INSTALL: &str = "not counted: strace is not installed; `apt-get install strace` (or `dnf install strace`)";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SyscallCounts {
    pub syncs: u64,
    pub writes: u64,
}

/// Leaves a mark in the trace.
pub(crate) fn mark(folder: &Path, name: &str) {
    // The file does not exist: only the attempt matters.
    let _ = std::fs::File::open(folder.join(name));
}

/// Runs the workload in the child process: `--workload NAME FOLDER`.
pub(crate) fn child(arguments: &[String]) -> bool {
    let [name, folder] = arguments else { return false };
    workloads::run_in(name, Path::new(folder))
}

/// Runs a workload once under strace.
pub(crate) fn count(workload: &str) -> Result<SyscallCounts, String> {
    let folder = BenchFolder::new(&format!("{workload}-counted"));
    let directory = folder.path().canonicalize().map_err(|error| error.to_string())?;
    let trace = directory.join("trace");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-qq", "-e", "trace=fsync,fdatasync,write,pwrite64,writev,pwritev,openat", "-o"]);
    command.arg(&trace).arg(program).arg("--workload").arg(workload).arg(&directory);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(|_| INSTALL.to_owned())?;
    if !status.success() {
        return Err(format!("not counted: strace ended with {status}"));
    }
    let text = std::fs::read_to_string(&trace).map_err(|error| error.to_string())?;
    count_calls(&text, &directory.join("store").to_string_lossy())
}

/// Counts the calls on files below `store` between the marks.
fn count_calls(trace: &str, store: &str) -> Result<SyscallCounts, String> {
    let (_, rest) = trace.split_once(BEGIN).ok_or("not counted: the trace has no begin mark")?;
    let (measured, _) = rest.split_once(END).ok_or("not counted: the trace has no end mark")?;
    let below = format!("<{store}");
    let mut counts = SyscallCounts::default();
    // A call that another thread interrupts has a second line, `<... fdatasync resumed>`, which has no file.
    for line in measured.lines().filter(|line| line.contains(&below)) {
        let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        counts.syncs += u64::from(SYNCS.iter().any(|name| call.starts_with(name)));
        counts.writes += u64::from(WRITES.iter().any(|name| call.starts_with(name)));
    }
    Ok(counts)
}

/// Prints a line of JSON. Returns false if the calls could not be counted.
pub(crate) fn print(workload: &str) -> bool {
    match count(workload) {
        Ok(SyscallCounts { syncs, writes }) => println!(r#"{{"key":"{workload}","syncs":{syncs},"writes":{writes}}}"#),
        Err(why) => {
            eprintln!("{workload}: {why}");
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_on_the_store_between_the_marks_count() {
        let trace = "\
7 pwrite64(4</b/store/run.db>, \"x\", 8, 0) = 8
7 openat(AT_FDCWD, \"/b/measured-part-begins\", O_RDONLY) = -1 ENOENT
7 write(4</b/store/run.db-wal>, \"x\", 8) = 8
8 pwrite64(4</b/store/run.db-wal>, \"x\", 8, 0 <unfinished ...>
7 fdatasync(4</b/store/run.db-wal>) = 0
8 <... pwrite64 resumed>) = 8
7 write(2</dev/null>, \"x\", 1) = 1
7 openat(AT_FDCWD, \"/b/measured-part-ends\", O_RDONLY) = -1 ENOENT
7 fsync(4</b/store/run.db>) = 0
";
        assert_eq!(count_calls(trace, "/b/store"), Ok(SyscallCounts { syncs: 1, writes: 2 }));
        assert!(count_calls("", "/b/store").is_err());
    }
}
