//! The licences of all libraries, which must accompany the program.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::dependencies::LinkedLibrary;
use crate::error::DistError;

/// The beginnings of names of files with licences.
const FILES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

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

/// Reads the files with licences in the folder of a library. A crate may have none; its licence is in the list.
fn read_texts(library: &LinkedLibrary) -> Result<Vec<String>, DistError> {
    let folder = std::fs::read_dir(&library.folder).map_err(DistError::file(&library.folder))?;
    let mut files: Vec<_> = folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let is_licence = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        FILES.iter().any(|beginning| name.starts_with(beginning))
    };
    let texts = files.into_iter().filter(is_licence).map(|path| {
        let bytes = crate::error::read(&path)?;
        Ok(String::from_utf8_lossy(&bytes).replace('\r', "").trim_end().to_owned())
    });
    texts.collect()
}
