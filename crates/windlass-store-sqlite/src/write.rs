//! The write operations.

use std::sync::Arc;

use rusqlite::params;
use windlass_store::{
    BatchVerdict, ClaimResult, InboxRow, InboxVerdict, MAX_CONTROL_BYTES, PlanRow, RUN_FORMAT, RunBatch, SpaceLeft,
    StoreError, StoreErrorKind, StoreWrite, check_run_format,
};

use crate::append::append;
use crate::error::SqliteResult;
use crate::inbox::{consume, find_message, put_message};
use crate::seal::seal;
use crate::stored_run::StoredRun;
use crate::transaction::WriteTransaction;
use crate::{SqliteStore, owners, trees};

impl StoreWrite for SqliteStore {
    fn append(&self, batches: Vec<RunBatch>) -> Result<Vec<BatchVerdict>, StoreError> {
        self.write_in_space(|left| {
            let all = self
                .write(|transaction| batches.iter().map(|batch| append_in_space(transaction, batch, left)).collect());
            match all {
                Err(error) if error.kind == StoreErrorKind::Damaged => self.append_intact(&batches, left),
                all => all,
            }
        })
    }

    fn put_plan(&self, plan: &PlanRow) -> Result<(), StoreError> {
        self.reserve.known().require(SpaceLeft::Enough)?;
        self.write(|transaction| {
            let mut insert = transaction.prepare_cached(
                "INSERT OR IGNORE INTO plans (hash, dialect, checksum, body) VALUES (?1, ?2, ?3, ?4)",
            )?;
            let checksum = seal(&[&&plan.hash.0[..], &plan.dialect.as_str(), &&plan.body[..]]);
            insert.execute(params![plan.hash.0, plan.dialect, checksum, plan.body])?;
            Ok(())
        })
    }

    fn claim(&self, run: &str, owner: &str) -> Result<ClaimResult, StoreError> {
        match self.claim_all(&[run.into()], owner)?.pop() {
            Some(claim) => Ok(claim),
            None => Ok(ClaimResult::NoSuchRun),
        }
    }

    fn claim_all(&self, runs: &[Arc<str>], owner: &str) -> Result<Vec<ClaimResult>, StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| {
                let claim = |run: &Arc<str>| {
                    self.claim_in(transaction, run, owner).or_else(|trouble| match trouble.into_error(self.file()) {
                        error if error.kind == StoreErrorKind::Damaged => {
                            Ok(ClaimResult::Damaged { reason: error.message })
                        }
                        error => Err(error.into()),
                    })
                };
                runs.iter().map(claim).collect()
            })
        })
    }

    fn release(&self, run: &str, owner_epoch: u64) -> Result<(), StoreError> {
        self.write_in_space(|_| self.write(|transaction| release(transaction, run, owner_epoch)))
    }

    fn inbox_put(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write_in_space(|left| {
            if message.body.len() > MAX_CONTROL_BYTES {
                left.require(SpaceLeft::Reserved)?;
            }
            self.write(|transaction| Ok(self.put_in(transaction, message)?.0))
        })
    }

    fn cancel_tree(&self, message: &InboxRow) -> Result<InboxVerdict, StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| {
                let (verdict, number) = self.put_in(transaction, message)?;
                if let Some(number) = number {
                    trees::mark(transaction, number, trees::CANCELLED)?;
                }
                Ok(verdict)
            })
        })
    }

    fn note_request(&self, run: &str, request_id: &str) -> Result<(), StoreError> {
        self.write_in_space(|_| {
            self.write(|transaction| {
                let is_known = find_message(transaction, transaction.file(), run, request_id)?.is_some();
                if is_known || StoredRun::find(transaction, run)?.is_none() {
                    return Ok(());
                }
                consume(transaction, &run.into(), &[request_id.into()])
            })
        })
    }
}

/// Appends a batch if the space that is left is for it.
fn append_in_space(
    transaction: &WriteTransaction<'_>,
    batch: &RunBatch,
    left: SpaceLeft,
) -> SqliteResult<BatchVerdict> {
    match left.admits(batch) {
        true => append(transaction, batch),
        false => Ok(BatchVerdict::NoSpace),
    }
}

