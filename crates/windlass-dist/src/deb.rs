//! The Debian package: an `ar` file with the version of the format, the control files and the data.

use std::fmt::Write as _;

use crate::archive::unit;
use crate::checksums::md5_lines;
use crate::error::DistError;
use crate::file_tree::{EXECUTABLE, PLAIN, PackageTree, gzip};
use crate::program::PackagedProgram;
use crate::readme::{documents, installed};
use crate::release::{MAINTAINER, PackageFile, PackageInput, Release, SBOM, SUMMARY, THIRD_PARTY};

const DOCUMENTS: &str = "usr/share/doc/windlass";
const SETTINGS: &str = "etc/windlass/windlass.toml";

pub(crate) fn build(input: &PackageInput<'_>) -> Result<PackageFile, DistError> {
    let failed = DistError::package("the Debian package");
    let time = input.release.time;
    let data = data(input)?;
    let control = control(input, &data);
    let mut package = b"!<arch>\n".to_vec();
    append_member(&mut package, "debian-binary", time, b"2.0\n");
    append_member(&mut package, "control.tar.gz", time, &control.to_tar_gz(time).map_err(&failed)?);
    append_member(&mut package, "data.tar.gz", time, &data.to_tar_gz(time).map_err(&failed)?);
    let version = debian_version(&input.release.version);
    let name = format!("windlass_{version}_{}.deb", input.program.target.debian());
    Ok(PackageFile { name, bytes: package })
}

/// Appends a file to an `ar` archive: a header of 60 bytes, then the content, padded to an even length.
fn append_member(archive: &mut Vec<u8>, name: &str, time: u64, content: &[u8]) {
    let header = format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", content.len());
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(content);
    if content.len() % 2 == 1 {
        archive.push(b'\n');
    }
}

fn data(input: &PackageInput<'_>) -> Result<PackageTree, DistError> {
    let release = input.release;
    let mut files = PackageTree::default();
    files.add("usr/bin/windlass", EXECUTABLE, input.program.bytes.clone());
    files.add_text("usr/lib/systemd/system/windlass.service", unit("/usr/bin/windlass"));
    files.add_text(SETTINGS, include_str!("../assets/windlass.toml"));
    add_pages(&mut files, release)?;
    files.add_text(format!("{DOCUMENTS}/copyright"), include_str!("../assets/copyright"));
    files.add_text(format!("{DOCUMENTS}/{SBOM}"), &input.sbom);
    files.add_text(format!("{DOCUMENTS}/{THIRD_PARTY}"), &input.third_party);
    // The licence of the program is a part of every Debian.
    for (path, mode, content) in documents(input)?.files().filter(|(path, ..)| *path != "LICENSE") {
        files.add(format!("{DOCUMENTS}/{path}"), mode, content.clone());
    }
    files.add_text(format!("{DOCUMENTS}/README.md"), installed(release)?);
    let changelog = gzip(release.document("CHANGELOG.md")?).map_err(DistError::package("the changelog"))?;
    files.add(format!("{DOCUMENTS}/changelog.gz"), PLAIN, changelog);
    Ok(files)
}

fn add_pages(files: &mut PackageTree, release: &Release) -> Result<(), DistError> {
    for (file, place) in [
        ("windlass.bash", "usr/share/bash-completion/completions/windlass"),
        ("_windlass", "usr/share/zsh/vendor-completions/_windlass"),
        ("windlass.fish", "usr/share/fish/vendor_completions.d/windlass.fish"),
    ] {
        files.add(place, PLAIN, release.pages.completion(file)?);
    }
    for (name, text) in &release.pages.manual {
        let page = gzip(text).map_err(DistError::package("a manual page"))?;
        files.add(format!("usr/share/man/man1/{name}.gz"), PLAIN, page);
    }
    Ok(())
}

fn control(input: &PackageInput<'_>, data: &PackageTree) -> PackageTree {
    let (version, architecture) = (debian_version(&input.release.version), input.program.target.debian());
    let depends = depends(&input.program);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "Package: windlass\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: {MAINTAINER}\nSection: misc\nPriority: optional\n\
         Installed-Size: {size}\nDepends: {depends}\nSuggests: python3\nDescription: {SUMMARY}\n \
         Runs definitions in several dialects, and never loses an iteration of a loop: kill it at any\n \
         moment, and it resumes in the same iteration, at the same task. The service windlass.service\n \
         serves them over HTTP, with a web UI; it is not started by the installation.\n",
        size = data.size().div_ceil(1024),
    );
    let mut control = PackageTree::default();
    control.add_text("control", text);
    control.add_text("conffiles", format!("/{SETTINGS}\n"));
    // Its owner may change the settings.
    let packaged = data.files().filter(|(path, ..)| *path != SETTINGS);
    control.add_text("md5sums", md5_lines(packaged.map(|(path, _, content)| (path, &**content))));
    for (name, script) in [
        ("postinst", include_str!("../assets/postinst")),
        ("prerm", include_str!("../assets/prerm")),
        ("postrm", include_str!("../assets/postrm")),
    ] {
        control.add(name, EXECUTABLE, script.as_bytes());
    }
    control
}

/// Returns the packages that the program needs. `passwd` has useradd. A static program needs no library.
fn depends(program: &PackagedProgram) -> String {
    let is_of_gcc = |library: &String| library.starts_with("libgcc_s.");
    let mut packages = vec!["passwd"];
    packages.extend((!program.is_static).then_some("libc6"));
    packages.extend(program.libraries.iter().any(is_of_gcc).then_some("libgcc-s1"));
    packages.sort_unstable();
    packages.join(", ")
}

/// Converts a version: Debian sorts `1.0.0~rc.1` before `1.0.0`.
fn debian_version(version: &str) -> String {
    version.replacen('-', "~", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_candidate_sorts_before_its_release() {
        assert_eq!(debian_version("1.0.0-rc.1"), "1.0.0~rc.1");
        assert_eq!(debian_version("1.0.0"), "1.0.0");
    }

    #[test]
    fn a_member_with_an_odd_length_is_padded() {
        let mut archive = Vec::new();
        append_member(&mut archive, "debian-binary", 7, b"2.0");
        assert_eq!(archive.len(), 64);
        assert_eq!(&archive[..16], b"debian-binary   ");
        assert_eq!(&archive[58..], b"`\n2.0\n");
    }
}
