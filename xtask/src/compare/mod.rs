//! `cargo xtask compare REV [KEYS…] [--pairs N]`: compares this revision with another one.
//!
//! Both are checked out below `target/compare` and built in release mode. Three things are compared:
//!
//! 1. **Rates** of benchmarks of `cargo xtask bench` in a short form, from interleaved pairs (A B, B A, …), so that a
//!    busy neighbour disturbs both alike. A benchmark fails if its median ratio is below [`MIN_RATIO`] and the 95 %
//!    interval excludes 1.
//! 2. **Instructions** of deterministic single-threaded work under callgrind: they do not depend on the machine's load.
//!    More than [`MAX_INSTRUCTIONS`] times as many fail.
//! 3. **Syncs and writes** of W1 and W2, counted by strace. They must be equal. How many records of W2 share a sync
//!    depends on timing, so each is counted several times, and two counts are equal if their ranges overlap.
//!
//! In every ratio A is REV and B is HEAD: a rate above 1 is faster than REV, instructions below 1 are fewer.

mod measure;
mod revision;
mod statistics;

use std::path::Path;

use measure::{CallCounts, MeasuringTool};
use revision::Revision;
use statistics::{Interval, bootstrap, median, spread};

const DEFAULT_KEYS: [&str; 6] = ["a", "c", "k", "o", "q", "s"];
const DEFAULT_PAIRS: usize = 10;
const MIN_PAIRS: usize = 10;

/// Benchmarks that start the program as a server.
const SERVER_KEYS: [&str; 1] = ["s"];

/// The lowest ratio of rates that needs no explanation.
const MIN_RATIO: f64 = 0.95;

/// The highest ratio of instruction counts.
const MAX_INSTRUCTIONS: f64 = 1.02;

/// Deterministic work of `windlass-bench --work`.
const WORKS: [&str; 3] = ["reducer", "codec", "append"];

/// Number of times each workload's calls are counted. A checkpoint of the log can fall on either side of a mark, so
/// not even W1 gives the same numbers each time.
const COUNT_RUNS: [(&str, usize); 2] = [("w1", 5), ("w2", 5)];

/// Number of times instructions are counted. The allocator's part depends on the layout of the heap and occasionally
/// costs some percent more; the lowest count is the usual one.
const INSTRUCTION_COUNTS: usize = 3;

const USAGE: &str = "\
cargo xtask compare REV [KEYS…] [--pairs N] [--only rates|instructions|counts]
  compares HEAD with REV: rates of the benchmarks KEYS (a c k o q s) from N interleaved pairs (10),
  instructions (needs valgrind), syncs and writes (needs strace)";

#[derive(Debug, PartialEq)]
struct CompareRequest {
    revision: String,
    keys: Vec<String>,
    pairs: usize,
    only: Option<ComparedPart>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ComparedPart {
    Rates,
    Instructions,
    Counts,
}

pub(crate) fn compare(arguments: &[String]) -> bool {
    let compared = CompareRequest::parse(arguments).and_then(|request| run(&request));
    match compared {
        Ok(failures) if failures.is_empty() => {
            println!("no gate has failed");
            true
        }
        Ok(failures) => {
            failures.iter().for_each(|failure| println!("FAILED: {failure}"));
            false
        }
        Err(why) => {
            println!("{why}");
            false
        }
    }
}

impl CompareRequest {
    fn parse(arguments: &[String]) -> Result<CompareRequest, String> {
        let (mut words, mut pairs, mut only) = (Vec::new(), DEFAULT_PAIRS, None);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--pairs" => {
                    let number = rest.next().and_then(|number| number.parse().ok());
                    pairs = number.ok_or_else(|| format!("--pairs needs a number\n{USAGE}"))?;
                }
                "--only" => {
                    only = Some(match rest.next().map(String::as_str) {
                        Some("rates") => ComparedPart::Rates,
                        Some("instructions") => ComparedPart::Instructions,
                        Some("counts") => ComparedPart::Counts,
                        _ => return Err(format!("--only needs one of rates, instructions, counts\n{USAGE}")),
                    });
                }
                option if option.starts_with('-') => return Err(format!("unknown option `{option}`\n{USAGE}")),
                word => words.push(word.to_owned()),
            }
        }
        if pairs < MIN_PAIRS {
            return Err(format!("--pairs {pairs} is too few: at least {MIN_PAIRS} are needed for an interval"));
        }
        if words.is_empty() {
            return Err(USAGE.to_owned());
        }
        let revision = words.remove(0);
        if words.is_empty() {
            words = DEFAULT_KEYS.map(str::to_owned).to_vec();
        }
        Ok(CompareRequest { revision, keys: words, pairs, only })
    }

    fn includes(&self, part: ComparedPart) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

