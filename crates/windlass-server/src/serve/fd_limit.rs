//! Every connection is an open file, and a process may have only so many: without them the store cannot work, either.

/// What is not for connections: the store, programs, calls to others.
#[cfg(unix)]
const RESERVED_FILES: u64 = 256;

/// How many of these connections there can be. Asks the system for more files if it gives too few.
#[cfg(unix)]
pub(crate) fn max_connections(requested: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = requested as u64 + RESERVED_FILES;
    let given = getrlimit(Resource::Nofile);
    if given.current.is_some_and(|current| current < files) {
        let max_files = given.maximum.map_or(files, |maximum| maximum.min(files));
        // Whoever may not does with what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(max_files), maximum: given.maximum });
    }
    connections_within(requested, getrlimit(Resource::Nofile).current)
}

#[cfg(not(unix))]
pub(crate) fn connections(wanted: usize) -> usize {
    wanted
}

#[cfg(unix)]
fn connections_within(requested: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return requested };
    let max = files.saturating_sub(RESERVED_FILES).max(files / 2);
    usize::try_from(max).map_or(requested, |max| max.min(requested))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_reserved_for_the_store() {
        let table =
            [(4_096, None, 4_096), (4_096, Some(20_000), 4_096), (4_096, Some(1_024), 768), (4_096, Some(256), 128)];
        for (requested, files, expected) in table {
            assert_eq!(connections_within(requested, files), expected, "{requested} of {files:?}");
        }
    }
}
