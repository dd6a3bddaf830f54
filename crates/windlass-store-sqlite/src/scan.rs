//! Scans over runs.

use rusqlite::types::Value;
use rusqlite::{params, params_from_iter};
use windlass_store::backend::NARROW_COUNT_FACTOR;
use windlass_store::{
    OpenWait, ParentFilter, RunFilter, RunRow, RunStatus, RunningFilter, ScrubReport, StatusCount, StoreError,
    StoreScan,
};
use windlass_value::Timestamp;

use crate::error::SqliteResult;
use crate::rows::{RUN_COLUMNS, WAIT_COLUMNS, open_wait, run_row};
use crate::schema::unfinished;
use crate::{SqliteStore, locked, open, owners};

impl StoreScan for SqliteStore {
    fn runs(&self, filter: &RunFilter, before: Option<i64>, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        self.read(|transaction| {
            let mut page = Vec::new();
            // One status at a time: each page comes in order from an index, whereas several statuses would have to be
            // sorted.
            for status in statuses(filter) {
                let query = RunQuery::from_filter(filter, status);
                let mut select = transaction.prepare_cached(&query.sql())?;
                let numbers = [Value::from(before.unwrap_or(i64::MAX)), Value::from(i64::from(limit))];
                let parameters = params_from_iter(numbers.into_iter().chain(query.parameters));
                page.extend(select.query_map(parameters, |row| row.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?);
            }
            page.sort_unstable_by(|one, other| other.cmp(one));
            page.truncate(limit as usize);
            let mut select =
                transaction.prepare_cached(&format!("SELECT {RUN_COLUMNS} FROM runs WHERE number = ?1"))?;
            let mut rows = Vec::with_capacity(page.len());
            for number in page {
                rows.extend(select.query_and_then([number], |row| run_row(row, self.file()))?.next().transpose()?);
            }
            Ok(rows)
        })
    }

    fn counts(&self, filter: &RunFilter, max_per_status: u32) -> Result<Vec<StatusCount>, StoreError> {
        let requested: Vec<RunStatus> = match statuses(filter)[..] {
            [None] => RunStatus::ALL.into(),
            ref some => some.iter().copied().flatten().collect(),
        };
        let (passes, max_runs) = match filter.is_narrow() {
            true => (vec![None], max_per_status.saturating_mul(NARROW_COUNT_FACTOR)),
            false => (requested.iter().copied().map(Some).collect(), max_per_status),
        };
        self.read(|transaction| {
            let mut counts = Vec::new();
            for status in passes {
                let query = RunQuery::from_filter(filter, status);
                let mut select = transaction.prepare_cached(&query.count_sql())?;
                let numbers = [Value::from(i64::MAX), Value::from(i64::from(max_runs))];
                let parameters = params_from_iter(numbers.into_iter().chain(query.parameters));
                let rows = select.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                let rows = rows.collect::<rusqlite::Result<Vec<(String, u64, u64)>>>()?;
                let more = rows.iter().map(|(_, looked, _)| looked).sum::<u64>() >= u64::from(max_runs);
                let counted = rows.into_iter().filter_map(|(word, _, runs)| Some((RunStatus::parse(&word)?, runs)));
                let counted = counted.filter(|(status, runs)| *runs > 0 && requested.contains(status));
                counts.extend(counted.map(|(status, runs)| StatusCount { status, runs, more }));
            }
            counts.sort_by_key(|count| RunStatus::ALL.iter().position(|status| *status == count.status));
            Ok(counts)
        })
    }

    fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        // A run that has ended has no timer.
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM runs WHERE timer IS NOT NULL AND timer <= ?1 ORDER BY timer, number LIMIT ?2"
        );
        self.all(&sql, params![now.0, limit], run_row)
    }

    fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        // Only the index is read: the caller that acts on the time reads the row.
        let sql = "SELECT timer FROM runs WHERE timer IS NOT NULL ORDER BY timer LIMIT 1";
        Ok(self.all(sql, [], |row, _| Ok(Timestamp(row.get(0)?)))?.pop())
    }

    fn with_inbox(&self, limit: u32) -> Result<Vec<String>, StoreError> {
        // A run that has ended has no unconsumed messages; a run that is yet to be created counts.
        let sql = "SELECT run FROM inbox WHERE consumed = 0 GROUP BY run ORDER BY min(position) LIMIT ?1";
        self.all(sql, [limit], |row, _| Ok(row.get(0)?))
    }

    fn waits(&self, run: Option<&str>, after: i64, limit: u32) -> Result<Vec<OpenWait>, StoreError> {
        let of_run = match run {
            Some(_) => "waits.run = (SELECT number FROM runs WHERE id = ?3)",
            None => "?3 IS NULL",
        };
        let sql = format!(
            "SELECT {WAIT_COLUMNS} FROM waits JOIN runs ON runs.number = waits.run
             WHERE position > ?1 AND {of_run} ORDER BY position LIMIT ?2"
        );
        self.all(&sql, params![after, limit, run], open_wait)
    }

    fn change_mark(&self) -> Result<u64, StoreError> {
        self.refuse_if_stopped()?;
        let mut watcher = locked(&self.watcher);
        let mut look = || -> SqliteResult<u64> {
            let connection = match watcher.take() {
                Some(connection) => connection,
                None => open::open_reader(self.file(), &self.options)?,
            };
            let mark = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
            *watcher = Some(connection);
            Ok(mark)
        };
        look().map_err(|trouble| trouble.into_error(self.file()))
    }

    fn verify(&self) -> Result<Vec<String>, StoreError> {
        let mut findings = self.read(|transaction| Ok(super::verify::verify(transaction, self.file())))?;
        findings.extend(owners::damaged_heartbeats(&self.owners));
        Ok(findings)
    }

    fn scrub(&self, busy_percent: u32) -> Result<ScrubReport, StoreError> {
        self.scrub_slowly(busy_percent)
    }
}

