//! Removing runs, in transactions short enough for other writers to proceed in between.
//!
//! A run leaves every listing at once; its rows are deleted piece by piece, under a number that is not reused
//! meanwhile. A blob is deleted with the last run that has written it: a run that writes the same bytes later
//! writes the blob again, in the same transaction as the reference to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{OptionalExtension, Params, Row, params};
use windlass_store::backend::MAX_REMOVED_PER_CALL;
use windlass_store::{
    BatchRemoval, EndedTree, RUN_FORMAT, RemovableTree, RunStatus, StoreClean, StoreError, SweepResult, TreeRemoval,
};
use windlass_value::{BlobHash, Timestamp};

use crate::SqliteStore;
use crate::error::SqliteResult;
use crate::rows::check;
use crate::schema::unfinished;
use crate::seal::seal;
use crate::stored_run::StoredRun;
use crate::transaction::WriteTransaction;

/// Maximum number of rows, and approximate maximum number of bytes, that one call of `sweep` frees.
const MAX_ROWS_PER_SWEEP: u32 = 256;
const MAX_BYTES_PER_SWEEP: u64 = 16 * 1024 * 1024;

/// After this time a transaction starts on no further run, so that other writers can proceed. The commit comes on
/// top.
const MAX_WRITE_TIME: Duration = Duration::from_millis(25);

/// SQL for a run, `?1`, and all its descendants, parents first.
macro_rules! tree {
    ($root:literal) => {
        concat!(
            "WITH RECURSIVE tree(number, id) AS (
                 SELECT one.number, one.id FROM runs AS one WHERE one.number = ",
            $root,
            " UNION ALL SELECT one.number, one.id FROM runs AS one JOIN tree ON one.parent = tree.id) "
        )
    };
}

/// SQL condition: a run of the tree has not ended, ended too recently, or was written by a newer program.
macro_rules! is_needed {
    ($root:literal, $before:literal, $format:literal) => {
        concat!(
            "EXISTS (",
            tree!($root),
            "SELECT 1 FROM tree JOIN runs ON runs.number = tree.number WHERE ",
            unfinished!(),
            " OR runs.format > ",
            $format,
            " OR runs.changed_at >= ",
            $before,
            ")"
        )
    };
}

const ROOTS: &str = concat!(
    "SELECT top.number, top.id FROM runs AS top
     WHERE top.number > ?2 AND NOT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = top.parent)
         AND NOT ",
    is_needed!("top.number", "?1", "?4"),
    " ORDER BY top.number LIMIT ?3"
);

const IS_REMOVABLE: &str = concat!(
    "SELECT top.number FROM runs AS top
     WHERE top.id = ?1 AND NOT EXISTS (SELECT 1 FROM runs AS above WHERE above.id = top.parent)
         AND NOT ",
    is_needed!("top.number", "?2", "?3")
);

