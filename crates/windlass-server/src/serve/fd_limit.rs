//! The open-file limit. Every connection is an open file; without free ones the store cannot work either.

/// Files reserved for other uses: the store, child processes, outbound calls.
#[cfg(unix)]
const RESERVED_FILES: u64 = 256;

/// Returns how many of the requested connections are possible. Raises the open-file limit if it is too low.
#[cfg(unix)]
pub(crate) fn max_connections(requested: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let files = requested as u64 + RESERVED_FILES;
    let given = getrlimit(Resource::Nofile);
    if given.current.is_some_and(|current| current < files) {
        let max_files = given.maximum.map_or(files, |maximum| maximum.min(files));
        // Without the permission to raise the limit, the current one applies.
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