impl SqliteStore {
    /// Appends the batches that damage does not prevent. The others get the verdict `Damaged`.
    ///
    /// Each batch is tried alone and rolled back, so that all intact ones still commit together or not at all.
    fn append_intact(&self, batches: &[RunBatch], left: SpaceLeft) -> Result<Vec<BatchVerdict>, StoreError> {
        let mut intact = Vec::with_capacity(batches.len());
        for batch in batches {
            let tried = self.write_if(|transaction| append_in_space(transaction, batch, left).map(|_| false));
            match tried {
                Err(error) if error.kind == StoreErrorKind::Damaged => intact.push(false),
                tried => intact.push(tried.map(|_| true)?),
            }
        }
        self.write(|transaction| {
            let append_one = |(batch, intact)| match intact {
                true => append_in_space(transaction, batch, left),
                false => Ok(BatchVerdict::Damaged),
            };
            batches.iter().zip(intact).map(append_one).collect()
        })
    }

    /// Gives runs a higher owner epoch and no owner. `owner` is a live owner, under which they are claimed.
    pub(crate) fn renew_owners(&self, runs: &[Arc<str>], owner: &str) -> Result<(), StoreError> {
        self.write(|transaction| {
            for run in runs {
                if let ClaimResult::Owned { owner_epoch } = self.claim_in(transaction, run, owner)? {
                    release(transaction, run, owner_epoch)?;
                }
            }
            Ok(())
        })
    }

    /// Puts a message into an inbox. Returns the number of the run if the message was accepted.
    fn put_in(
        &self,
        transaction: &WriteTransaction<'_>,
        message: &InboxRow,
    ) -> SqliteResult<(InboxVerdict, Option<i64>)> {
        if find_message(transaction, transaction.file(), &message.run, &message.request_id)?.is_some() {
            return Ok((InboxVerdict::Duplicate, None));
        }
        let Some(standing) = StoredRun::find(transaction, &message.run)? else {
            return Ok((InboxVerdict::NoSuchRun, None));
        };
        check_run_format(&message.run, standing.format)?;
        if standing.status.is_final() {
            return Ok((InboxVerdict::Ended, None));
        }
        put_message(transaction, message)?;
        let owner = match standing.owner {
            Some(owner) if owners::is_alive(&self.owners, &owner)? => Some(owner),
            _ => None,
        };
        Ok((InboxVerdict::Accepted { owner }, Some(standing.number)))
    }

    fn claim_in(&self, transaction: &WriteTransaction<'_>, run: &str, owner: &str) -> SqliteResult<ClaimResult> {
        let Some(before) = StoredRun::find(transaction, run)? else { return Ok(ClaimResult::NoSuchRun) };
        if before.format > RUN_FORMAT {
            return Ok(ClaimResult::NeedsNewer { format: before.format });
        }
        if before.status.is_final() {
            return Ok(ClaimResult::Ended);
        }
        match &before.owner {
            Some(holder) if holder != owner && owners::is_alive(&self.owners, holder)? => {
                Ok(ClaimResult::HeldBy(holder.clone()))
            }
            _ => {
                let owner_epoch = before.owner_epoch + 1;
                let mut claimed = before.clone();
                claimed.release(transaction)?;
                (claimed.owner, claimed.owner_epoch) = (Some(owner.to_owned()), owner_epoch);
                (claimed.format, claimed.claimed_ticks) = (RUN_FORMAT, before.ticks(transaction)?);
                claimed.save(transaction, &before, None)?;
                Ok(ClaimResult::Owned { owner_epoch })
            }
        }
    }
}

fn release(transaction: &WriteTransaction<'_>, run: &str, owner_epoch: u64) -> SqliteResult<()> {
    match StoredRun::find(transaction, run)? {
        Some(before) if before.owner_epoch == owner_epoch => {
            let mut released = before.clone();
            released.release(transaction)?;
            released.save(transaction, &before, None)
        }
        _ => Ok(()),
    }
}
