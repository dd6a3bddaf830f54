//! README files of packages. The one of the repository begins with commands for a machine with Rust; the users of a
//! package have the program.

use crate::error::DistError;
use crate::release::Release;

/// The comments around the part of README.md that is about the source.
const BEGIN: &str = "<!-- source -->\n";
const END: &str = "<!-- /source -->\n";

/// The README of a package without the documents that the one of the repository links to.
pub(crate) const PACKAGE: &str = include_str!("../assets/readme/package.md");

/// Returns the README of the archive, where the program is in the same folder.
pub(crate) fn archived(release: &Release) -> Result<String, DistError> {
    with_first_commands(release, include_str!("../assets/readme/archived.md"))
}

/// Returns the README beside an installed program.
pub(crate) fn installed(release: &Release) -> Result<String, DistError> {
    with_first_commands(release, include_str!("../assets/readme/installed.md"))
}

fn with_first_commands(release: &Release, commands: &str) -> Result<String, DistError> {
    let readme = String::from_utf8_lossy(release.document("README.md")?).into_owned();
    let missing = || DistError::failed("README.md has no part between `<!-- source -->` and `<!-- /source -->`");
    replace_source(&readme, commands).ok_or_else(missing)
}

/// Replaces the part about the source. Returns `None` if there is none, or one without an end.
fn replace_source(readme: &str, commands: &str) -> Option<String> {
    let (before, rest) = readme.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{commands}{after}"))
}

#[cfg(test)]
mod tests {
    use super::replace_source;

    #[test]
    fn the_part_about_the_source_is_replaced() {
        let readme = "a\n\n<!-- source -->\ncargo\n<!-- /source -->\n\nb\n";
        assert_eq!(replace_source(readme, "new\n").as_deref(), Some("a\n\nnew\n\nb\n"));
    }

    #[test]
    fn a_part_needs_its_end() {
        assert_eq!(replace_source("a\n", "new\n"), None);
        assert_eq!(replace_source("<!-- source -->\ncargo\n", "new\n"), None);
    }
}
