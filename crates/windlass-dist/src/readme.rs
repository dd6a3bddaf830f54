//! README files of packages. The one of the repository begins with commands for a machine with Rust; the users of a
//! package have the program.

use crate::error::DistError;
use crate::file_tree::PackageTree;
use crate::release::{PackageInput, Release};

/// The comments around the part of README.md that is about the source.
const BEGIN: &str = "<!-- source -->\n";
const END: &str = "<!-- /source -->\n";

/// The README of a package without the documents that the one of the repository links to.
const PACKAGE: &str = include_str!("../assets/readme/package.md");

/// Returns the README of the archive, where the program is in the same folder.
pub(crate) fn archived(input: &PackageInput<'_>) -> Result<String, DistError> {
    let commands = include_str!("../assets/readme/archived.md");
    let needs = needs(input).map(|needs| format!("{needs}\n\n")).unwrap_or_default();
    with_first_commands(input.release, &format!("{needs}{commands}"))
}

/// Returns the README beside an installed program.
pub(crate) fn installed(release: &Release) -> Result<String, DistError> {
    with_first_commands(release, include_str!("../assets/readme/installed.md"))
}

/// The sentence of docs/install.md that is true for static programs only, and the page.
const INSTALL_PAGE: &str = "docs/install.md";
const STATIC_SENTENCE: &str = "Windlass is one static program without dependencies, for Linux on x86_64 and aarch64.";

/// Returns the documents of a package, true for its program.
pub(crate) fn documents(input: &PackageInput<'_>) -> Result<PackageTree, DistError> {
    let mut documents = input.release.documents.clone();
    if let Some(needs) = needs(input) {
        let page = String::from_utf8_lossy(input.release.document(INSTALL_PAGE)?).into_owned();
        if !page.contains(STATIC_SENTENCE) {
            return Err(DistError::failed(format!("{INSTALL_PAGE} does not say: {STATIC_SENTENCE}")));
        }
        documents.add_text(INSTALL_PAGE, page.replace(STATIC_SENTENCE, &needs));
    }
    Ok(documents)
}

/// Returns the README of a package without documents.
pub(crate) fn packaged(input: &PackageInput<'_>) -> String {
    match needs(input) {
        None => PACKAGE.to_owned(),
        Some(needs) => PACKAGE.replace("One static program for Linux,", &format!("{needs}\n\nOne program,")),
    }
}

/// Returns what a program needs that is not static.
fn needs(input: &PackageInput<'_>) -> Option<String> {
    let program = &input.program;
    let machine = program.target.machine();
    let libraries = match program.libraries.is_empty() {
        true => "the GNU C library".to_owned(),
        false => program.libraries.join(", "),
    };
    (!program.is_static).then(|| {
        format!(
            "This program is linked dynamically, for Linux on {machine}: it needs {libraries}, no older than those of the \
             machine on which it was built."
        )
    })
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
