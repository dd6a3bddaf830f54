//! The archive: the program with its documents, for every Linux.

use crate::checksums::sum_lines;
use crate::error::DistError;
use crate::file_tree::{EXECUTABLE, PLAIN, PackageTree};
use crate::readme;
use crate::release::{PackageFile, PackageInput, SBOM, THIRD_PARTY};

/// The place where the unit of the archive expects the program.
const PROGRAM: &str = "/usr/local/bin/windlass";

const UNIT: &str = include_str!("../assets/windlass.service");

/// Returns the unit of systemd for a program in this place.
pub(crate) fn unit(program: &str) -> String {
    UNIT.replace("@PROGRAM@", program)
}

/// The name of an archive without its ending, which is also the name of its folder.
pub(crate) fn folder_name(input: &PackageInput<'_>) -> String {
    let linkage = if input.program.is_static { "musl" } else { "gnu" };
    format!("windlass-{}-{}-unknown-linux-{linkage}", input.release.version, input.program.target.machine())
}

pub(crate) fn build(input: &PackageInput<'_>) -> Result<PackageFile, DistError> {
    let mut files = readme::documents(input)?;
    files.add("windlass", EXECUTABLE, input.program.bytes.clone());
    files.add_text("README.md", readme::archived(input)?);
    files.add_text(THIRD_PARTY, &input.third_party);
    files.add_text(SBOM, &input.sbom);
    files.add_text("systemd/windlass.service", unit(PROGRAM));
    files.add_text("systemd/windlass.sysusers", include_str!("../assets/windlass.sysusers"));
    files.add_text("systemd/windlass.toml", include_str!("../assets/windlass.toml"));
    for (name, text) in &input.release.pages.completions {
        files.add(format!("completions/{name}"), PLAIN, text.as_slice());
    }
    for (name, text) in &input.release.pages.manual {
        files.add(format!("man/man1/{name}"), PLAIN, text.as_slice());
    }
    let sums = sum_lines(files.files().map(|(path, _, content)| (path, &**content)));
    files.add_text("SHA256SUMS", sums);
    let (folder, mut whole) = (folder_name(input), PackageTree::default());
    whole.add_tree(&folder, &files);
    let bytes = whole.to_tar_gz(input.release.time).map_err(DistError::package("the archive"))?;
    Ok(PackageFile { name: format!("{folder}.tar.gz"), bytes })
}
