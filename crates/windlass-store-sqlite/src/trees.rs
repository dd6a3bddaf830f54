//! Run trees: how many runs of a tree are open, and which runs are cancelled.
//!
//! A run that has neither a parent, nor children, nor a mark has no row: an ordinary run costs nothing here. A row
//! that is damaged lets no run begin below its run.

use std::path::Path;

use rusqlite::{OptionalExtension, Row, Transaction, params};
use windlass_store::backend::checksum;
use windlass_store::{DamagedRow, NewRun, RunStatus};

use crate::error::{SqliteResult, damaged_row};

/// A caller outside the run tree has cancelled the run.
pub(crate) const CANCELLED: u64 = 1;
/// The parent run has cancelled it.
pub(crate) const CANCELLED_BY_CALLER: u64 = 2;
/// The run has replied to its parent run.
pub(crate) const REPLIED: u64 = 4;

pub(crate) const TREE_COLUMNS: &str = "run, root, open, marks, checksum";

/// The place of a run in its run tree.
#[derive(Clone, Copy, Default)]
pub(crate) struct TreePlace {
    run: i64,
    /// The number of the root, for every other run.
    root: Option<i64>,
    /// For a root: the open runs below it.
    open: u64,
    /// Marks that decide whether runs may begin below the run. They are never removed.
    marks: u64,
}

/// The tree of a run to create.
pub(crate) enum TreeCheck {
    /// The run may begin below this root; `None` for a run without a parent in this store.
    Open(Option<i64>),
    /// A run above it has ended or is cancelled.
    Cancelled,
    /// The tree has as many open runs as it may have.
    Full,
    /// A row of the tree is damaged.
    Damaged,
}

impl TreePlace {
    /// Decodes a row of [`TREE_COLUMNS`]; `None` if its checksum does not match.
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<TreePlace>> {
        let place = TreePlace {
            run: row.get(first)?,
            root: row.get(first + 1)?,
            open: row.get(first + 2)?,
            marks: row.get(first + 3)?,
        };
        Ok((row.get::<_, u32>(first + 4)? == place.checksum()).then_some(place))
    }

    fn checksum(&self) -> u32 {
        checksum(&[self.run.unsigned_abs(), self.root.map_or(0, i64::unsigned_abs), self.open, self.marks], &[])
    }

    /// Reads the place of a run. The inner `None` means that it is damaged.
    fn read(transaction: &Transaction<'_>, run: i64) -> SqliteResult<Option<Option<TreePlace>>> {
        let mut select =
            transaction.prepare_cached("SELECT run, root, open, marks, checksum FROM run_trees WHERE run = ?1")?;
        Ok(select.query_row([run], |row| TreePlace::from_row(row, 0)).optional()?)
    }

    fn write(&self, transaction: &Transaction<'_>) -> SqliteResult<()> {
        let mut upsert = transaction.prepare_cached(
            "INSERT INTO run_trees (run, root, open, marks, checksum) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (run) DO UPDATE SET
                 root = excluded.root, open = excluded.open, marks = excluded.marks, checksum = excluded.checksum",
        )?;
        upsert.execute(params![self.run, self.root, self.open, self.marks, self.checksum()])?;
        Ok(())
    }
}

/// Checks the runs above a new run, up to the first one that has replied, and the size of its tree.
pub(crate) fn check_tree(transaction: &Transaction<'_>, new: &NewRun) -> SqliteResult<TreeCheck> {
    let root = match check_from(transaction, new.parent.as_deref())? {
        TreeCheck::Open(Some(root)) => root,
        other => return Ok(other),
    };
    match TreePlace::read(transaction, root)? {
        Some(None) => Ok(TreeCheck::Damaged),
        place if place.flatten().map_or(0, |place| place.open) >= new.max_tree_runs => Ok(TreeCheck::Full),
        _ => Ok(TreeCheck::Open(Some(root))),
    }
}