const ENDED_TREES: &str = concat!(
    "SELECT number, id, definition, status, changed_at FROM runs
     WHERE parent IS NULL AND number < ?1 AND NOT (",
    unfinished!(),
    ") ORDER BY number DESC LIMIT ?2"
);

const MEMBERS: &str = concat!(tree!("?1"), "SELECT number, id FROM tree");

const SIZE: &str = concat!(
    tree!("?1"),
    "SELECT (SELECT count(*) FROM tree),
         (SELECT coalesce(sum(length(body)), 0) FROM journal WHERE run IN (SELECT number FROM tree)) +
         (SELECT coalesce(sum(length(body)), 0) FROM snapshots WHERE run IN (SELECT number FROM tree)) +
         (SELECT coalesce(sum(length(body)), 0) FROM iterations WHERE run IN (SELECT number FROM tree)) +
         (SELECT coalesce(sum(bytes), 0) FROM log_totals WHERE run IN (SELECT number FROM tree)) +
         (SELECT coalesce(sum(length(body)), 0) FROM blobs
          WHERE hash IN (SELECT hash FROM blob_runs WHERE run IN (SELECT number FROM tree))
              AND NOT EXISTS (SELECT 1 FROM blob_runs
                              WHERE blob_runs.hash = blobs.hash AND run NOT IN (SELECT number FROM tree)))"
);

impl StoreClean for SqliteStore {
    fn removable(&self, before: Timestamp, after: i64, limit: u32) -> Result<Vec<RemovableTree>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare_cached(ROOTS)?;
            let roots =
                select.query_map(params![before.0, after, limit, RUN_FORMAT], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let roots = roots.collect::<rusqlite::Result<Vec<(i64, Arc<str>)>>>()?;
            let mut size = transaction.prepare_cached(SIZE)?;
            let mut describe = |(number, run): (i64, Arc<str>)| {
                let (runs, bytes) = size.query_row([number], |row| Ok((row.get(0)?, row.get(1)?)))?;
                Ok(RemovableTree { number, run, runs, bytes })
            };
            roots.into_iter().map(&mut describe).collect()
        })
    }

    fn ended_trees(&self, before: Option<i64>, limit: u32) -> Result<Vec<EndedTree>, StoreError> {
        self.read(|transaction| {
            let mut select = transaction.prepare_cached(ENDED_TREES)?;
            let rows = select.query_map(params![before.unwrap_or(i64::MAX), limit], |row| {
                let status: String = row.get(3)?;
                Ok(EndedTree {
                    number: row.get(0)?,
                    run: row.get(1)?,
                    definition: row.get(2)?,
                    // The condition of the query admits no other status.
                    status: RunStatus::parse(&status).unwrap_or(RunStatus::Failed),
                    ended_at: Timestamp(row.get(4)?),
                })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
    }

    fn remove(&self, run: &str, before: Timestamp) -> Result<TreeRemoval, StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| remove(transaction, run, before, &mut { MAX_REMOVED_PER_CALL }))
        })
    }

    fn remove_all(&self, runs: &[Arc<str>], before: Timestamp) -> Result<BatchRemoval, StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| {
                let (mut left, mut all, began) = (MAX_REMOVED_PER_CALL, BatchRemoval::default(), Instant::now());
                for run in runs {
                    if left == 0 || (all.runs > 0 && began.elapsed() >= MAX_WRITE_TIME) {
                        break;
                    }
                    let removed = remove(transaction, run, before, &mut left)?;
                    all.runs += removed.runs;
                    if removed.more {
                        break;
                    }
                    all.done += 1;
                }
                Ok(all)
            })
        })
    }

    fn sweep(&self) -> Result<SweepResult, StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| {
                let mut sweeper = Sweeper { transaction, rows: MAX_ROWS_PER_SWEEP, swept: SweepResult::default() };
                sweeper.sweep()?;
                Ok(sweeper.swept)
            })
        })
    }
}

/// Removes as much of a tree as the row budget allows.
fn remove(
    transaction: &WriteTransaction<'_>,
    run: &str,
    before: Timestamp,
    rows: &mut usize,
) -> SqliteResult<TreeRemoval> {
    let mut select = transaction.prepare_cached(IS_REMOVABLE)?;
    let root: Option<i64> = select.query_row(params![run, before.0, RUN_FORMAT], |row| row.get(0)).optional()?;
    let Some(root) = root else { return Ok(TreeRemoval::default()) };
    let mut select = transaction.prepare_cached(MEMBERS)?;
    let tree = select.query_map([root], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let tree = tree.collect::<rusqlite::Result<Vec<(i64, String)>>>()?;
    for (_, id) in &tree {
        // The conditions above were evaluated by SQL, which verifies nothing: a damaged run stays.
        match StoredRun::find(transaction, id) {
            Err(error) if error.is_damaged_row() => return Ok(TreeRemoval::default()),
            found => drop(found?),
        }
    }
    let mut removed = TreeRemoval::default();
    // Descendants first, the root last: the remaining descendants are found through the root.
    for (number, id) in tree.iter().rev() {
        if *rows == 0 {
            removed.more = true;
            break;
        }
        *rows = rows.saturating_sub(detach_run(transaction, *number, id)?);
        removed.runs += 1;
    }
    Ok(removed)
}

/// Removes a run from every listing. Returns the number of deleted rows.
fn detach_run(transaction: &WriteTransaction<'_>, number: i64, id: &str) -> SqliteResult<usize> {
    let mut rows = transaction.prepare_cached("DELETE FROM runs WHERE number = ?1")?.execute([number])?;
    rows += transaction.prepare_cached("DELETE FROM waits WHERE run = ?1")?.execute([number])?;
    rows += transaction.prepare_cached("DELETE FROM log_totals WHERE run = ?1")?.execute([number])?;
    rows += transaction.prepare_cached("DELETE FROM run_labels WHERE run = ?1")?.execute([number])?;
    rows += transaction.prepare_cached("DELETE FROM inbox WHERE run = ?1")?.execute([id])?;
    let mut insert = transaction.prepare_cached("INSERT INTO removed_runs (number, checksum) VALUES (?1, ?2)")?;
    insert.execute(params![number, seal(&[&number])])?;
    Ok(rows)
}

/// The progress of one `sweep` call.
struct Sweeper<'t> {
    transaction: &'t WriteTransaction<'t>,
    rows: u32,
    swept: SweepResult,
}

