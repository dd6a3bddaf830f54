//! Opens a store and finds runs in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store::{RunFilter, RunRow, Store, StoreScan};
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_syntax::nearest;

use crate::args::GlobalArgs;
use crate::dialects::registry;
use crate::failure::{CliFailure, codes};
pub(crate) use crate::hints::{command, resume_hint, shell_quote};

/// The folder of a store that is not named.
pub(crate) const DEFAULT_DIRECTORY: &str = ".windlass";

/// Runs read per query during a search.
const PAGE_ROWS: u32 = 500;

pub(crate) fn directory(global: &GlobalArgs) -> PathBuf {
    global.store.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_DIRECTORY))
}

/// Returns whether there is a store in a folder, or what is left of one without its database.
pub(crate) fn exists(directory: &Path) -> bool {
    ["windlass.db", "windlass.db-wal", "windlass.head"].iter().any(|name| directory.join(name).is_file())
}

/// Opens the store for a command that reads runs: it must exist.
pub(crate) fn open(global: &GlobalArgs) -> Result<Arc<dyn Store>, CliFailure> {
    let directory = directory(global);
    require(&directory)?;
    // One that cannot be written can still be looked at.
    Ok(Arc::new(SqliteStore::open_to_read(&directory, SqliteOptions::default())?))
}

/// Refuses a directory without a store.
pub(crate) fn require(directory: &Path) -> Result<(), CliFailure> {
    match exists(directory) {
        true => Ok(()),
        false => Err(CliFailure::usage(format!("there is no store in {}", directory.display()))
            .hint("`windlass run FILE` creates one; --store or WINDLASS_STORE names another")),
    }
}

pub(crate) fn open_or_create(directory: &Path, options: SqliteOptions) -> Result<Arc<dyn Store>, CliFailure> {
    Ok(Arc::new(SqliteStore::open(directory, options)?))
}

/// Returns whether the command line names a store; one from the environment does not count.
pub(crate) fn is_store_given(global: &GlobalArgs) -> bool {
    let from_environment = std::env::var_os("WINDLASS_STORE");
    global.store.as_ref().is_some_and(|path| from_environment.as_deref() != Some(path.as_os_str()))
}

/// Number of runs with the same prefix that a message lists.
pub(crate) const MAX_MATCHES: usize = 5;

/// Finds a run by its id, by its execution id, by an unambiguous prefix of its id, or the newest as `last`.
pub(crate) fn find(store: &dyn Store, run_ref: &str) -> Result<RunRow, CliFailure> {
    // An empty prefix matches every run: that of an unset variable must not select the only one.
    if run_ref.is_empty() {
        return Err(CliFailure::usage("the run's id is empty").code(codes::NO_SUCH_RUN).hint("name a run, or `last`"));
    }
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
        return newest.ok_or_else(|| no_run_at_all("in this store"));
    }
    let mut matching = Vec::new();
    let mut others = Vec::new();
    each_run(store, &RunFilter::default(), |row| {
        let list = if row.run.starts_with(run_ref) { &mut matching } else { &mut others };
        list.push(row.run);
        matching.len() < MAX_MATCHES
    })?;
    let run = only_match(run_ref, matching, &others, "in this store")?;
    store.run(&run)?.ok_or_else(|| no_such_run(run_ref, &others, "in this store"))
}

/// Returns the only run that a prefix matches. `location` says where the others are.
pub(crate) fn only_match(
    run_ref: &str,
    mut matching: Vec<Arc<str>>,
    others: &[Arc<str>],
    location: &str,
) -> Result<Arc<str>, CliFailure> {
    match matching.len() {
        1 => matching.pop().ok_or_else(|| no_such_run(run_ref, others, location)),
        0 => Err(no_such_run(run_ref, others, location)),
        _ => {
            let ids: Vec<&str> = matching.iter().map(|run| &**run).collect();
            Err(CliFailure::usage(format!("several runs begin with `{run_ref}`"))
                .hint(format!("such as {}", ids.join(", "))))
        }
    }
}

fn no_such_run(run_ref: &str, others: &[Arc<str>], location: &str) -> CliFailure {
    let failure = CliFailure::usage(format!("there is no run `{run_ref}` {location}")).code(codes::NO_SUCH_RUN);
    match nearest(run_ref, others.iter().map(|run| &**run)) {
        Some(near) => failure.hint(format!("did you mean `{near}`? `windlass list` shows the runs")),
        None => failure.hint("`windlass list` shows the runs"),
    }
}

/// The failure of `last` where there are no runs.
pub(crate) fn no_run_at_all(location: &str) -> CliFailure {
    let failure = CliFailure::usage(format!("there is no run {location}")).code(codes::NO_SUCH_RUN);
    failure.hint("`windlass run FILE` creates one")
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

/// Returns the address of the running server that would take over an unowned run.
pub(crate) fn server_address(global: &GlobalArgs, row: &RunRow) -> Option<String> {
    // The steps of a Rust program exist only in that program.
    registry()
        .get_or_rust(&row.dialect)
        .has_sources()
        .then(|| crate::service::serving_address(&directory(global)))
        .flatten()
}
