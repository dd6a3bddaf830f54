//! Durations as users type them.

use windlass_value::Duration;

use crate::failure::CliFailure;

/// The units that may follow a number.
const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// Parses `30d`, `12h`, or an ISO 8601 duration.
pub(crate) fn parse(text: &str) -> Result<Duration, CliFailure> {
    let unit = UNITS.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let counted = unit.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(seconds));
    let micros = counted.and_then(|seconds| seconds.checked_mul(1_000_000));
    micros
        .map(Duration)
        .or_else(|| Duration::parse_iso(text))
        .ok_or_else(|| CliFailure::usage(format!("`{text}` is not a duration")).hint("such as 30d, 12h, 90m or P30D"))
}
