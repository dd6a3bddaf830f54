//! Presents registered definitions as files, for workflows that include others. No other file exists.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_dialect::{FileReadProblem, FileReader};
use windlass_server::{DefinitionCatalog, RegisteredVersion};

use crate::dialects::registry;

/// The virtual folder of all registered definitions. Nothing on a disk is ever looked up there.
pub(crate) const ROOT: &str = "/registered";

/// The extensions that a file name may have and a definition's name usually lacks.
const FILE_EXTENSIONS: [&str; 3] = [".yaml", ".yml", ".json"];

/// Finds a definition by name, with or without an extension; else the only one whose last path component matches.
pub(crate) fn find(catalog: &dyn DefinitionCatalog, name: &str) -> Option<RegisteredVersion> {
    let stem = FILE_EXTENSIONS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
    let exact = catalog.newest(name).or_else(|| catalog.newest(stem));
    exact.or_else(|| {
        let names = catalog.names();
        let mut ends = names.iter().filter(|known| known.rsplit_once('/').is_some_and(|(_, last)| last == stem));
        ends.next().filter(|_| ends.next().is_none()).and_then(|only| catalog.newest(only))
    })
}

/// The definitions registered when compilation began.
pub(crate) struct CatalogFiles {
    known: Vec<(PathBuf, Arc<str>)>,
    folders: Vec<PathBuf>,
}

impl CatalogFiles {
    /// Includes only definitions of dialects that support file includes.
    pub(crate) fn from_catalog(catalog: &dyn DefinitionCatalog) -> CatalogFiles {
        let found = catalog.names().into_iter().filter_map(|name| catalog.newest(&name));
        let known: Vec<_> = found
            .filter(|found| registry().get_or_rust(&found.dialect).includes_files())
            .map(|found| (path_of(&found.name), found.source))
            .collect();
        let folders = known.iter().flat_map(|(path, _)| path.ancestors().skip(1).map(Path::to_owned)).collect();
        CatalogFiles { known, folders }
    }

    fn lookup(&self, path: &Path) -> Option<&(PathBuf, Arc<str>)> {
        let text = path.to_string_lossy();
        let stem = FILE_EXTENSIONS.iter().find_map(|ending| text.strip_suffix(ending)).map(Path::new);
        let by_path = |requested: &Path| self.known.iter().find(|(known, _)| known == requested);
        by_path(path).or_else(|| stem.and_then(by_path))
    }
}

/// Returns the virtual path of a definition.
pub(crate) fn path_of(name: &str) -> PathBuf {
    let parts = name.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
    parts.fold(PathBuf::from(ROOT), |path, part| path.join(part))
}

/// Returns the folder in which the includes of a definition start.
pub(crate) fn folder_of(name: Option<&str>) -> PathBuf {
    let path = name.map(path_of).filter(|path| path.as_path() != Path::new(ROOT));
    path.as_deref().and_then(Path::parent).unwrap_or(Path::new(ROOT)).to_owned()
}

impl FileReader for CatalogFiles {
    fn read(&self, path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadProblem> {
        let (_, text) = self.lookup(path).ok_or(FileReadProblem::Missing)?;
        match text.len() as u64 > max_bytes {
            true => Err(FileReadProblem::TooLarge { max_bytes }),
            false => Ok(text.as_bytes().to_vec()),
        }
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf, FileReadProblem> {
        if path == Path::new(ROOT) || self.folders.iter().any(|folder| folder == path) {
            return Ok(path.to_owned());
        }
        self.lookup(path).map(|(path, _)| path.clone()).ok_or_else(missing)
    }

    fn size(&self, path: &Path) -> Result<u64, FileReadProblem> {
        self.lookup(path).map(|(_, text)| text.len() as u64).ok_or_else(missing)
    }
}

fn missing() -> FileReadProblem {
    FileReadProblem::Other("no workflow of that name is registered".to_owned())
}
