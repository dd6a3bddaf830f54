//! Reads and scans of the memory store.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_value::{BlobHash, Timestamp};

use super::MemoryStore;
use super::image::{DiskImage, StoredRunImage};
use crate::backend::NARROW_COUNT_FACTOR;
use crate::verify::JournalCheck;
use crate::{
    InboxRow, IterationHeader, IterationOutcome, IterationRow, JournalRow, OpenWait, ParentFilter, PlanRow, RunFilter,
    RunRow, RunStatus, SnapshotRow, StatusCount, StoreError, StoreRead, StoreScan,
};

impl MemoryStore {
    pub(super) fn read_image<T>(&self, read: impl FnOnce(&DiskImage) -> T) -> Result<T, StoreError> {
        let disk = self.disk();
        disk.refuse_if_stopped()?;
        Ok(read(&disk.image))
    }

    /// Reads one run; returns the default for a run that does not exist.
    fn read_run<T: Default>(&self, run: &str, read: impl FnOnce(&StoredRunImage) -> T) -> Result<T, StoreError> {
        self.read_image(|image| image.run(run).map(read).unwrap_or_default())
    }

    fn try_read_run<T: Default>(
        &self,
        run: &str,
        read: impl FnOnce(&StoredRunImage) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.read_image(|image| image.run(run).map_or_else(|| Ok(T::default()), read))?
    }
}

impl StoreRead for MemoryStore {
    fn run(&self, run: &str) -> Result<Option<RunRow>, StoreError> {
        self.try_read_run(run, |run| Ok(Some(run.check()?.row.clone())))
    }

    fn run_by_execution_id(&self, execution_id: i64) -> Result<Option<RunRow>, StoreError> {
        self.read_image(|image| {
            let number = image.execution_ids.get(&execution_id)?;
            Some(image.runs.get(number)?.check().map(|run| run.row.clone()))
        })?
        .transpose()
    }

    fn plan(&self, hash: &BlobHash) -> Result<Option<PlanRow>, StoreError> {
        self.read_image(|image| image.plans.get(hash).cloned())
    }