impl Sweeper<'_> {
    fn sweep(&mut self) -> SqliteResult<()> {
        while let Some(number) = self.next()? {
            self.free_rows(number)?;
            if self.is_full() {
                self.swept.more = true;
                return Ok(());
            }
            self.transaction.prepare_cached("DELETE FROM removed_runs WHERE number = ?1")?.execute([number])?;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.rows == 0 || self.swept.bytes >= MAX_BYTES_PER_SWEEP
    }

    /// Returns the next removed run that has rows left.
    fn next(&self) -> SqliteResult<Option<i64>> {
        let sql = "SELECT number, checksum, number FROM removed_runs ORDER BY number LIMIT 1";
        let mut select = self.transaction.prepare_cached(sql)?;
        let decode = |row: &Row<'_>| {
            check(row, 1, "removed_runs", self.transaction.file())?;
            Ok(row.get(0)?)
        };
        select.query_and_then([], decode)?.next().transpose()
    }

    /// Frees the rows of a run. A long row may span thousands of pages, so the byte budget is checked after each row.
    fn free_rows(&mut self, number: i64) -> SqliteResult<()> {
        const TABLES: [(&str, &str); 4] = [
            (
                "SELECT position FROM journal WHERE run = ?1 LIMIT 1",
                "DELETE FROM journal WHERE position = ?1 RETURNING length(body)",
            ),
            (
                "SELECT rowid FROM snapshots WHERE run = ?1 LIMIT 1",
                "DELETE FROM snapshots WHERE rowid = ?1 RETURNING length(body)",
            ),
            (
                "SELECT rowid FROM iterations WHERE run = ?1 LIMIT 1",
                "DELETE FROM iterations WHERE rowid = ?1 RETURNING length(body)",
            ),
            (
                "SELECT position FROM logs WHERE run = ?1 LIMIT 1",
                "DELETE FROM logs WHERE position = ?1 RETURNING length(CAST(text AS BLOB))",
            ),
        ];
        for (select, delete) in TABLES {
            while !self.is_full()
                && let Some(row) = self.first::<i64>(select, [number])?
            {
                let bytes = self.first::<u64>(delete, [row])?.unwrap_or(0);
                self.rows -= 1;
                self.swept.add_row(bytes);
            }
        }
        while !self.is_full()
            && let Some(hash) = self.first::<[u8; 32]>("SELECT hash FROM blob_runs WHERE run = ?1 LIMIT 1", [number])?
        {
            self.rows -= 1;
            self.free_blob(&BlobHash(hash), number)?;
        }
        Ok(())
    }

    fn free_blob(&mut self, hash: &BlobHash, number: i64) -> SqliteResult<()> {
        let mut delete = self.transaction.prepare_cached("DELETE FROM blob_runs WHERE hash = ?1 AND run = ?2")?;
        delete.execute(params![hash.0, number])?;
        let unused = "DELETE FROM blobs WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_runs WHERE hash = ?1)
                      RETURNING length(body)";
        if let Some(bytes) = self.first::<u64>(unused, [hash.0])? {
            self.swept.add_blob(bytes);
        }
        Ok(())
    }

    fn first<T: rusqlite::types::FromSql>(&self, sql: &str, parameters: impl Params) -> SqliteResult<Option<T>> {
        let mut statement = self.transaction.prepare_cached(sql)?;
        Ok(statement.query_row(parameters, |row| row.get(0)).optional()?)
    }
}
