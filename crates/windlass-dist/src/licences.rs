//! The licences of all libraries, which must accompany the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::dependencies::LinkedLibrary;
use crate::error::DistError;

/// The beginnings of names of files with licences.
const FILES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

/// The endings of names of files that are source code.
const SOURCES: [&str; 7] = ["rs", "c", "h", "js", "mjs", "json", "toml"];

const RULE: &str = "================================================================================";

/// Writes the libraries with their licences, and each text once, with the libraries that it belongs to.
pub fn licence_texts(libraries: &[LinkedLibrary]) -> Result<String, DistError> {
    let mut list = "Windlass contains these libraries. Their licences follow.\n\n".to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for library in libraries.iter().filter(|library| !library.is_own()) {
        let (name, licence) = (format!("{} {}", library.name, library.version), library.licence.as_deref());
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{name}: {}", licence.unwrap_or("see below"));
        for text in read_texts(library)? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let mut texts: Vec<(String, Vec<String>)> = texts.into_iter().collect();
    texts.sort_by(|one, other| one.1.cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
    for (text, names) in texts {
        let _ = write!(list, "\n{RULE}\n{}\n{RULE}\n\n{text}\n", names.join(", "));
    }
    Ok(list)
}

/// Reads the files with licences in the folder of a library and below it, where crates keep the sources of C libraries.
/// A crate may have none; its licence is in the list.
fn read_texts(library: &LinkedLibrary) -> Result<Vec<String>, DistError> {
    let (mut folders, mut files) = (vec![library.folder.clone()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(DistError::file(&folder))?.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    let texts = files.into_iter().filter(|path| is_licence(path)).map(|path| {
        let bytes = crate::error::read(&path)?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', "").trim_end().to_owned())
    });
    texts.collect()
}

/// Whether the name is one of a licence, and not of source code about licences.
fn is_licence(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_text = path.extension().is_none_or(|ending| !SOURCES.contains(&&*ending.to_string_lossy()));
    is_text && FILES.iter().any(|beginning| name.starts_with(beginning))
}
