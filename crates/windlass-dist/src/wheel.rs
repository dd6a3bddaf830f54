//! The wheel: a zip file that installs the program as a script of a Python environment.

use std::io::{self, Cursor, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::checksums::sha256_base64;
use crate::error::DistError;
use crate::file_tree::{EXECUTABLE, PLAIN, PackageTree};
use crate::readme;
use crate::release::{LICENCE, PackageFile, PackageInput, SBOM, SUMMARY, THIRD_PARTY};

/// The platforms that a static program runs on: the oldest ones that pip still knows, with glibc and with musl.
const STATIC_PLATFORMS: [&str; 3] = ["manylinux_2_17", "manylinux2014", "musllinux_1_1"];

pub(crate) fn build(input: &PackageInput<'_>) -> Result<PackageFile, DistError> {
    let version = python_version(&input.release.version);
    let tags = platforms(input);
    let name = format!("windlass-{version}-py3-none-{}.whl", tags.join("."));
    let mut files = contents(input, &version, &tags)?;
    let record_name = format!("windlass-{version}.dist-info/RECORD");
    let lines =
        files.files().map(|(path, _, content)| format!("{path},sha256={},{}\n", sha256_base64(content), content.len()));
    let record: String = lines.chain([format!("{record_name},,\n")]).collect();
    files.add_text(record_name, record);
    let bytes = to_zip(&files).map_err(DistError::package("the wheel"))?;
    Ok(PackageFile { name, bytes })
}

fn platforms(input: &PackageInput<'_>) -> Vec<String> {
    let systems = if input.program.is_static { &STATIC_PLATFORMS[..] } else { &["linux"] };
    systems.iter().map(|system| format!("{system}_{}", input.program.target.machine())).collect()
}

fn contents(input: &PackageInput<'_>, version: &str, tags: &[String]) -> Result<PackageTree, DistError> {
    let release = input.release;
    let (info, data) = (format!("windlass-{version}.dist-info"), format!("windlass-{version}.data"));
    let mut files = PackageTree::default();
    files.add(format!("{data}/scripts/windlass"), EXECUTABLE, input.program.bytes.clone());
    for (name, text) in &release.pages.manual {
        files.add(format!("{data}/data/share/man/man1/{name}"), PLAIN, text.as_slice());
    }
    for (file, place) in [
        ("windlass.bash", "bash-completion/completions/windlass"),
        ("_windlass", "zsh/site-functions/_windlass"),
        ("windlass.fish", "fish/vendor_completions.d/windlass.fish"),
    ] {
        files.add(format!("{data}/data/share/{place}"), PLAIN, release.pages.completion(file)?);
    }
    let metadata = format!(
        "Metadata-Version: 2.4\nName: windlass\nVersion: {version}\nSummary: {SUMMARY}\n\
         License-Expression: {LICENCE}\nLicense-File: LICENSE\nLicense-File: {THIRD_PARTY}\nRequires-Python: >=3.8\n\
         Description-Content-Type: text/markdown\n\n{}",
        readme::packaged(input),
    );
    files.add_text(format!("{info}/METADATA"), metadata);
    let tags: String = tags.iter().map(|tag| format!("Tag: py3-none-{tag}\n")).collect();
    let generator = env!("CARGO_PKG_VERSION");
    let wheel = format!("Wheel-Version: 1.0\nGenerator: windlass-dist {generator}\nRoot-Is-Purelib: false\n{tags}");
    files.add_text(format!("{info}/WHEEL"), wheel);
    files.add(format!("{info}/licenses/LICENSE"), PLAIN, release.document("LICENSE")?);
    files.add_text(format!("{info}/licenses/{THIRD_PARTY}"), &input.third_party);
    files.add_text(format!("{info}/sboms/{SBOM}"), &input.sbom);
    Ok(files)
}

/// Writes a zip file. All entries have the time 1980-01-01, the first that the format knows.
fn to_zip(files: &PackageTree) -> io::Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, content) in files.files() {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(DateTime::default())
            .unix_permissions(mode);
        archive.start_file(path, options)?;
        archive.write_all(content)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Converts a version to the notation of Python: `1.0.0rc1`.
fn python_version(version: &str) -> String {
    let Some((number, stage)) = version.split_once('-') else { return version.to_owned() };
    let stage = stage.replace("alpha", "a").replace("beta", "b").replace('.', "");
    format!("{number}{stage}")
}

#[cfg(test)]
mod tests {
    use super::python_version;

    #[test]
    fn versions_are_converted() {
        for (version, expected) in [("0.1.0", "0.1.0"), ("1.0.0-rc.2", "1.0.0rc2"), ("1.0.0-alpha.1", "1.0.0a1")] {
            assert_eq!(python_version(version), expected);
        }
    }
}
