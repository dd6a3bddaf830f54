//! Messages to runs, and the requests that were made once.

use std::path::Path;
use std::sync::Arc;

use rusqlite::{Transaction, params};
use windlass_store::InboxRow;

use crate::error::SqliteResult;
use crate::rows::{INBOX_COLUMNS, StoredMessage, stored_message};
use crate::seal::seal;
use crate::stored_run::StoredRun;
use crate::transaction::WriteTransaction;
use crate::trees;

/// Returns the message or request with this id.
pub(crate) fn find_message(
    transaction: &Transaction<'_>,
    file: &Path,
    run: &str,
    request_id: &str,
) -> SqliteResult<Option<StoredMessage>> {
    let sql = format!("SELECT {INBOX_COLUMNS} FROM inbox WHERE run = ?1 AND request_id = ?2");
    let mut select = transaction.prepare_cached(&sql)?;
    select.query_and_then([run, request_id], |row| stored_message(row, file))?.next().transpose()
}

/// Marks requests as consumed. The row stays, without its body, so that the same request is recognised for ever.
///
/// A request that came without a message (from inside the owner's process) is recorded too.
pub(crate) fn consume(transaction: &WriteTransaction<'_>, run: &Arc<str>, consumed: &[Arc<str>]) -> SqliteResult<()> {
    for request_id in consumed {
        let mut upsert = transaction.prepare_cached(
            "INSERT INTO inbox (run, request_id, at, consumed, written, checksum, body) VALUES (?1, ?2, 0, 1, ?3, ?4, x'')
             ON CONFLICT (run, request_id) DO UPDATE SET
                 at = 0, consumed = 1, written = excluded.written, checksum = excluded.checksum, body = x''",
        )?;
        let written = transaction.sequence();
        let checksum = inbox_sum(run, request_id, (0, 1, written), &[]);
        transaction.note(checksum);
        upsert.execute(params![run, request_id, written, checksum])?;
    }
    Ok(())
}

/// Computes the checksum of a row of the inbox. The numbers are its time, its mark and its commit.
fn inbox_sum(run: &str, request_id: &str, (at, consumed, written): (i64, u8, u64), body: &[u8]) -> u32 {
    seal(&[&run, &request_id, &at, &consumed, &written, &body])
}

/// Delivers a message. It waits for a run that does not exist yet and is dropped for a run that has ended.
pub(crate) fn send(transaction: &WriteTransaction<'_>, message: &InboxRow) -> SqliteResult<()> {
    if !StoredRun::find(transaction, &message.run)?.is_some_and(|run| run.status.is_final()) {
        put_message(transaction, message)?;
    }
    Ok(())
}

/// Delivers a cancellation. For a run that does not exist yet only the request is recorded, as if it had been
/// consumed: there is no owner to wake.
pub(crate) fn cancel(transaction: &WriteTransaction<'_>, message: &InboxRow) -> SqliteResult<()> {
    match StoredRun::find(transaction, &message.run)? {
        Some(run) => {
            trees::mark(transaction, run.number, trees::CANCELLED_BY_CALLER)?;
            send(transaction, message)
        }
        None => consume(transaction, &message.run, std::slice::from_ref(&message.request_id)),
    }
}

/// Stores a message. Returns false if the request is already known.
pub(crate) fn put_message(transaction: &WriteTransaction<'_>, message: &InboxRow) -> SqliteResult<bool> {
    let InboxRow { run, request_id, body, at } = message;
    let mut insert = transaction.prepare_cached(
        "INSERT OR IGNORE INTO inbox (run, request_id, at, consumed, written, checksum, body)
         VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6)",
    )?;
    let written = transaction.sequence();
    let checksum = inbox_sum(run, request_id, (at.0, 0, written), body);
    transaction.note(checksum);
    let kept = insert.execute(params![run, request_id, at.0, written, checksum, body])?;
    Ok(kept == 1)
}
