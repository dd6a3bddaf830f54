//! The write operations.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use windlass_store::{
    BatchVerdict, ClaimResult, InboxRow, InboxVerdict, PlanRow, RUN_FORMAT, RunBatch, RunStatus, StoreError,
    StoreWrite, check_run_format,
};

use crate::append::{append, consume, put_message};
use crate::error::SqliteResult;
use crate::rows::{RELEASE, TICKS, plan_checksum};
use crate::{SqliteStore, owners, trees};

impl StoreWrite for SqliteStore {
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError> {
        self.write(|transaction| batches.into_iter().map(|batch| append(transaction, batch)).collect())
    }

    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError> {
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT OR IGNORE INTO plans (hash, dialect, checksum, body) VALUES (?1, ?2, ?3, ?4)",
            )?;
            insert.execute(params![plan.hash.0, plan.dialect, plan_checksum(plan), plan.body])?;
            Ok(())
        })
    }

    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError> {
        self.write(|transaction| self.claim_in(transaction, run, owner))
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError> {
        self.write(|transaction| runs.iter().map(|run| self.claim_in(transaction, run, owner)).collect())
    }

    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError> {
        self.write(|transaction| {
            let sql = format!("UPDATE runs SET {RELEASE}, owner = NULL WHERE id = ?1 AND owner_epoch = ?2");
            let mut update = transaction.prepare_cached(&sql)?;
            update.execute(params![run, owner_epoch])?;
            Ok(())
        })
    }

    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write(|transaction| Ok(self.put_in(transaction, message)?.0))
    }

    fn cancel_tree(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write(|transaction| {
            let (verdict, number) = self.put_in(transaction, message)?;
            if let Some(number) = number {
                trees::mark(transaction, number, trees::CANCELLED)?;
            }
            Ok(verdict)
        })
    }

    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError> {
        self.write(|transaction| {
            if RunHead::read(transaction, run)?.is_none() || is_known_request(transaction, run, request_id)? {
                return Ok(());
            }
            consume(transaction, &run.into(), &[request_id.into()])
        })
    }
}

impl SqliteStore {
    /// Puts a message into an inbox. Returns the number of the run if the message was accepted.
    fn put_in(&self, transaction: &Transaction<'_>, message: &InboxRow) -> SqliteResult<(InboxVerdict, Option<i64>)> {
        if is_known_request(transaction, &message.run, &message.request_id)? {
            return Ok((InboxVerdict::Duplicate, None));
        }
        let Some(head) = RunHead::read(transaction, &message.run)? else { return Ok((InboxVerdict::NoSuchRun, None)) };
        check_run_format(&message.run, head.format)?;
        if head.ended {
            return Ok((InboxVerdict::Ended, None));
        }
        put_message(transaction, message)?;
        let owner = match head.owner {
            Some(owner) if owners::is_alive(&self.owners, &owner)? => Some(owner),
            _ => None,
        };
        Ok((InboxVerdict::Accepted { owner }, Some(head.number)))
    }

    fn claim_in(&self, transaction: &Transaction<'_>, run: &str, owner: &str) -> SqliteResult<ClaimResult> {
        let Some(standing) = RunHead::read(transaction, run)? else { return Ok(ClaimResult::NoSuchRun) };
        if standing.format > RUN_FORMAT {
            return Ok(ClaimResult::NeedsNewer { format: standing.format });
        }
        if standing.ended {
            return Ok(ClaimResult::Ended);
        }
        match standing.owner {
            Some(holder) if holder != owner && owners::is_alive(&self.owners, &holder)? => {
                Ok(ClaimResult::HeldBy(holder))
            }
            _ => {
                let owner_epoch = standing.owner_epoch + 1;
                let mut update = transaction.prepare_cached(&format!(
                    "UPDATE runs SET {RELEASE}, owner = ?2, owner_epoch = ?3, format = ?4, claimed_ticks = {TICKS}
                     WHERE number = ?1"
                ))?;
                update.execute(params![standing.number, owner, owner_epoch, RUN_FORMAT])?;
                Ok(ClaimResult::Owned { owner_epoch })
            }
        }
    }
}

pub(crate) fn is_known_request(transaction: &Transaction<'_>, run: &str, request_id: &str) -> SqliteResult<bool> {
    let mut select = transaction.prepare_cached("SELECT 1 FROM inbox WHERE run = ?1 AND request_id = ?2")?;
    Ok(select.exists([run, request_id])?)
}

/// The fields of a run that a writer other than its owner needs.
struct RunHead {
    number: i64,
    owner: Option<String>,
    owner_epoch: u64,
    format: u32,
    ended: bool,
}

impl RunHead {
    fn read(transaction: &Transaction<'_>, run: &str) -> SqliteResult<Option<RunHead>> {
        let mut select =
            transaction.prepare_cached("SELECT number, owner, owner_epoch, status, format FROM runs WHERE id = ?1")?;
        let found = select.query_row([run], |row| {
            let status: String = row.get(3)?;
            let ended = RunStatus::parse(&status).is_some_and(RunStatus::is_final);
            Ok(RunHead {
                number: row.get(0)?,
                owner: row.get(1)?,
                owner_epoch: row.get(2)?,
                format: row.get(4)?,
                ended,
            })
        });
        Ok(found.optional()?)
    }
}