/// Returns whether a run above this one has ended or is cancelled.
pub(crate) fn is_cancelled_above(transaction: &Transaction<'_>, run: &str) -> SqliteResult<bool> {
    let mut select = transaction.prepare_cached("SELECT number, parent FROM runs WHERE id = ?1")?;
    let found = select.query_row([run], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((number, Some(parent))): Option<(i64, Option<String>)> = found else { return Ok(false) };
    let replied = TreePlace::read(transaction, number)?.flatten().is_some_and(|place| place.marks & REPLIED != 0);
    Ok(!replied && matches!(check_from(transaction, Some(&parent))?, TreeCheck::Cancelled))
}

/// Checks a run and those above it, up to the first one that has replied. Returns the root of their tree.
fn check_from(transaction: &Transaction<'_>, run: Option<&str>) -> SqliteResult<TreeCheck> {
    let mut select = transaction.prepare_cached(
        "SELECT number, parent, status, run, root, open, marks, run_trees.checksum
         FROM runs LEFT JOIN run_trees ON run = number WHERE id = ?1",
    )?;
    let (mut above, mut root, mut below) = (run.map(str::to_owned), None, i64::MAX);
    while let Some(id) = above {
        let found = select.query_row([&id], |row| {
            let has_place = row.get::<_, Option<i64>>(3)?.is_some();
            let place = match has_place {
                true => TreePlace::from_row(row, 3)?,
                false => Some(TreePlace { run: row.get(0)?, ..TreePlace::default() }),
            };
            Ok((row.get::<_, Option<String>>(1)?, row.get::<_, String>(2)?, place))
        });
        let Some((parent, status, place)) = found.optional()? else { break };
        // A parent is older: rows that say otherwise form no tree, and a walk over them may not end.
        let Some(place) = place.filter(|place| place.run < below) else { return Ok(TreeCheck::Damaged) };
        below = place.run;
        let ended = RunStatus::parse(&status).is_some_and(RunStatus::is_final);
        let replied = place.marks & REPLIED != 0;
        if ended || place.marks & CANCELLED != 0 || (place.marks & CANCELLED_BY_CALLER != 0 && !replied) {
            return Ok(TreeCheck::Cancelled);
        }
        root = root.or(Some(place.root.unwrap_or(place.run)));
        above = parent.filter(|_| !replied);
    }
    Ok(TreeCheck::Open(root))
}

/// Counts a new run in its tree.
pub(crate) fn enter(transaction: &Transaction<'_>, run: i64, root: i64) -> SqliteResult<()> {
    TreePlace { run, root: Some(root), ..TreePlace::default() }.write(transaction)?;
    change_open(transaction, root, |open| open + 1)
}

/// Ends the run's part in its tree. Its marks stay: runs below it may still be open.
pub(crate) fn end(transaction: &Transaction<'_>, run: i64) -> SqliteResult<()> {
    match TreePlace::read(transaction, run)?.flatten().and_then(|place| place.root) {
        Some(root) => change_open(transaction, root, |open| open.saturating_sub(1)),
        None => Ok(()),
    }
}

/// Adds marks to a run. A damaged row stays as it is.
pub(crate) fn mark(transaction: &Transaction<'_>, run: i64, marks: u64) -> SqliteResult<()> {
    change(transaction, run, |place| TreePlace { marks: place.marks | marks, ..place })
}

fn change_open(transaction: &Transaction<'_>, root: i64, count: impl Fn(u64) -> u64) -> SqliteResult<()> {
    change(transaction, root, |place| TreePlace { open: count(place.open), ..place })
}

fn change(transaction: &Transaction<'_>, run: i64, change: impl Fn(TreePlace) -> TreePlace) -> SqliteResult<()> {
    match TreePlace::read(transaction, run)? {
        Some(None) => Ok(()),
        place => change(place.flatten().unwrap_or(TreePlace { run, ..TreePlace::default() })).write(transaction),
    }
}

/// Checks a row, for the verification of the store.
pub(crate) fn verify_row(row: &Row<'_>, file: &Path) -> SqliteResult<()> {
    match TreePlace::from_row(row, 0)? {
        Some(_) => Ok(()),
        None => Err(damaged_row(DamagedRow { table: "run_trees", row: row.get(0)?, key: None }, file).into()),
    }
}
