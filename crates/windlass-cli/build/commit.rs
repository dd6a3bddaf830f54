//! The commit that a program is built from. A test of this crate uses this file, too.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that sets the commit, for builds outside of a repository and for packages.
pub(crate) const VARIABLE: &str = "WINDLASS_COMMIT";

/// The number of digits that are shown.
const DIGITS: usize = 12;

/// Finds the commit: as given, else as `git archive` has written it into `archived`, else from the repository in `root`.
///
/// Returns `None` outside of a repository. A folder that merely lies inside another project's repository is not in one.
pub(crate) fn find(given: &str, root: Option<&Path>, archived: &str) -> Option<String> {
    let from_archive = || archived.trim().split(' ').next().filter(|hash| is_hash(hash)).map(shorten);
    let from_repository = || git(root?, &["rev-parse", "HEAD"]).filter(|hash| is_hash(hash)).map(|hash| shorten(&hash));
    let given = Some(given).filter(|given| !given.is_empty()).map(str::to_owned);
    given.or_else(from_archive).or_else(from_repository)
}

/// Returns the files of the repository that change with its commit. Cargo runs a build script every time if it watches
/// a file that does not exist.
pub(crate) fn watched_files(root: &Path) -> Vec<PathBuf> {
    let branch = git(root, &["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["HEAD", "logs/HEAD", "packed-refs"].into_iter().map(str::to_owned).chain(branch);
    let paths = names.filter_map(|name| git(root, &["rev-parse", "--git-path", &name]));
    paths.map(|path| root.join(path)).filter(|path| path.exists()).collect()
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

fn is_hash(text: &str) -> bool {
    text.len() >= DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn shorten(hash: &str) -> String {
    hash[..DIGITS].to_owned()
}
