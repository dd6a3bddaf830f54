//! `windlass clean`

use windlass_runtime::{CleanupReport, RetentionPass, clean_runs as remove, real_now, removable};
use windlass_store::{DamagedRowId, DamagedTable, IsolatedRow, RemovableTree, RunStatus, Store, StoreErrorKind};
use windlass_value::{Timestamp, Value};

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, codes};
use crate::{durations, out, stores, text};

pub(crate) fn clean(global: &GlobalArgs, args: &args::CleanArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "clean")?;
    if !args.damaged.is_empty() {
        return remove_damaged(global, args);
    }
    let Some(age) = &args.older_than else { return retain(global, args) };
    let age = durations::parse(age)?;
    let before = Timestamp(real_now().0.saturating_sub_unsigned(age.0));
    let store = stores::open(global)?;
    match args.dry_run {
        true => show_found(global, &removable(&*store, before)?),
        false => show_cleaned(global, remove(&*store, before)?),
    }?;
    Ok(CliExit::Success)
}

/// Removes damaged rows and quarantined runs. All names are checked before anything is removed.
fn remove_damaged(global: &GlobalArgs, args: &args::CleanArgs) -> Result<CliExit, CliFailure> {
    let store = stores::open(global)?;
    let rows = args.damaged.iter().map(|name| find_damaged(global, &*store, name)).collect::<Result<Vec<_>, _>>()?;
    let mut removed = Vec::new();
    for (row, name) in rows.into_iter().zip(&args.damaged) {
        if !args.dry_run && !store.remove_damaged(row)? {
            return Err(not_damaged(global, name));
        }
        removed.push(row.to_string());
    }
    while !args.dry_run && store.sweep()?.more {}
    if global.json {
        let rows = Value::list(removed.into_iter().map(Value::from).collect());
        let field = if args.dry_run { "would_remove" } else { "removed" };
        out::print_json(&Value::object([(field, rows)]))?;
    } else {
        let what = if args.dry_run { "would be removed" } else { "removed" };
        out::print(&removed.iter().map(|row| format!("{row} {what}")).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(CliExit::Success)
}

/// Finds a row by its id, or a run by its own.
fn find_damaged(global: &GlobalArgs, store: &dyn Store, name: &str) -> Result<DamagedRowId, CliFailure> {
    let quarantined = |number| DamagedRowId::new(DamagedTable::Runs, number);
    match (name.parse(), store.run(name)) {
        (Ok(row), _) => Ok(row),
        (_, Ok(Some(row))) if row.status == RunStatus::Quarantined => Ok(quarantined(row.number)),
        (_, Ok(_)) => Err(not_damaged(global, name)),
        (_, Err(error)) if error.kind == StoreErrorKind::Damaged => {
            let is_run = |row: &IsolatedRow| row.id.table == DamagedTable::Runs && row.name.as_deref() == Some(name);
            let found = store.damage()?.into_iter().find(is_run);
            found.map(|row| row.id).ok_or_else(|| not_damaged(global, name))
        }
        (_, Err(error)) => Err(error.into()),
    }
}

fn not_damaged(global: &GlobalArgs, name: &str) -> CliFailure {
    let doctor = stores::command(global, "doctor");
    CliFailure::usage(format!("`{name}` is neither a damaged row nor a damaged or quarantined run"))
        .code(codes::NO_SUCH_RUN)
        .hint(format!("`{doctor}` lists them"))
}

/// Removes the runs beyond the bounds of the settings.
fn retain(global: &GlobalArgs, args: &args::CleanArgs) -> Result<CliExit, CliFailure> {
    let policy = CliSettings::load(global)?.retention.stated_policy();
    if policy.keeps_all() {
        return Err(CliFailure::usage("there is no age, and the settings have no bounds of retention")
            .hint("give --older-than AGE, or bounds under [retention]"));
    }
    let store = stores::open(global)?;
    let pass = RetentionPass::new(policy, real_now());
    match args.dry_run {
        true => show_found(global, &pass.preview(&*store)?),
        false => show_cleaned(global, pass.finish(&*store)?),
    }?;
    Ok(CliExit::Success)
}

fn show_found(global: &GlobalArgs, found: &[RemovableTree]) -> Result<(), CliFailure> {
    let (runs, bytes) = (found.iter().map(|one| one.runs).sum::<u64>(), found.iter().map(|one| one.bytes).sum::<u64>());
    if global.json {
        let entry = |one: &RemovableTree| {
            let (run, runs, bytes) = (Value::from(one.run.clone()), Value::from(one.runs), Value::from(one.bytes));
            Value::object([("run", run), ("runs", runs), ("bytes", bytes)])
        };
        let would_remove = Value::list(found.iter().map(entry).collect());
        return out::print_json(&Value::object([
            ("would_remove", would_remove),
            ("runs", Value::from(runs)),
            ("bytes", Value::from(bytes)),
        ]));
    }
    for one in found {
        let below = if one.runs > 1 { format!(" and {} child runs", one.runs - 1) } else { String::new() };
        out::print(&format!("{}{below}: {}", one.run, text::bytes(one.bytes)))?;
    }
    out::print(&format!("{} would be removed, {} would be freed", text::pluralize(runs, "run"), text::bytes(bytes)))
}

fn show_cleaned(global: &GlobalArgs, cleaned: CleanupReport) -> Result<(), CliFailure> {
    let CleanupReport { runs, blobs, bytes } = cleaned;
    if global.json {
        let fields = [("runs", runs), ("blobs", blobs), ("bytes", bytes)];
        return out::print_json(&Value::object(fields.map(|(name, number)| (name, Value::from(number)))));
    }
    let (removed, stored) = (text::pluralize(runs, "run"), text::pluralize(blobs, "stored value"));
    out::print(&format!("{removed} and {stored} removed, {} freed for later runs", text::bytes(bytes)))
}
