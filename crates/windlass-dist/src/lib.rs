//! Packages of the program: archive, Debian package, wheel, npm package and container image, each for every target.
//!
//! - `build`: compiles static programs; `program`: what a program's file says about it
//! - `release`, `readme`, `links`, `pages`, `dependencies`, `sbom`, `licences`: the contents that packages share
//! - `archive`, `deb`, `wheel`, `npm`, `image`: one file per kind of package
//! - `file_tree`, `checksums`: files in an order and with attributes that are always the same
//! - `check`: installs each package in a fresh root and tries it there; `needs`: what this machine lacks for all of it
//!
//! The same program gives the same packages, byte by byte: entries are sorted, and all times are the commit's.

mod archive;
pub mod build;
pub mod check;
mod checksums;
mod deb;
mod dependencies;
mod error;
mod file_tree;
mod image;
mod licences;
mod links;
mod needs;
mod npm;
mod pages;
mod program;
mod readme;
mod release;
mod sbom;
mod target;
mod wheel;

pub use dependencies::{LibraryKind, LinkedLibrary, RELEASE_FEATURES, linked_libraries, toolchain_libraries};
pub use error::DistError;
pub use licences::licence_texts;
pub use needs::{missing_to_build, missing_to_check, missing_to_package};
pub use pages::ProgramPages;
pub use program::PackagedProgram;
pub use release::{PackageFile, PackageInput, Release, packaged_commit};
pub use sbom::bill_of_materials;
pub use target::PackageTarget;

/// The name of the file with the checksums of all packages.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// Builds all packages of one target. There is an image only for a static program.
pub fn packages(input: &PackageInput<'_>) -> Result<Vec<PackageFile>, DistError> {
    let mut files = vec![archive::build(input)?, deb::build(input)?, wheel::build(input)?, npm::build(input)?];
    if input.program.is_static {
        files.push(image::build(input)?);
    }
    let name = format!("{}.cdx.json", archive::folder_name(input));
    files.push(PackageFile { name, bytes: input.sbom.clone().into_bytes() });
    Ok(files)
}

/// Lists the checksums of all packages, for `sha256sum --check`.
pub fn checksums(files: &[PackageFile]) -> PackageFile {
    let mut files: Vec<(&str, &[u8])> = files.iter().map(|file| (file.name.as_str(), file.bytes.as_slice())).collect();
    files.sort();
    PackageFile { name: CHECKSUMS.to_owned(), bytes: checksums::sum_lines(files).into_bytes() }
}