/// Returns the gates that have failed, or why nothing could be compared.
fn run(request: &CompareRequest) -> Result<Vec<String>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask is inside the repository")?;
    if request.includes(ComparedPart::Instructions) {
        MeasuringTool::Valgrind.check_installed()?;
    }
    if request.includes(ComparedPart::Counts) {
        MeasuringTool::Strace.check_installed()?;
    }
    // Both are resolved before the first of them is built.
    let (a, b) = (Revision::find(root, &request.revision, "a")?, Revision::find(root, "HEAD", "b")?);
    if revision::is_dirty(root) {
        println!("note: uncommitted changes are not part of HEAD, and are not measured");
    }
    println!("A = {}, B = HEAD = {}", a.title(), b.title());
    // Server benchmarks need the program itself.
    let served =
        request.includes(ComparedPart::Rates) && request.keys.iter().any(|key| SERVER_KEYS.contains(&key.as_str()));
    let (a, b) = (a.build(root, served)?, b.build(root, served)?);
    let mut failures = Vec::new();
    if request.includes(ComparedPart::Instructions) {
        for work in WORKS {
            failures.extend(instructions(work, &a, &b)?);
        }
    }
    if request.includes(ComparedPart::Counts) {
        for (workload, times) in COUNT_RUNS {
            failures.extend(counts(workload, times, &a, &b)?);
        }
    }
    if request.includes(ComparedPart::Rates) {
        for key in &request.keys {
            failures.extend(rates(key, request.pairs, &a, &b)?);
        }
    }
    Ok(failures)
}

fn rates(key: &str, pairs: usize, a: &Path, b: &Path) -> Result<Option<String>, String> {
    let mut both: Vec<(f64, f64)> = Vec::new();
    let mut unit = String::new();
    for pair in 0..pairs {
        let one = |program: &Path| measure::rate(program, key);
        // A B, B A, A B, …: neither always has the warmer machine.
        let (first, second) = if pair % 2 == 0 { (one(a)?, one(b)?) } else { (one(b)?, one(a)?) };
        let (of_a, of_b) = if pair % 2 == 0 { (first, second) } else { (second, first) };
        both.push((of_a.rate, of_b.rate));
        unit = of_b.unit;
    }
    let (all_a, all_b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    let ratio = median(&all_b) / median(&all_a);
    let interval = bootstrap(&both);
    let load = measure::load_average();
    println!("({key}) A {} B {} {unit}; B/A {ratio:.3} {interval}; load {load}", spread(&all_a), spread(&all_b));
    Ok(rate_fails(ratio, interval).then(|| format!("({key}) B/A is {ratio:.3} {interval}: below {MIN_RATIO}")))
}

fn rate_fails(ratio: f64, interval: Interval) -> bool {
    ratio < MIN_RATIO && !interval.includes(1.0)
}

fn instructions(work: &str, a: &Path, b: &Path) -> Result<Option<String>, String> {
    let (mut of_a, mut of_b) = (u64::MAX, u64::MAX);
    for _ in 0..INSTRUCTION_COUNTS {
        of_a = of_a.min(measure::instructions(a, work)?);
        of_b = of_b.min(measure::instructions(b, work)?);
    }
    let ratio = of_b as f64 / of_a as f64;
    println!("instructions of {work}: A {of_a}, B {of_b}; B/A {ratio:.4}");
    let fails = ratio > MAX_INSTRUCTIONS;
    Ok(fails.then(|| format!("instructions of {work}: B/A is {ratio:.4}, above {MAX_INSTRUCTIONS}")))
}

fn counts(workload: &str, times: usize, a: &Path, b: &Path) -> Result<Option<String>, String> {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    for _ in 0..times {
        of_a.push(measure::counts(a, workload)?);
        of_b.push(measure::counts(b, workload)?);
    }
    let mut differences = Vec::new();
    let (syncs, writes) = (|counts: &CallCounts| counts.syncs, |counts: &CallCounts| counts.writes);
    let ranges = [
        ("syncs", range(of_a.iter().map(syncs)), range(of_b.iter().map(syncs))),
        ("writes", range(of_a.iter().map(writes)), range(of_b.iter().map(writes))),
    ];
    for (what, range_a, range_b) in ranges {
        let equal = overlap(range_a, range_b);
        let verdict = if equal { "equal" } else { "DIFFERENT" };
        println!("{what} of {workload}: A {}, B {}: {verdict}", format_range(range_a), format_range(range_b));
        if !equal {
            differences.push(format!("{what} of {workload}: A {}, B {}", format_range(range_a), format_range(range_b)));
        }
    }
    Ok((!differences.is_empty()).then(|| differences.join("; ")))
}

/// Returns the lowest and the highest count.
fn range(counts: impl Iterator<Item = u64> + Clone) -> (u64, u64) {
    (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0))
}

fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn format_range((low, high): (u64, u64)) -> String {
    if low == high { low.to_string() } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CompareRequest, String> {
        CompareRequest::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read() {
        let request = parse("main a q --pairs 12 --only counts").expect("it is complete");
        let keys = vec!["a".to_owned(), "q".to_owned()];
        assert_eq!(
            request,
            CompareRequest { revision: "main".to_owned(), keys, pairs: 12, only: Some(ComparedPart::Counts) }
        );
        assert_eq!(parse("main").map(|request| request.keys.len()), Ok(DEFAULT_KEYS.len()));
        for wrong in ["", "main --pairs", "main --pairs 3", "main --only x", "main --fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_fails_only_if_it_is_low_and_not_by_chance() {
        assert!(rate_fails(0.9, Interval { low: 0.85, high: 0.95 }));
        assert!(!rate_fails(0.9, Interval { low: 0.8, high: 1.01 }));
        assert!(!rate_fails(0.96, Interval { low: 0.95, high: 0.97 }));
    }

    #[test]
    fn counts_are_equal_if_their_ranges_overlap() {
        assert!(overlap((5, 5), (5, 5)) && overlap((3, 6), (6, 9)));
        assert!(!overlap((5, 5), (6, 6)));
    }
}
