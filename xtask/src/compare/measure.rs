//! Runs a revision's `windlass-bench` and parses its output.

use std::path::Path;
use std::process::Command;

/// A measuring tool that CI does not need.
#[derive(Clone, Copy)]
pub(crate) enum MeasuringTool {
    Valgrind,
    Strace,
}

impl MeasuringTool {
    fn name(self) -> &'static str {
        match self {
            MeasuringTool::Valgrind => "valgrind",
            MeasuringTool::Strace => "strace",
        }
    }

    pub(crate) fn check_installed(self) -> Result<(), String> {
        let name = self.name();
        let runs = Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        let install = format!("{name} is not installed: `apt-get install {name}` (or `dnf install {name}`)");
        if runs { Ok(()) } else { Err(install) }
    }
}

pub(crate) struct RateSample {
    pub rate: f64,
    pub unit: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallCounts {
    pub syncs: u64,
    pub writes: u64,
}

/// Takes one sample of a benchmark.
pub(crate) fn rate(program: &Path, key: &str) -> Result<RateSample, String> {
    let line = read_output(Command::new(program).args(["--once", key, "--json"]))?;
    let rate = field(&line, "rate").and_then(|rate| rate.parse().ok());
    let rate = rate.ok_or_else(|| format!("`--once {key}` printed no rate: {line}"))?;
    Ok(RateSample { rate, unit: field(&line, "unit").unwrap_or_default().to_owned() })
}

/// Counts the syncs and writes of a workload once.
pub(crate) fn counts(program: &Path, workload: &str) -> Result<CallCounts, String> {
    let line = read_output(Command::new(program).args(["--counts", workload, "--json"]))?;
    let number = |name: &str| {
        let number = field(&line, name).and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("`--counts {workload}` printed no {name}: {line}"))
    };
    Ok(CallCounts { syncs: number("syncs")?, writes: number("writes")? })
}

/// Counts the instructions of some work: the cost of more rounds minus that of fewer, so that program start does not
/// count.
pub(crate) fn instructions(program: &Path, work: &str) -> Result<u64, String> {
    const FEW: u64 = 1;
    const MANY: u64 = 6;
    let (few, many) = (count_instructions(program, work, FEW)?, count_instructions(program, work, MANY)?);
    many.checked_sub(few).map(|more| more / (MANY - FEW)).ok_or_else(|| format!("{work}: more rounds cost less"))
}

fn count_instructions(program: &Path, work: &str, times: u64) -> Result<u64, String> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args(["--work", work, &times.to_string()]);
    let output = command.output().map_err(|error| format!("valgrind: {error}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let total = parse_collected(&stderr).filter(|_| output.status.success());
    total.ok_or_else(|| format!("`--work {work}` under callgrind ended with {}: {stderr}", output.status))
}

/// Parses the number in callgrind's line `==7== Collected : 123456`.
fn parse_collected(stderr: &str) -> Option<u64> {
    let line = stderr.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

fn read_output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{command:?} ended with {}: {}", output.status, text(&output.stderr))),
    }
}

/// Returns a field of the flat objects that windlass-bench prints: enough of JSON for numbers and plain words.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}'])?;
    Some(rest[..end].trim_matches('"'))
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_output_is_parsed() {
        let line = r#"{"key":"a","rate":123.500,"unit":"steps/s"}"#;
        assert_eq!(
            (field(line, "rate"), field(line, "unit"), field(line, "x")),
            (Some("123.500"), Some("steps/s"), None)
        );
        assert_eq!(parse_collected("==7== Events    : Ir\n==7== Collected : 42\n"), Some(42));
        assert_eq!(parse_collected("nothing"), None);
    }
}