    fn blob(&self, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError> {
        let blob = self.read_image(|image| image.blobs.get(hash).map(|blob| blob.read()))?;
        Ok(blob.transpose()?.map(|blob| blob.body))
    }

    fn blob_of_run(&self, run: &str, hash: &BlobHash) -> Result<Option<Vec<u8>>, StoreError> {
        let number = self.read_run(run, |run| Some(run.row.number))?;
        let wrote = self.read_image(|image| {
            let runs = image.blob_runs.get(hash);
            number.is_some_and(|number| runs.is_some_and(|runs| runs.contains(&number)))
        })?;
        if wrote { self.blob(hash) } else { Ok(None) }
    }

    fn snapshot(&self, run: &str, max_tick: Option<u64>) -> Result<Option<SnapshotRow>, StoreError> {
        self.try_read_run(run, |run| {
            let newest = run.snapshots.range(..=max_tick.unwrap_or(u64::MAX)).next_back();
            newest.map(|(_, snapshot)| snapshot.read()).transpose()
        })
    }

    fn oldest_snapshot(&self, run: &str) -> Result<Option<SnapshotRow>, StoreError> {
        self.try_read_run(run, |run| run.snapshots.values().next().map(|snapshot| snapshot.read()).transpose())
    }

    fn journal(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
        self.try_read_run(run, |run| {
            let start = run.journal.range(..=from).next_back().map_or(0, |(tick, _)| *tick);
            let rows = run.journal.range(start..).map(|(_, row)| row);
            let rows = rows.filter(|row| row.row.first_tick + u64::from(row.row.ticks) > from);
            rows.take(limit as usize).map(|row| row.read()).collect()
        })
    }

    fn journal_by_event(&self, run: &str, from: u64, limit: u32) -> Result<Vec<JournalRow>, StoreError> {
        self.try_read_run(run, |run| {
            let holds = |row: &JournalRow| row.events > 0 && row.first_event + u64::from(row.events) > from;
            // Backwards from the end, because readers of events usually need the newest.
            let newer = run.journal.values().rev();
            let newer = newer.take_while(|row| row.row.events == 0 || holds(&row.row));
            let mut rows: Vec<_> = newer.filter(|row| holds(&row.row)).collect();
            rows.reverse();
            rows.into_iter().take(limit as usize).map(|row| row.read()).collect()
        })
    }

    fn inbox(&self, run: &str, limit: u32) -> Result<Vec<InboxRow>, StoreError> {
        self.read_image(|image| {
            let positions = image.unconsumed_by_run.get(run).into_iter().flatten().take(limit as usize);
            positions.filter_map(|position| image.unconsumed.get(position).cloned()).collect()
        })
    }

    fn is_cancelled_above(&self, run: &str) -> Result<bool, StoreError> {
        self.read_image(|image| image.run(run).is_some_and(|run| image.is_cancelled_above(run)))
    }

    fn knows_request(&self, run: &str, request_id: &str) -> Result<bool, StoreError> {
        self.read_image(|image| image.is_known_request(run, request_id))
    }

    fn iterations(&self, run: &str, loop_path: &str, from: u64, limit: u32) -> Result<Vec<IterationRow>, StoreError> {
        self.read_run(run, |run| {
            let Some(rows) = run.iterations.get(loop_path) else { return Vec::new() };
            let start = rows.range(..=from).next_back().map_or(0, |(first, _)| *first);
            let touching = rows.range(start..).map(|(_, row)| row).filter(|row| row.last >= from);
            touching.take(limit as usize).cloned().collect()
        })
    }

    fn iteration_headers(
        &self,
        run: &str,
        loop_path: &str,
        from: u64,
        only_failed: bool,
        limit: u32,
    ) -> Result<Vec<IterationHeader>, StoreError> {
        self.read_run(run, |run| {
            let rows = run.iterations.get(loop_path).into_iter().flat_map(|rows| rows.values());
            let matching =
                rows.filter(|row| row.last >= from && (row.outcome == IterationOutcome::Failed || !only_failed));
            let head = |row: &IterationRow| IterationHeader { first: row.first, last: row.last, outcome: row.outcome };
            matching.take(limit as usize).map(head).collect()
        })
    }

    fn loops(&self, run: &str) -> Result<Vec<String>, StoreError> {
        self.read_run(run, |run| run.iterations.keys().map(|path| path.to_string()).collect())
    }
}

impl StoreScan for MemoryStore {
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        self.read_image(|image| {
            let older = image.runs.range(..before.unwrap_or(i64::MAX)).rev().filter(|(_, run)| !run.damaged);
            let older = older.map(|(_, run)| &run.row);
            older.filter(|row| matches_filter(filter, row)).take(limit as usize).cloned().collect()
        })
    }

    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> Result<Vec<StatusCount>, StoreError> {
        self.read_image(|image| {
            let newest = || image.runs.values().rev().map(|run| &run.row);
            let narrow = RunFilter { definition: filter.definition.clone(), ..RunFilter::default() };
            let narrow = match &filter.parent {
                Some(ParentFilter::Run(_)) => RunFilter { parent: filter.parent.clone(), ..RunFilter::default() },
                _ => narrow,
            };
            let looked: Vec<&RunRow> =
                newest().filter(|row| matches_filter(&narrow, row)).take(narrow_count_limit(max_per_status)).collect();
            let count = |status: RunStatus| {
                let (looked, full): (Vec<&RunRow>, bool) = match filter.is_narrow() {
                    true => (
                        looked.iter().copied().filter(|row| row.status == status).collect(),
                        looked.len() == narrow_count_limit(max_per_status),
                    ),
                    false => {
                        let of_status: Vec<&RunRow> =
                            newest().filter(|row| row.status == status).take(max_per_status as usize).collect();
                        let full = of_status.len() == max_per_status as usize;
                        (of_status, full)
                    }
                };
                let runs = looked.into_iter().filter(|row| matches_filter(filter, row)).count() as u64;
                StatusCount { status, runs, more: full }
            };
            RunStatus::ALL.into_iter().map(count).filter(|count| count.runs > 0).collect()
        })
    }

    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        self.read_image(|image| {
            let due = image.timers.iter().take_while(|(timer, _)| *timer <= now);
            let due = due.filter_map(|(_, number)| image.runs.get(number)).filter(|run| !run.damaged);
            due.take(limit as usize).map(|run| run.row.clone()).collect()
        })
    }

    fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read_image(|image| image.timers.first().map(|(timer, _)| *timer))
    }

    fn with_inbox(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        self.read_image(|image| {
            let mut seen: HashSet<&Arc<str>> = HashSet::new();
            let runs = image.unconsumed.values().map(|message| &message.run).filter(|run| seen.insert(run));
            runs.take(limit as usize).map(|run| run.to_string()).collect()
        })
    }

    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<OpenWait>, StoreError> {
        self.read_image(|image| {
            let later = image.waits.range(after.saturating_add(1)..);
            let open = later.filter_map(|(position, (number, wait))| {
                let row = &image.runs.get(number)?.row;
                let (run, definition) = (row.run.clone(), row.definition.clone());
                Some(OpenWait { position: *position, run, definition, wait: wait.clone() })
            });
            open.filter(|open| run.is_none_or(|run| *open.run == *run)).take(limit as usize).collect()
        })
    }

    fn change_mark(&self) -> Result<u64, StoreError> {
        let disk = self.disk();
        disk.refuse_if_stopped()?;
        Ok(disk.syncs)
    }

    fn verify(&self) -> Result<Vec<String>, StoreError> {
        self.read_image(|image| {
            let damaged = image.blobs.values().filter_map(|blob| blob.read().err()).map(|error| error.message);
            let records = image.records.values().filter_map(|record| record.read().err()).map(|error| error.message);
            let runs = image.runs.values().filter_map(|run| run.check().err()).map(|error| error.message);
            image.runs.values().flat_map(verify_run).chain(runs).chain(damaged).chain(records).collect()
        })
    }
}

