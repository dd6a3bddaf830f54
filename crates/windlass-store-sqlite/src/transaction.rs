//! A write transaction, which ends with a link of the chain of commits.

use std::cell::Cell;
use std::ops::Deref;
use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::chain::ChainLink;
use crate::error::{SqliteResult, damaged};

/// A write transaction together with its place in the chain.
pub(crate) struct WriteTransaction<'t> {
    transaction: Transaction<'t>,
    file: &'t Path,
    previous: ChainLink,
    content: Cell<u64>,
    revision: Cell<u64>,
    changes: u64,
}

impl<'t> WriteTransaction<'t> {
    /// Begins a transaction and reads the newest link.
    pub(crate) fn begin(connection: &'t mut Connection, file: &'t Path) -> SqliteResult<WriteTransaction<'t>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let previous = newest_link(&transaction, file)?;
        let (content, revision, changes) = (Cell::new(0), Cell::new(previous.revision), transaction.total_changes());
        Ok(WriteTransaction { transaction, file, previous, content, revision, changes })
    }

    pub(crate) fn file(&self) -> &'t Path {
        self.file
    }

    /// Returns the number of this commit, which rows are stamped with.
    pub(crate) fn sequence(&self) -> u64 {
        self.previous.sequence + 1
    }

    /// Adds the checksum of a row to what the commit is known by.
    pub(crate) fn note(&self, checksum: u32) {
        self.content.set(self.content.get().rotate_left(7).wrapping_add(u64::from(checksum)));
    }

    /// Returns the next revision of a record.
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.set(self.revision.get() + 1);
        self.revision.get()
    }

    /// Commits. `synced` is the last commit that is known to be on the disk.
    ///
    /// Returns the new link, or `None` if the transaction has changed nothing: then nothing is written.
    pub(crate) fn commit(self, synced: u64) -> SqliteResult<Option<ChainLink>> {
        if self.transaction.total_changes() == self.changes {
            self.transaction.commit()?;
            return Ok(None);
        }
        let synced = synced.max(self.previous.synced);
        let link = self.previous.next(synced, self.revision.get(), self.content.get());
        self.transaction.prepare_cached("UPDATE chain SET link = ?1 WHERE id = 1")?.execute([link.encode()])?;
        self.transaction.commit()?;
        Ok(Some(link))
    }

    pub(crate) fn rollback(self) -> SqliteResult<()> {
        Ok(self.transaction.rollback()?)
    }
}

impl<'t> Deref for WriteTransaction<'t> {
    type Target = Transaction<'t>;

    fn deref(&self) -> &Transaction<'t> {
        &self.transaction
    }
}

/// Reads the link of the newest commit.
pub(crate) fn newest_link(connection: &Connection, file: &Path) -> SqliteResult<ChainLink> {
    let mut select = connection.prepare_cached("SELECT link FROM chain WHERE id = 1")?;
    let mut rows = select.query([])?;
    let link = match rows.next()? {
        Some(row) => row.get_ref(0)?.as_blob().ok().and_then(ChainLink::decode),
        None => None,
    };
    let message = || format!("The chain of commits in {} is damaged (table chain).", file.display());
    Ok(link.ok_or_else(|| damaged(message(), file))?)
}
