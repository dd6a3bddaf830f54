//! Locates the programs of Postgres. `cargo xtask` includes this file too, so that it reports what is missing before
//! it runs anything: it must depend only on std.

use std::fs;
use std::path::PathBuf;

/// Names a folder that replaces the usual ones.
pub(crate) const VARIABLE: &str = "WINDLASS_TEST_POSTGRES";
pub(crate) const INSTALL: &str = "Postgres is not installed: `apt-get install postgresql` (or `dnf install postgresql-server`), \
                           or set WINDLASS_TEST_POSTGRES to the folder of initdb and postgres";

/// Returns the folder of the newest installed version.
pub(crate) fn programs() -> Option<PathBuf> {
    let is_whole = |folder: &PathBuf| folder.join("initdb").exists() && folder.join("postgres").exists();
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return Some(PathBuf::from(folder)).filter(is_whole);
    }
    let versions = fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).filter(is_whole).collect();
    let version = |folder: &PathBuf| -> Option<u32> { folder.parent()?.file_name()?.to_str()?.parse().ok() };
    found.sort_by_key(version);
    let others = ["/usr/local/pgsql/bin", "/usr/bin", "/opt/homebrew/bin"].into_iter().map(PathBuf::from);
    found.pop().or_else(|| others.into_iter().find(is_whole))
}
