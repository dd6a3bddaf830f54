//! The parts of a release that all its packages share.

use std::path::Path;
use std::process::Command;

use crate::error::{DistError, read};
use crate::file_tree::{PLAIN, PackageTree};
use crate::links::without_dead_links;
use crate::pages::ProgramPages;
use crate::program::PackagedProgram;

/// The sentence that describes the program in every package.
pub(crate) const SUMMARY: &str = "Durable workflows made of loops: run, watch and steer them";

pub(crate) const LICENCE: &str = "Apache-2.0";

/// The name and the address of the maintainers.
pub(crate) const MAINTAINER: &str = env!("CARGO_PKG_AUTHORS");

/// The name of the file with the licences of all libraries.
pub(crate) const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

/// The name of the bill of materials.
pub(crate) const SBOM: &str = "sbom.cdx.json";

/// The folders whose files archives contain. README.md links to both.
const DOCUMENT_FOLDERS: [&str; 2] = ["docs", "examples"];

/// A release: everything that is the same for all targets.
pub struct Release {
    /// The number of the version, in the notation of Cargo.
    pub version: String,
    /// The commit, or nothing outside of a repository.
    pub commit: Option<String>,
    /// The time of all files, in seconds since 1970.
    pub time: u64,
    pub(crate) documents: PackageTree,
    pub pages: ProgramPages,
}

/// The contents of the packages of one target.
pub struct PackageInput<'a> {
    pub release: &'a Release,
    pub program: PackagedProgram,
    /// The bill of materials, as JSON.
    pub sbom: String,
    /// The licences of all libraries.
    pub third_party: String,
}

/// A file of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct PackageFile {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Release {
    /// Reads the documents of the repository in `root`.
    pub fn read(root: &Path, pages: ProgramPages) -> Result<Release, DistError> {
        let mut documents = PackageTree::default();
        let names = document_names(root)?;
        let in_folder =
            |folder: &str, name: &String| name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
        let exists = |path: &str| {
            [THIRD_PARTY, SBOM].contains(&path) || names.iter().any(|name| name == path || in_folder(path, name))
        };
        for name in &names {
            let mut content = read(&root.join(name))?;
            if name.ends_with(".md") {
                content = without_dead_links(name, &String::from_utf8_lossy(&content), exists).into_bytes();
            }
            documents.add(name.as_str(), PLAIN, content);
        }
        Ok(Release {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: packaged_commit(root),
            time: time(root)?,
            documents,
            pages,
        })
    }

    /// The bytes of a document, by its name.
    pub(crate) fn document(&self, name: &str) -> Result<&[u8], DistError> {
        let mut files = self.documents.files();
        let found = files.find(|(path, _, _)| *path == name).map(|(_, _, content)| &**content);
        found.ok_or_else(|| DistError::failed(format!("the repository has no {name}")))
    }

    /// The time of the release as RFC 3339.
    pub(crate) fn timestamp(&self) -> Result<String, DistError> {
        let seconds = i64::try_from(self.time).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_second(seconds);
        time.map(|time| time.to_string()).map_err(|error| DistError::failed(error.to_string()))
    }
}

/// Lists the documents: those that the repository tracks, so that a stray file does not become part of a package.
fn document_names(root: &Path) -> Result<Vec<String>, DistError> {
    let tracked = git(root, &["ls-files", "-z"]);
    let names: Vec<String> = match &tracked {
        Some(names) => names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        None => walk(root)?,
    };
    let wanted = |name: &String| {
        let in_folder = DOCUMENT_FOLDERS.iter().any(|folder| name.starts_with(&format!("{folder}/")));
        let on_top = !name.contains('/') && (name.ends_with(".md") || name == "LICENSE");
        in_folder || on_top
    };
    // A tracked file may have been removed and not yet committed.
    Ok(names.into_iter().filter(wanted).filter(|name| root.join(name).is_file()).collect())
}

/// Lists the files on top and in the folders of documents of a source archive.
fn walk(root: &Path) -> Result<Vec<String>, DistError> {
    let mut names = Vec::new();
    let mut folders: Vec<String> = DOCUMENT_FOLDERS.map(str::to_owned).into();
    names.extend(["README.md", "CHANGELOG.md", "LICENSE"].map(str::to_owned));
    while let Some(folder) = folders.pop() {
        let path = root.join(&folder);
        for entry in std::fs::read_dir(&path).map_err(DistError::file(&path))?.flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            match entry.path().is_dir() {
                _ if is_hidden => {}
                true => folders.push(name),
                false => names.push(name),
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the commit that is packaged; `-dirty` marks changes that are not committed.
pub fn packaged_commit(root: &Path) -> Option<String> {
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let clean = git(root, &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if clean { commit } else { format!("{commit}-dirty") })
}

/// The time of all files outside of a repository: 1980-01-01, the first that all formats know.
const UNKNOWN_TIME: u64 = 315_532_800;

/// The time of all files: `SOURCE_DATE_EPOCH`, else the time of the commit.
fn time(root: &Path) -> Result<u64, DistError> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(given) => given.trim().parse().map_err(|_| {
            DistError::failed(format!("SOURCE_DATE_EPOCH is {given:?}, not a number of seconds since 1970"))
        }),
        Err(_) => {
            let committed = git(root, &["log", "-1", "--format=%ct"]).and_then(|time| time.parse().ok());
            Ok(committed.unwrap_or(UNKNOWN_TIME))
        }
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}