/// Returns the statuses that match; a single `None` if any status does.
fn statuses(filter: &RunFilter) -> Vec<Option<RunStatus>> {
    if filter.statuses.is_empty() {
        return vec![filter.status];
    }
    let wanted =
        |status: &RunStatus| filter.statuses.contains(status) && filter.status.is_none_or(|one| one == *status);
    RunStatus::ALL.into_iter().filter(wanted).map(Some).collect()
}

/// Selects the numbers of a page of runs. `?1` is the number before which it begins, `?2` its maximum length.
struct RunQuery {
    conditions: Vec<String>,
    parameters: Vec<Value>,
    /// The index that has the order of the page and the fewest rows that do not match.
    index: &'static str,
    /// The first label of the filter: its rows select the runs, instead of an index of `runs`.
    label: Option<String>,
}

impl RunQuery {
    fn from_filter(filter: &RunFilter, status: Option<RunStatus>) -> RunQuery {
        let index = match filter {
            RunFilter { parent: Some(ParentFilter::Run(_)), .. } => "runs_parent",
            RunFilter { unfinished: true, .. } => "runs_unfinished",
            RunFilter { definition: Some(_), .. } => "runs_definition",
            _ if status.is_some() => "runs_status",
            RunFilter { search: None, dialect: None, since: None, until: None, parent: Some(_), .. } => "runs_top",
            _ => "runs_scan",
        };
        let mut query =
            RunQuery { conditions: vec!["number < ?1".to_owned()], parameters: Vec::new(), index, label: None };
        filter.labels.iter().for_each(|(name, value)| query.and_label(name, value));
        if let Some(status) = status {
            query.and("status = ?", status.as_str().to_owned());
        }
        if let Some(running) = filter.running.as_ref().filter(|_| status.is_none_or(|one| one == RunStatus::Running)) {
            query.and_running(running);
        }
        if let Some(definition) = &filter.definition {
            query.and("definition = ?", definition.clone());
        }
        if let Some(dialect) = &filter.dialect {
            query.and("dialect = ?", dialect.clone());
        }
        if filter.unfinished {
            query.conditions.push(unfinished!().to_owned());
        }
        if let Some(part) = &filter.search {
            query.and("(instr(lower(id), ?) OR instr(lower(definition), ?))", part.to_ascii_lowercase());
        }
        match &filter.parent {
            None => {}
            Some(ParentFilter::TopLevel) => query.conditions.push("parent IS NULL".to_owned()),
            Some(ParentFilter::Run(parent)) => query.and("parent IS NOT NULL AND parent = ?", parent.to_string()),
        }
        if let Some(since) = filter.since {
            query.and("created_at >= ?", since.0);
        }
        if let Some(until) = filter.until {
            query.and("created_at < ?", until.0);
        }
        query
    }

