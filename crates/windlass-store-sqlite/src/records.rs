//! Records that belong to no run.

use rusqlite::{OptionalExtension, params};
use windlass_store::{RecordChange, RecordRow, SpaceLeft, StoreError, StoreRecords};

use crate::SqliteStore;
use crate::damage::RECORD_ROWS;
use crate::error::SqliteResult;
use crate::rows::RECORD_COLUMNS;
use crate::seal::seal;
use crate::transaction::WriteTransaction;

impl StoreRecords for SqliteStore {
    fn record(&self, kind: &str, key: &str) -> Result<Option<RecordRow>, StoreError> {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE kind = ?1 AND key = ?2");
        self.only(&sql, [kind, key], &RECORD_ROWS)
    }

    fn records(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<RecordRow>, StoreError> {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM records WHERE kind = ?1 AND key > ?2 ORDER BY kind, key");
        self.intact(&sql, params![kind, after_key], &RECORD_ROWS, limit)
    }

    fn record_keys(&self, kind: &str, after_key: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT key FROM records WHERE kind = ?1 AND key > ?2 ORDER BY kind, key LIMIT ?3";
        self.all(sql, params![kind, after_key, limit], |row, _| Ok(row.get(0)?))
    }

    fn change_records(&self, changes: Vec<RecordChange>) -> Result<bool, StoreError> {
        let is_removal = changes.iter().all(|change| change.body.is_none());
        self.write_in_space(|left| {
            left.require(if is_removal { SpaceLeft::ControlOnly } else { SpaceLeft::Reserved })?;
            self.write_if(|transaction| {
                for change in changes.clone() {
                    if !change_record(transaction, change)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            })
        })
    }
}

fn change_record(transaction: &WriteTransaction<'_>, change: RecordChange) -> SqliteResult<bool> {
    let RecordChange { kind, key, expected_revision: expected, body, at } = change;
    let mut select = transaction.prepare_cached("SELECT revision FROM records WHERE kind = ?1 AND key = ?2")?;
    let revision: Option<u64> = select.query_row([&kind, &key], |row| row.get(0)).optional()?;
    if expected.is_some_and(|expected| expected != revision.unwrap_or(0)) {
        return Ok(false);
    }
    let mut delete = transaction.prepare_cached("DELETE FROM records WHERE revision = ?1")?;
    delete.execute([revision])?;
    let Some(body) = body else { return Ok(true) };
    let revision = transaction.next_revision();
    let checksum = seal(&[&revision, &kind.as_str(), &key.as_str(), &at.0, &&body[..]]);
    transaction.note(checksum);
    let mut insert = transaction.prepare_cached(
        "INSERT INTO records (revision, kind, key, at, checksum, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    insert.execute(params![revision, kind, key, at.0, checksum, body])?;
    Ok(true)
}
