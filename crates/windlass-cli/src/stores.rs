//! Opens a store and finds runs in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::{RunFilter, RunRow, RunStatus, Store, StoreScan};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_syntax::nearest;

use crate::args::GlobalArgs;
use crate::dialects::registry;
use crate::failure::{CliFailure, codes};
use crate::trust;

const DEFAULT_DIRECTORY: &str = ".windlass";

/// Runs read per query during a search.
const PAGE_ROWS: u32 = 500;

pub(crate) fn directory(global: &GlobalArgs) -> PathBuf {
    global.store.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
}

/// Opens the store for a command that reads runs: it must exist.
pub(crate) fn open(global: &GlobalArgs) -> Result<Arc<dyn Store>, CliFailure> {
    let directory = directory(global);
    if !directory.join("windlass.db").is_file() {
        return Err(CliFailure::usage(format!("there is no store in {}", directory.display()))
            .hint("`windlass run FILE` creates one; --store or WINDLASS_STORE names another"));
    }
    open_or_create(&directory, SqliteOptions::default())
}

pub(crate) fn open_or_create(directory: &Path, options: SqliteOptions) -> Result<Arc<dyn Store>, CliFailure> {
    Ok(Arc::new(SqliteStore::open(directory, options)?))
}

/// Finds a run by its id, by its execution id, by an unambiguous prefix of its id, or the newest as `last`.
pub(crate) fn find(store: &dyn Store, run_ref: &str) -> Result<RunRow, CliFailure> {
    if let Some(row) = windlass_runtime::find_run(store, run_ref)? {
        return Ok(row);
    }
    if run_ref == "last" {
        let mut newest = None;
        // `last` does not mean a child run.
        each_run(store, &RunFilter::default(), |row| {
            newest = Some(row).filter(|row| row.parent.is_none());
            newest.is_none()
        })?;
        return newest.ok_or_else(|| {
            CliFailure::usage("there is no run in this store")
                .code(codes::NO_SUCH_RUN)
                .hint("`windlass run FILE` creates one")
        });
    }
    let mut matching = Vec::new();
    let mut others = Vec::new();
    each_run(store, &RunFilter::default(), |row| {
        match row.run.starts_with(run_ref) {
            true => matching.push(row),
            false => others.push(row.run),
        }
        matching.len() < 5
    })?;
    match matching.len() {
        1 => matching.pop().ok_or_else(|| no_such_run(run_ref, &others)),
        0 => Err(no_such_run(run_ref, &others)),
        _ => {
            let ids: Vec<&str> = matching.iter().map(|row| &*row.run).collect();
            Err(CliFailure::usage(format!("several runs begin with `{run_ref}`"))
                .hint(format!("such as {}", ids.join(", "))))
        }
    }
}

fn no_such_run(run_ref: &str, others: &[Arc<str>]) -> CliFailure {
    let failure = CliFailure::usage(format!("there is no run `{run_ref}` in this store")).code(codes::NO_SUCH_RUN);
    match nearest(run_ref, others.iter().map(|run| &**run)) {
        Some(near) => failure.hint(format!("did you mean `{near}`? `windlass list` shows the runs of the store")),
        None => failure.hint("`windlass list` shows the runs of the store"),
    }
}

/// Visits runs page by page, newest first, until `visit` returns false.
pub(crate) fn each_run(
    store: &dyn Store,
    filter: &RunFilter,
    visit: impl FnMut(RunRow) -> bool,
) -> Result<(), CliFailure> {
    each_run_before(store, filter, None, visit)
}

/// Visits the runs before the one with this number in the same way.
pub(crate) fn each_run_before(
    store: &dyn Store,
    filter: &RunFilter,
    mut before: Option<i64>,
    mut visit: impl FnMut(RunRow) -> bool,
) -> Result<(), CliFailure> {
    loop {
        let page = StoreScan::runs(store, filter, before, PAGE_ROWS)?;
        let full = page.len() == PAGE_ROWS as usize;
        before = page.last().map(|row| row.number);
        for row in page {
            if !visit(row) {
                return Ok(());
            }
        }
        if !full {
            return Ok(());
        }
    }
}

/// Formats a command line for the same store, ready to be pasted.
pub(crate) fn command(global: &GlobalArgs, arguments: &str) -> String {
    match &global.store {
        // A store from the environment also applies to the next command.
        Some(path) if std::env::var_os("WINDLASS_STORE").as_deref() != Some(path.as_os_str()) => {
            format!("windlass --store {} {arguments}", shell_quote(&path.to_string_lossy()))
        }
        _ => format!("windlass {arguments}"),
    }
}

/// Returns the address of the running server that would take over an unowned run.
pub(crate) fn server_address(global: &GlobalArgs, row: &RunRow) -> Option<String> {
    // The steps of a Rust program exist only in that program.
    registry()
        .get_or_rust(&row.dialect)
        .has_sources()
        .then(|| crate::service::serving_address(&directory(global)))
        .flatten()
}

/// Returns how to resume an unowned run. A run of a server continues in a server; if one is running, `resume` asks
/// it.
pub(crate) fn resume_hint(global: &GlobalArgs, store: &dyn Store, row: &RunRow) -> Result<String, CliFailure> {
    let resume = command(global, &format!("resume {}", row.run));
    if !registry().get_or_rust(&row.dialect).has_sources() {
        return Ok("start the program that has its steps".to_owned());
    }
    if server_address(global, row).is_some() || !trust::is_server_run(store, row)? {
        return Ok(resume);
    }
    let serve = command(global, "serve");
    Ok(match row.status {
        RunStatus::Paused => format!("{serve}, then {resume}"),
        RunStatus::Quarantined => format!("{serve}, then POST /api/v1/runs/{}/resume", row.run),
        _ => serve,
    })
}

pub(crate) fn shell_quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:@%,~".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