    /// Adds the condition on the owner of a running run. The owners are one parameter, so that their number does not
    /// change the statement; no owner's name contains a comma.
    fn and_running(&mut self, running: &RunningFilter) {
        let (owners, test) = match running {
            RunningFilter::OwnedBy(owners) => (owners, "> 0"),
            RunningFilter::NotOwnedBy(owners) => (owners, "= 0"),
        };
        let is_among = "coalesce(instr(?, ',' || owner || ','), 0)";
        self.and(&format!("(status <> 'running' OR {is_among} {test})"), format!(",{},", owners.join(",")));
    }

    fn and_label(&mut self, name: &str, value: &str) {
        let first = self.parameters.len() + 3;
        self.parameters.extend([Value::from(name.to_owned()), Value::from(value.to_owned())]);
        let is_label = format!("name = ?{first} AND value = ?{}", first + 1);
        match self.label {
            None => self.label = Some(is_label),
            Some(_) => {
                let exists = format!("EXISTS (SELECT 1 FROM run_labels WHERE run = number AND {is_label})");
                self.conditions.push(exists);
            }
        }
    }

    /// Adds a condition. Each question mark in it stands for the value.
    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.parameters.push(value.into());
        let placeholder = format!("?{}", 2 + self.parameters.len());
        self.conditions.push(condition.replace('?', &placeholder));
    }

    /// Builds the query that counts, for each status, the examined runs and those of them that match.
    ///
    /// The examined rows come from one index, by one condition; the other conditions are only counted.
    fn count_sql(&self) -> String {
        let indexes = [
            ("runs_parent", "parent IS NOT NULL AND"),
            ("runs_definition", "definition ="),
            ("runs_status", "status ="),
        ];
        if let Some(is_label) = &self.label {
            let all = self.conditions.join(" AND ");
            return format!(
                "SELECT status, count(*), coalesce(sum(fits), 0)
                 FROM (SELECT status, ({all}) AS fits FROM run_labels AS label
                       CROSS JOIN runs ON runs.number = label.run
                       WHERE {is_label} ORDER BY label.run DESC LIMIT ?2)
                 GROUP BY status"
            );
        }
        let condition_with = |leading: &str| self.conditions.iter().find(|condition| condition.starts_with(leading));
        let found = indexes.into_iter().find_map(|(index, leading)| Some((index, condition_with(leading)?.as_str())));
        let (index, leading) = found.unwrap_or(("runs_scan", "TRUE"));
        let all = self.conditions.join(" AND ");
        format!(
            "SELECT status, count(*), coalesce(sum(fits), 0)
             FROM (SELECT status, ({all}) AS fits FROM runs INDEXED BY {index}
                   WHERE {leading} ORDER BY number DESC LIMIT ?2)
             GROUP BY status"
        )
    }

    fn sql(&self) -> String {
        let (index, conditions) = (self.index, self.conditions.join(" AND "));
        if let Some(is_label) = &self.label {
            return format!(
                "SELECT number FROM run_labels AS label CROSS JOIN runs ON runs.number = label.run
                 WHERE {is_label} AND label.run < ?1 AND {conditions} ORDER BY label.run DESC LIMIT ?2"
            );
        }
        format!("SELECT number FROM runs INDEXED BY {index} WHERE {conditions} ORDER BY number DESC LIMIT ?2")
    }
}
