//! `windlass clean`

use windlass_runtime::{CleanupReport, clean as remove, real_now, removable};
use windlass_store::RemovableTree;
use windlass_value::{Timestamp, Value};

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{out, spans, stores, text};

pub(crate) fn clean(global: &Global, args: &args::Clean) -> Result<Exit, Failure> {
    let age = spans::parse(&args.older_than)?;
    let before = Timestamp(real_now().0.saturating_sub_unsigned(age.0));
    let store = stores::open(global)?;
    match args.dry_run {
        true => show_found(global, &removable(&*store, before)?),
        false => show_cleaned(global, remove(&*store, before)?),
    }?;
    Ok(Exit::Good)
}

fn show_found(global: &Global, found: &[RemovableTree]) -> Result<(), Failure> {
    let (runs, bytes) = (found.iter().map(|one| one.runs).sum::<u64>(), found.iter().map(|one| one.bytes).sum::<u64>());
    if global.json {
        let entry = |one: &RemovableTree| {
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

fn show_cleaned(global: &Global, cleaned: CleanupReport) -> Result<(), Failure> {
    let CleanupReport { runs, blobs, bytes } = cleaned;
    if global.json {
        let fields = [("runs", runs), ("blobs", blobs), ("bytes", bytes)];
        return out::print_json(&Value::object(fields.map(|(name, number)| (name, Value::from(number)))));
    }
    let (removed, stored) = (text::count(runs, "run"), text::count(blobs, "stored value"));
    out::print(&format!("{removed} and {stored} removed, {} freed for later runs", text::bytes(bytes)))
}
