//! The budgets of the first build: CPU time, and the size of the program.
//!
//! Only a line in the changelog may raise them: the newest one that says `build budget: N CPU-seconds, M MB` decides.

use std::fs;
use std::path::Path;

/// In CI the time may exceed its budget by this factor: the same build takes up to half as much CPU time again on a slower or
/// busier machine. `cargo xtask budget` alone allows nothing.
const CI_TOLERANCE: f64 = 1.5;

/// The line of the changelog that sets the budgets.
const LINE: &str = "build budget: ";

/// The budgets, as the changelog has them.
#[derive(Debug, PartialEq)]
struct BuildBudget {
    cpu_seconds: u64,
    megabytes: u64,
}

/// Builds the program as the README's first command does, in a folder of its own, and compares it with the budgets.
pub(crate) fn check(rest: &[String]) -> bool {
    let tolerance = if rest.iter().any(|argument| argument == "--ci") { CI_TOLERANCE } else { 1.0 };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    let Some(budget) = read_budget(&changelog) else {
        println!("CHANGELOG.md has no line `{LINE}N CPU-seconds, M MB`");
        return false;
    };
    let target = root.join("target/budget");
    if let Err(error) = fs::remove_dir_all(&target)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        println!("could not remove {}: {error}", target.display());
        return false;
    }
    let Some(before) = children_cpu_seconds() else {
        println!("the CPU time of child processes cannot be read on this system: the budgets are not checked");
        return false;
    };
    let folder = target.display().to_string();
    let built = crate::cargo(&["build", "--release", "--package", "windlass-cli", "--target-dir", &folder]);
    let seconds = children_cpu_seconds().map(|after| after - before);
    built && compare(&budget, tolerance, seconds, &target.join("release/windlass"))
}

fn compare(budget: &BuildBudget, tolerance: f64, seconds: Option<u64>, program: &Path) -> bool {
    let (Some(seconds), Ok(about)) = (seconds, fs::metadata(program)) else {
        println!("{} was not built", program.display());
        return false;
    };
    let bytes = about.len();
    println!("CPU time of the first build: {seconds} s of {} s", budget.cpu_seconds);
    println!("size of the program: {:.1} MB of {} MB", bytes as f64 / 1e6, budget.megabytes);
    let within = seconds as f64 <= budget.cpu_seconds as f64 * tolerance && bytes <= budget.megabytes * 1_000_000;
    if !within {
        println!(
            "over budget: `cargo build --timings` and `cargo bloat` show why; a line in CHANGELOG.md may raise it"
        );
    }
    within
}

/// Reads the first line of the changelog with budgets, which is the newest.
fn read_budget(changelog: &str) -> Option<BuildBudget> {
    let rest = changelog.lines().find_map(|line| line.split_once(LINE)).map(|(_, rest)| rest)?;
    let (seconds, rest) = rest.split_once(" CPU-seconds, ")?;
    let (megabytes, _) = rest.split_once(" MB")?;
    Some(BuildBudget { cpu_seconds: seconds.parse().ok()?, megabytes: megabytes.parse().ok()? })
}

/// Returns the user and system time of all child processes that have ended.
fn children_cpu_seconds() -> Option<u64> {
    /// Clock ticks per second, which Linux fixes for this file.
    const TICKS: u64 = 100;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in parentheses, may contain spaces. `cutime` and `cstime` are fields 16 and 17.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(13).take(2).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some((user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_line_decides() {
        let changelog = "- x\n- build budget: 480 CPU-seconds, 40 MB\n- build budget: 9 CPU-seconds, 1 MB\n";
        assert_eq!(read_budget(changelog), Some(BuildBudget { cpu_seconds: 480, megabytes: 40 }));
        assert_eq!(read_budget("build budget: many CPU-seconds, 40 MB"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_time_of_children_is_known() {
        assert!(children_cpu_seconds().is_some());
    }
}
