//! Repair of a store that is refused: saves what the files still have, and says what is lost.
//!
//! A dry run repairs a copy, so that it reports what a repair would do instead of guessing it.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};
use windlass_store::{StoreError, StoreErrorKind};

use crate::chain::ChainLink;
use crate::error::{SqliteResult, SqliteStoreError, from_io};
use crate::head::{HEAD_FILE, HeadFile, HeadRecord, identity};
use crate::inventory::{Inventory, Mismatch, log_path};
use crate::open::{self, SqliteOptions};
use crate::session::UsersLock;
use crate::transaction::newest_link;
use crate::verify::verify;
use crate::wal::find_flipped_bit;

/// Bits that one repair corrects in the log.
const MAX_CORRECTIONS: usize = 64;

/// The steps and the result of a repair; empty lists if there is nothing to repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The problems of the files.
    pub problems: Vec<String>,
    /// The steps that were taken, or would be.
    pub actions: Vec<String>,
    /// The content of the store afterwards.
    pub saved: Vec<String>,
    /// The content that is lost.
    pub lost: Vec<String>,
    /// The folder with the files as they were; `None` after a dry run and if nothing was changed.
    pub copy: Option<PathBuf>,
}

impl RepairReport {
    /// Names the files as those of another directory.
    fn renamed(mut self, from: &Path, to: &Path) -> RepairReport {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let lists = [&mut self.problems, &mut self.actions, &mut self.saved, &mut self.lost];
        lists.into_iter().flatten().for_each(|line| *line = line.replace(&from, &to));
        self
    }
}

/// Repairs the store in a directory; with `dry_run`, only reports what a repair would do, and changes nothing.
///
/// No other process may have the store open. The files are copied into a folder of the directory before they are
/// changed.
pub fn repair(directory: &Path, dry_run: bool) -> Result<RepairReport, StoreError> {
    let file = directory.join("windlass.db");
    if !file.exists() {
        let message = format!("There is no database {}: a repair cannot bring it back.", file.display());
        let hint = "Restore a backup into an empty directory, or move this directory away and start anew.";
        return Err(StoreError::new(StoreErrorKind::Incomplete, message).with_hint(hint).with_file(&file));
    }
    let (_users, is_alone) = UsersLock::join(directory)?;
    if !is_alone {
        let message = format!("Another process has the store {} open.", directory.display());
        return Err(StoreError::new(StoreErrorKind::Busy, message).with_hint("End it first, such as the server."));
    }
    if Inventory::take(&file, None)?.is_none() {
        // A database of another program or format: the error of opening it says so.
        open::open_writer(&file, &SqliteOptions::default())?;
    }
    let trial = new_folder(directory, "repair-trial")?;
    copy_files(directory, &trial)?;
    let tried = Repair::new(&trial).run();
    remove_folder(&trial)?;
    let tried = tried?.renamed(&trial, directory);
    if dry_run || tried.problems.is_empty() {
        return Ok(tried);
    }
    let kept = new_folder(directory, "damaged")?;
    copy_files(directory, &kept)?;
    let report = Repair::new(directory).run()?;
    Ok(RepairReport { copy: Some(kept), ..report })
}

/// The files that a repair may change.
fn files() -> [String; 3] {
    ["windlass.db", "windlass.db-wal", HEAD_FILE].map(str::to_owned)
}

fn new_folder(directory: &Path, name: &str) -> Result<PathBuf, StoreError> {
    let names = std::iter::once(name.to_owned()).chain((2..).map(|number| format!("{name}-{number}")));
    for path in names.map(|name| directory.join(name)) {
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(from_io(&error, "make the folder", &path)),
        }
    }
    Ok(directory.join(name))
}

fn copy_files(from: &Path, to: &Path) -> Result<(), StoreError> {
    for name in files() {
        let (source, target) = (from.join(&name), to.join(&name));
        if source.exists() {
            let copied = fs::copy(&source, &target).and_then(|_| File::open(&target)?.sync_all());
            copied.map_err(|error| from_io(&error, "copy", &source))?;
        }
    }
    open::sync_directory(to)
}

fn remove_folder(path: &Path) -> Result<(), StoreError> {
    fs::remove_dir_all(path).map_err(|error| from_io(&error, "remove", path))
}

/// A repair in a directory.
struct Repair<'d> {
    directory: &'d Path,
    file: PathBuf,
    log: PathBuf,
    report: RepairReport,
}

