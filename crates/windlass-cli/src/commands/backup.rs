//! `windlass backup` and `windlass restore`

use std::path::{Path, PathBuf};

use windlass_server::audit::{END_FILE, KEY_FILE};
use windlass_store_sqlite::{BackupOptions, RestoreOptions, SqliteOptions, SqliteStore};
use windlass_value::Value;

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::service::StoreLock;
use crate::{out, stores, text};

pub(crate) fn backup(global: &GlobalArgs, args: &args::BackupArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "backup")?;
    let directory = stores::directory(global);
    stores::require(&directory)?;
    if is_same(&directory, &args.destination) {
        return Err(CliFailure::usage("the destination of the backup is the store itself")
            .hint("name another directory, on another disk if possible"));
    }
    let store = SqliteStore::open(&directory, SqliteOptions::default())?;
    let options = BackupOptions { files: audit_files(&directory), keep: args.keep };
    let report = store.backup(&args.destination, &options)?;
    let damaged = !report.findings.is_empty();
    if global.json {
        let findings = report.findings.iter().map(|finding| Value::from(finding.as_str())).collect();
        out::print_json(&Value::object([
            ("backup", Value::from(report.name.as_str())),
            ("at", Value::from(report.at.to_string())),
            ("bytes", Value::from(report.bytes)),
            ("added_bytes", Value::from(report.added_bytes)),
            ("backups", Value::from(report.backups as u64)),
            ("findings", Value::list(findings)),
        ]))?;
    } else {
        let (bytes, added) = (text::bytes(report.bytes), text::bytes(report.added_bytes));
        out::print(&format!("backup {}: {bytes}, of which {added} are new; verified", report.name))?;
        report.findings.iter().try_for_each(|finding| out::print(&format!("damage in the store: {finding}")))?;
    }
    Ok(if damaged { CliExit::Failed } else { CliExit::Success })
}

pub(crate) fn restore(global: &GlobalArgs, args: &args::RestoreArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "restore")?;
    let directory = stores::directory(global);
    // A server that has the store open must not find another one in its place.
    let _lock = directory.is_dir().then(|| StoreLock::take(&directory)).transpose()?;
    let options = RestoreOptions { at: args.at.clone(), replace: args.replace, allow_damage: args.allow_damage };
    let report = windlass_store_sqlite::restore(&args.source, &directory, &options)?;
    let replaced = report.replaced.as_ref().map(|path| path.display().to_string());
    if global.json {
        out::print_json(&Value::object([
            ("backup", Value::from(report.name.as_str())),
            ("at", Value::from(report.at.to_string())),
            ("bytes", Value::from(report.bytes)),
            ("open_runs", Value::from(report.open_runs)),
            ("replaced", Value::from(replaced.as_deref())),
        ]))?;
        return Ok(CliExit::Success);
    }
    let (bytes, open) = (text::bytes(report.bytes), text::pluralize(report.open_runs, "open run"));
    out::print(&format!("restored {} into {}: {bytes}, {open}", report.name, directory.display()))?;
    out::print(&format!("the store is as of {}; what came later is not in it", report.at))?;
    if let Some(replaced) = replaced {
        out::print(&format!("the store that was there is in {replaced}"))?;
    }
    if report.open_runs > 0 {
        out::print("open runs repeat effects that they had after that time, with the same idempotency keys")?;
    }
    Ok(CliExit::Success)
}

fn is_same(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().ok();
    resolved(one).is_some_and(|one| resolved(other) == Some(one))
}

/// Returns the files of the server's audit log, with its key and the record of its end. The record comes before the log
/// that is written next, so that it never names an end that the copy lacks.
fn audit_files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_log = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("audit.") && (name.ends_with(".log") || [KEY_FILE, END_FILE].contains(&name))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_log).collect();
    files.sort();
    files
}
