//! `windlass clean`

use windlass_runtime::{Cleaned, clean as remove, real_now, removable};
use windlass_store::Removable;
use windlass_value::{Duration, Timestamp, Value};

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{out, stores, text};

/// What may stand after a number.
const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

pub fn clean(global: &Global, args: &args::Clean) -> Result<Exit, Failure> {
    let age = age_of(&args.older_than)?;
    let before = Timestamp(real_now().0.saturating_sub_unsigned(age.0));
    let store = stores::open(global)?;
    match args.dry_run {
        true => show_found(global, &removable(&*store, before)?),
        false => show_cleaned(global, remove(&*store, before)?),
    }?;
    Ok(Exit::Good)
}

/// `30d`, `12h`, or a span of ISO 8601.
fn age_of(written: &str) -> Result<Duration, Failure> {
    let unit = UNITS.into_iter().find_map(|(unit, seconds)| Some((written.strip_suffix(unit)?, seconds)));
    let counted = unit.and_then(|(number, seconds)| number.parse::<u64>().ok()?.checked_mul(seconds));
    let micros = counted.and_then(|seconds| seconds.checked_mul(1_000_000));
    micros
        .map(Duration)
        .or_else(|| Duration::parse_iso(written))
        .ok_or_else(|| Failure::usage(format!("`{written}` is no span of time")).hint("such as 30d, 12h, 90m or P30D"))
}

fn show_found(global: &Global, found: &[Removable]) -> Result<(), Failure> {
    let (runs, bytes) = (found.iter().map(|one| one.runs).sum::<u64>(), found.iter().map(|one| one.bytes).sum::<u64>());
    if global.json {
        let entry = |one: &Removable| {
            let (run, runs, bytes) = (Value::from(one.run.clone()), Value::from(one.runs), Value::from(one.bytes));
            Value::object([("run", run), ("runs", runs), ("bytes", bytes)])
        };
        let would_go = Value::list(found.iter().map(entry).collect());
        return out::print_json(&Value::object([
            ("would_remove", would_go),
            ("runs", Value::from(runs)),
            ("bytes", Value::from(bytes)),
        ]));
    }
    for one in found {
        let below = if one.runs > 1 { format!(" and {} below it", one.runs - 1) } else { String::new() };
        out::print(&format!("{}{below}: {}", one.run, text::bytes(one.bytes)))?;
    }
    out::print(&format!("{} would go, {} would be freed", text::count(runs, "run"), text::bytes(bytes)))
}

fn show_cleaned(global: &Global, cleaned: Cleaned) -> Result<(), Failure> {
    let Cleaned { runs, blobs, bytes } = cleaned;
    if global.json {
        let fields = [("runs", runs), ("blobs", blobs), ("bytes", bytes)];
        return out::print_json(&Value::object(fields.map(|(name, number)| (name, Value::from(number)))));
    }
    let (removed, stored) = (text::count(runs, "run"), text::count(blobs, "stored value"));
    out::print(&format!("{removed} and {stored} removed, {} freed for later runs", text::bytes(bytes)))
}
