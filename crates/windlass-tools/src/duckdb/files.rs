//! Which database files are open. A process may have a file open once: calls that run at the same time share it, and with
//! the last of them it is closed, so that other programs can have it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::duckdb::{Config, Connection, Error};
use windlass_core::ErrorInfo;

use super::failed;
use crate::sql::blocking::Stop;

/// How long a call waits between two tries to open a file that another program has open.
const TRY: Duration = Duration::from_millis(50);

/// Of the whole process, as the rule is: there may be several tools.
static FILES: Mutex<BTreeMap<PathBuf, Arc<Mutex<File>>>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct File {
    users: usize,
    /// Keeps it open from the first user to the last. Their own connections are made from it.
    first: Option<Connection>,
}

/// Runs the work with a connection of its own.
pub(super) fn with<T>(
    database: &str,
    stop: &Stop,
    lock_wait: Duration,
    work: impl FnOnce(&Connection) -> Result<T, ErrorInfo>,
) -> Result<T, ErrorInfo> {
    if database.is_empty() || database.starts_with(":memory:") {
        let connection = config().and_then(Connection::open_in_memory_with_flags);
        return work(&connection.map_err(|error| failed(&error, None))?);
    }
    let user = User::new(one_name(Path::new(database)));
    // Its own connection ends before it leaves the file.
    let connection = user.connect(database, stop, lock_wait)?;
    work(&connection)
}

struct User {
    path: PathBuf,
    file: Arc<Mutex<File>>,
}

impl User {
    fn new(path: PathBuf) -> User {
        let file = held(&FILES).entry(path.clone()).or_default().clone();
        held(&file).users += 1;
        User { path, file }
    }

    fn connect(&self, database: &str, stop: &Stop, lock_wait: Duration) -> Result<Connection, ErrorInfo> {
        let mut file = held(&self.file);
        let first = match file.first.take() {
            Some(first) => first,
            None => patiently(database, stop, lock_wait)?,
        };
        let own = first.try_clone().map_err(|error| failed(&error, None));
        file.first = Some(first);
        own
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let mut file = held(&self.file);
        file.users -= 1;
        if file.users == 0 {
            // It is closed while it is held: who comes next opens it only then.
            file.first = None;
        }
        drop(file);
        let mut files = held(&FILES);
        // Only the list and this one have it: nobody else can come to have it while the list is held.
        if Arc::strong_count(&self.file) == 2 {
            files.remove(&self.path);
        }
    }
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nothing is fetched from the network because a statement mentions it.
fn config() -> Result<Config, Error> {
    Config::default().enable_autoload_extension(false)
}

fn patiently(database: &str, stop: &Stop, lock_wait: Duration) -> Result<Connection, ErrorInfo> {
    let begun = Instant::now();
    loop {
        match config().and_then(|config| Connection::open_with_flags(database, config)) {
            Ok(connection) => return Ok(connection),
            Err(error) if error.to_string().contains("Could not set lock") && begun.elapsed() < lock_wait => {
                stop.check()?;
                std::thread::sleep(TRY);
            }
            Err(error) => return Err(failed(&error, None)),
        }
    }
}

/// However a file is spelled, it is one. It may have to be made.
fn one_name(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    path.canonicalize()
        .or_else(|_| folder.canonicalize().map(|folder| folder.join(path.file_name().unwrap_or_default())))
        .unwrap_or_else(|_| path.to_owned())
}
