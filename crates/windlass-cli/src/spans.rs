//! Spans of time as people type them.

use windlass_value::Duration;

use crate::failure::Failure;

/// What may stand after a number.
const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

/// `30d`, `12h`, or a span of ISO 8601.
pub(crate) fn parse(written: &str) -> Result<Duration, Failure> {
    let unit = UNITS.into_iter().find_map(|(unit, seconds)| Some((written.strip_suffix(unit)?, seconds)));
    let counted = unit.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(seconds));
    let micros = counted.and_then(|seconds| seconds.checked_mul(1_000_000));
    micros
        .map(Duration)
        .or_else(|| Duration::parse_iso(written))
        .ok_or_else(|| Failure::usage(format!("`{written}` is no span of time")).hint("such as 30d, 12h, 90m or P30D"))
}
