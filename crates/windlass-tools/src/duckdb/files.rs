//! The open database files. A process may open a file only once: concurrent calls share it, and the last call closes
//! it so that other programs can open it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::duckdb::{Config, Connection, Error};
use windlass_core::ErrorInfo;

use super::error_info;
use crate::sql::blocking::StopSignal;

/// Interval between attempts to open a file that another program has open.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Global because the restriction applies to the process, which may have several tools.
static OPEN_FILES: Mutex<BTreeMap<PathBuf, Arc<Mutex<OpenFile>>>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct OpenFile {
    users: usize,
    /// Keeps the file open from the first user to the last; the users' connections are cloned from it.
    root: Option<Connection>,
}

/// Runs `work` with a dedicated connection.
pub(super) fn with_connection<T>(
    database: &str,
    stop: &StopSignal,
    lock_wait: Duration,
    work: impl FnOnce(&Connection) -> Result<T, ErrorInfo>,
) -> Result<T, ErrorInfo> {
    if database.is_empty() || database.starts_with(":memory:") {
        let connection = config().and_then(Connection::open_in_memory_with_flags);
        return work(&connection.map_err(|error| error_info(&error, None))?);
    }
    let user = FileUser::new(canonical_path(Path::new(database)));
    // The connection is dropped before the file user.
    let connection = user.connect(database, stop, lock_wait)?;
    work(&connection)
}

struct FileUser {
    path: PathBuf,
    file: Arc<Mutex<OpenFile>>,
}

impl FileUser {
    fn new(path: PathBuf) -> FileUser {
        let file = lock_mutex(&OPEN_FILES).entry(path.clone()).or_default().clone();
        lock_mutex(&file).users += 1;
        FileUser { path, file }
    }

    fn connect(&self, database: &str, stop: &StopSignal, lock_wait: Duration) -> Result<Connection, ErrorInfo> {
        let mut file = lock_mutex(&self.file);
        let first = match file.root.take() {
            Some(first) => first,
            None => open_with_retry(database, stop, lock_wait)?,
        };
        let own = first.try_clone().map_err(|error| error_info(&error, None));
        file.root = Some(first);
        own
    }
}

impl Drop for FileUser {
    fn drop(&mut self) {
        let mut file = lock_mutex(&self.file);
        file.users -= 1;
        if file.users == 0 {
            // The file is closed while its lock is held, so the next user opens it only afterwards.
            file.root = None;
        }
        drop(file);
        let mut files = lock_mutex(&OPEN_FILES);
        // Only the map and this user hold the file, and no other user can obtain it while the map is locked.
        if Arc::strong_count(&self.file) == 2 {
            files.remove(&self.path);
        }
    }
}

fn lock_mutex<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Disables extension autoloading, so that no statement causes a download.
fn config() -> Result<Config, Error> {
    Config::default().enable_autoload_extension(false)
}

fn open_with_retry(database: &str, stop: &StopSignal, lock_wait: Duration) -> Result<Connection, ErrorInfo> {
    let begun = Instant::now();
    loop {
        match config().and_then(|config| Connection::open_with_flags(database, config)) {
            Ok(connection) => return Ok(connection),
            Err(error) if error.to_string().contains("Could not set lock") && begun.elapsed() < lock_wait => {
                stop.check()?;
                std::thread::sleep(RETRY_INTERVAL);
            }
            Err(error) => return Err(error_info(&error, None)),
        }
    }
}

/// Returns one path for all spellings of a file, which need not exist yet.
fn canonical_path(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    path.canonicalize()
        .or_else(|_| folder.canonicalize().map(|folder| folder.join(path.file_name().unwrap_or_default())))
        .unwrap_or_else(|_| path.to_owned())
}
