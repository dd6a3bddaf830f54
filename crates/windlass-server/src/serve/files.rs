//! Every connection is an open file, and a process may have only so many: without them the store cannot work, either.

/// What is not for connections: the store, programs, calls to others.
#[cfg(unix)]
const FOR_OTHERS: u64 = 256;

/// How many of these connections there can be. Asks the system for more files if it gives too few.
#[cfg(unix)]
pub(crate) fn max_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = wanted as u64 + FOR_OTHERS;
    let given = getrlimit(Resource::Nofile);
    if given.current.is_some_and(|current| current < files) {
        let max_files = given.maximum.map_or(files, |maximum| maximum.min(files));
        // Whoever may not does with what there is.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(max_files), maximum: given.maximum });
    }
    fitting(wanted, getrlimit(Resource::Nofile).current)
}

#[cfg(not(unix))]
pub(crate) fn connections(wanted: usize) -> usize {
    wanted
}

#[cfg(unix)]
fn fitting(wanted: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return wanted };
    let max = files.saturating_sub(FOR_OTHERS).max(files / 2);
    usize::try_from(max).map_or(wanted, |max| max.min(wanted))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_store_keeps_its_files() {
        let table =
            [(4_096, None, 4_096), (4_096, Some(20_000), 4_096), (4_096, Some(1_024), 768), (4_096, Some(256), 128)];
        for (wanted, files, expected) in table {
            assert_eq!(fitting(wanted, files), expected, "{wanted} of {files:?}");
        }
    }
}