impl<'d> Repair<'d> {
    fn new(directory: &'d Path) -> Repair<'d> {
        let file = directory.join("windlass.db");
        Repair { directory, log: log_path(&file), file, report: RepairReport::default() }
    }

    fn run(mut self) -> Result<RepairReport, StoreError> {
        let head = self.read_head()?;
        let mut inventory = self.inventory(head)?;
        if let Some(mismatch) = inventory.mismatch() {
            self.report.problems.push(mismatch.into_error(&inventory).message);
            self.correct_log(&mut inventory)?;
        }
        self.settle_log(&inventory)?;
        let connection = open::open_unchecked(&self.file).map_err(|error| error.into_error(&self.file))?;
        self.check_database(&connection);
        if !self.report.problems.is_empty() {
            let last = self.write_chain(&connection, &inventory).map_err(|error| error.into_error(&self.file))?;
            self.describe_saved(&connection, &inventory);
            open::close_writer(connection, true).map_err(|error| error.into_error(&self.file))?;
            let database = identity(&self.file)?.unwrap_or_default();
            HeadFile::create(self.directory, HeadRecord::of_link(&last, database).closed())?;
            open::sync_directory(self.directory)?;
        }
        Ok(self.report)
    }

    fn read_head(&self) -> Result<Option<HeadRecord>, StoreError> {
        match HeadFile::open(self.directory)? {
            Some(head) => head.lock()?.read(),
            None => Ok(None),
        }
    }

    fn inventory(&self, head: Option<HeadRecord>) -> Result<Inventory, StoreError> {
        let not_ours = || {
            let message = format!("{} is not a store that this program can read.", self.file.display());
            StoreError::new(StoreErrorKind::Version, message).with_file(&self.file)
        };
        Inventory::take(&self.file, head)?.ok_or_else(not_ours)
    }

    /// Corrects flipped bits of the log: the checksums of its frames say which one it was.
    fn correct_log(&mut self, inventory: &mut Inventory) -> Result<(), StoreError> {
        let failed = |error: std::io::Error| from_io(&error, "correct", &self.log);
        for _ in 0..MAX_CORRECTIONS {
            let walk = &inventory.walk;
            let is_broken = walk.broken_at.is_some() || (walk.bytes > 0 && !walk.has_header);
            if !is_broken || !matches!(inventory.mismatch(), Some(Mismatch::Missing { .. })) {
                return Ok(());
            }
            let Some((byte, mask)) = find_flipped_bit(&self.log, walk.broken_at).map_err(failed)? else {
                return Ok(());
            };
            let log = OpenOptions::new().read(true).write(true).open(&self.log).map_err(failed)?;
            let mut value = [0];
            log.read_exact_at(&mut value, byte).map_err(failed)?;
            log.write_all_at(&[value[0] ^ mask], byte).and_then(|()| log.sync_all()).map_err(failed)?;
            self.report.actions.push(format!("correct one flipped bit of the log, at byte {byte}"));
            *inventory = self.inventory(inventory.head)?;
        }
        Ok(())
    }

    /// Cuts off what the log has behind its last valid commit, or all of it if it does not belong to the database.
    fn settle_log(&mut self, inventory: &Inventory) -> Result<(), StoreError> {
        let keep = match inventory.mismatch() {
            None | Some(Mismatch::NoHead | Mismatch::DamagedHead | Mismatch::OtherHistory { .. }) => return Ok(()),
            Some(Mismatch::DamagedChain) => {
                self.report.lost.push("the number of the last commit: commits may be missing".to_owned());
                return Ok(());
            }
            Some(Mismatch::Missing { first, last }) => {
                self.report.lost.push(format!("the commits {first} to {last}: {}", inventory.log_state()));
                inventory.walk.valid_bytes
            }
            Some(Mismatch::OtherStore) if inventory.log_is_of_database() => return Ok(()),
            Some(Mismatch::OtherStore | Mismatch::LogDoesNotFit) => {
                let count = inventory.walk.links.len();
                if count > 0 {
                    self.report.lost.push(format!("{count} commits of a log that does not belong to this database"));
                }
                0
            }
        };
        if inventory.walk.bytes > keep {
            self.report.actions.push(format!("cut the log off after byte {keep}"));
            let cut = OpenOptions::new().write(true).open(&self.log).and_then(|log| {
                log.set_len(keep)?;
                log.sync_all()
            });
            cut.map_err(|error| from_io(&error, "cut", &self.log))?;
        }
        Ok(())
    }

    /// Checks pages and rows; rebuilds the indexes if anything is wrong.
    fn check_database(&mut self, connection: &Connection) {
        let findings = self.findings(connection);
        if findings.is_empty() {
            return;
        }
        self.report.actions.push("build all indexes anew".to_owned());
        if let Err(error) = connection.execute_batch("REINDEX") {
            self.report.lost.push(format!("some rows: the indexes could not be built anew ({error})"));
        }
        let left = self.findings(connection).into_iter().filter(|left| !left.contains("table chain"));
        self.report.lost.extend(left);
        self.report.problems.extend(findings);
    }

    fn findings(&self, connection: &Connection) -> Vec<String> {
        match connection.unchecked_transaction() {
            Ok(transaction) => verify(&transaction, &self.file),
            Err(error) => vec![SqliteStoreError::from(error).into_error(&self.file).message],
        }
    }

    /// Begins the chain anew behind everything that is known, so that no number is used twice.
    fn write_chain(&self, connection: &Connection, inventory: &Inventory) -> SqliteResult<ChainLink> {
        let newest: Option<u64> = connection.query_row(
            "SELECT max(max(coalesce((SELECT max(written) FROM runs), 0), coalesce((SELECT max(written) FROM inbox), 0)),
                        coalesce((SELECT max(written) FROM journal), 0))",
            [],
            |row| row.get(0),
        )?;
        let revision: Option<u64> = connection.query_row("SELECT max(revision) FROM records", [], |row| row.get(0))?;
        let before = match newest_link(connection, &self.file) {
            Ok(link) => link,
            Err(_) => ChainLink::first(inventory.head.map_or([0; 16], |head| head.store)),
        };
        let behind = before.sequence.max(inventory.acknowledged()).max(newest.unwrap_or(0));
        let link = before.jump(behind, revision.unwrap_or(0));
        let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        transaction.execute("DELETE FROM chain", [])?;
        transaction.execute("INSERT INTO chain (id, link) VALUES (1, ?1)", [link.encode()])?;
        transaction.commit()?;
        Ok(link)
    }

    fn describe_saved(&mut self, connection: &Connection, inventory: &Inventory) {
        self.report.actions.push("write a new head record".to_owned());
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table} NOT INDEXED");
            connection.query_row(&sql, [], |row| row.get::<_, u64>(0)).unwrap_or(0)
        };
        let commits =
            inventory.last().map_or_else(String::new, |last| format!("all commits up to {}: ", last.sequence));
        let (runs, rows, records) = (count("runs"), count("journal"), count("records"));
        self.report.saved.push(format!("{commits}{runs} runs, {rows} rows of their journals, {records} records"));
    }
}