fn narrow_count_limit(max_per_status: u32) -> usize {
    max_per_status.saturating_mul(NARROW_COUNT_FACTOR) as usize
}

fn matches_filter(filter: &RunFilter, row: &RunRow) -> bool {
    let has = |text: &str, part: &str| text.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
    filter.status.is_none_or(|status| row.status == status)
        && (filter.statuses.is_empty() || filter.statuses.contains(&row.status))
        && filter
            .running
            .as_ref()
            .is_none_or(|running| row.status != RunStatus::Running || running.matches(row.owner.as_deref()))
        && filter.definition.as_ref().is_none_or(|definition| row.definition == *definition)
        && filter.dialect.as_ref().is_none_or(|dialect| row.dialect == *dialect)
        && !(filter.unfinished && row.status.is_final())
        && filter.search.as_ref().is_none_or(|part| has(&row.run, part) || has(&row.definition, part))
        && filter.labels.iter().all(|(name, value)| row.labels.get(name) == Some(value))
        && filter.since.is_none_or(|since| row.created_at >= since)
        && filter.until.is_none_or(|until| row.created_at < until)
        && match &filter.parent {
            None => true,
            Some(ParentFilter::TopLevel) => row.parent.is_none(),
            Some(ParentFilter::Run(parent)) => row.parent.as_ref() == Some(parent),
        }
}

fn verify_run(run: &StoredRunImage) -> Vec<String> {
    let newest_snapshot = run.snapshots.last_key_value().map(|(tick, _)| *tick);
    let mut check = JournalCheck::new(&run.row.run, newest_snapshot);
    for sealed in run.journal.values() {
        check.check_row(&sealed.row);
        check.findings.extend(sealed.read().err().map(|error| format!("Run {}: {error}", run.row.run)));
    }
    for snapshot in run.snapshots.values() {
        check.findings.extend(snapshot.read().err().map(|error| format!("Run {}: {error}", run.row.run)));
    }
    check.finish()
}
