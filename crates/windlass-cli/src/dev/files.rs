//! Selects the files to register: files named on the command line, and all definitions in folders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_core::ProcessLimits;

use crate::failure::CliFailure;

/// Folders with third-party or generated files.
const IGNORED_FOLDERS: [&str; 4] = ["node_modules", "target", "vendor", "__pycache__"];

/// Files that accompany definitions but are not definitions themselves.
const COMPANION_FILES: [&str; 6] =
    ["parameters.json", "local.settings.json", "host.json", "connections.json", "package.json", "package-lock.json"];

#[derive(Clone)]
pub(crate) struct DefinitionRoots {
    folders: Vec<PathBuf>,
    named: Vec<PathBuf>,
    /// The mock file in use.
    mock_file: Option<PathBuf>,
    /// The store's directory: it holds no definitions and changes all the time.
    store: Option<PathBuf>,
    /// Maximum folder depth, and maximum number of files in all.
    max_depth: usize,
    max_files: usize,
}

impl DefinitionRoots {
    pub(crate) fn new(
        paths: &[PathBuf],
        store: Option<PathBuf>,
        limits: &ProcessLimits,
    ) -> Result<DefinitionRoots, CliFailure> {
        let mut roots = DefinitionRoots {
            folders: Vec::new(),
            named: Vec::new(),
            mock_file: None,
            store: store.and_then(|path| std::path::absolute(path).ok()),
            max_depth: limits.max_dev_depth,
            max_files: limits.max_dev_files,
        };
        let here = [PathBuf::from(".")];
        for path in if paths.is_empty() { &here } else { paths } {
            let about = std::fs::metadata(path).map_err(|error| {
                CliFailure::usage(format!("could not read {}: {error}", path.display()))
                    .hint("name a folder, or files with definitions")
            })?;
            match about.is_dir() {
                true => roots.folders.push(path.clone()),
                false => roots.named.push(path.clone()),
            }
        }
        Ok(roots)
    }

    /// Adds the mock file: its changes matter, wherever it is.
    #[must_use]
    pub(crate) fn with_mock_file(self, file: Option<&str>) -> DefinitionRoots {
        DefinitionRoots { mock_file: file.map(PathBuf::from), ..self }
    }

    /// Returns whether the file was named on the command line: it must be a definition then.
    pub(crate) fn is_named(&self, file: &Path) -> bool {
        self.named.iter().any(|named| named == file)
    }

    /// Returns a note if the folders hold more files than the limit allows.
    pub(crate) fn truncation_note(&self) -> Option<String> {
        let max_files = self.max_files;
        let full = self.files().len() >= max_files;
        full.then(|| {
            format!("only {max_files} files are scanned; raise `limits.max_dev_files` in windlass.toml for more")
        })
    }

    /// Returns the files sorted by name, each once.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut found: BTreeSet<PathBuf> = self.named.iter().filter(|file| file.is_file()).cloned().collect();
        for folder in &self.folders {
            self.gather(folder, self.max_depth, &mut found);
        }
        found.into_iter().collect()
    }

    fn gather(&self, folder: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for path in entries {
            if found.len() >= self.max_files {
                return;
            }
            // `./a.json` becomes `a.json`, as a user would type it.
            let path = path.strip_prefix(".").map_or(path.clone(), Path::to_owned);
            if self.is_ignored(&path) {
                continue;
            }
            match std::fs::metadata(&path) {
                Ok(about) if about.is_dir() && depth > 0 => self.gather(&path, depth - 1, found),
                Ok(about) if about.is_file() && looks_like_definition(&path) => {
                    found.insert(path);
                }
                _ => {}
            }
        }
    }

    fn is_ignored(&self, path: &Path) -> bool {
        let hidden = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with('.') || IGNORED_FOLDERS.contains(&&*name)
        });
        let in_store = std::path::absolute(path)
            .ok()
            .is_some_and(|path| self.store.as_ref().is_some_and(|store| path.starts_with(store)));
        hidden || in_store
    }

    /// Returns the paths to watch, and whether recursively. A named file is watched through its folder: editors replace
    /// it by a new file.
    pub(crate) fn watch_paths(&self) -> Vec<(PathBuf, bool)> {
        let mut watched: Vec<(PathBuf, bool)> = self.folders.iter().map(|folder| (folder.clone(), true)).collect();
        let parents: BTreeSet<PathBuf> =
            self.named.iter().map(|file| crate::standard_project::folder_of(file)).collect();
        watched.extend(parents.into_iter().map(|folder| (folder, false)));
        let is_watched = |folder: &Path| {
            watched.iter().any(|(path, below)| {
                path.canonicalize().is_ok_and(|path| if *below { folder.starts_with(path) } else { folder == path })
            })
        };
        let mocks = self.mock_file.as_deref().and_then(Path::parent).filter(|folder| !is_watched(folder));
        let mocks = mocks.map(|folder| (folder.to_owned(), false));
        watched.extend(mocks);
        watched
    }

    /// Returns whether a change of this path may matter. The store and editors' own files change all the time.
    pub(crate) fn is_relevant(&self, path: &Path) -> bool {
        let in_store = self.store.as_ref().is_some_and(|store| path.starts_with(store));
        let below = |root: &Path| {
            let root = std::path::absolute(root).ok()?;
            path.strip_prefix(&root).ok().map(Path::to_owned)
        };
        let inside = self.folders.iter().chain(self.named.iter()).find_map(|root| below(root));
        let relative = inside.as_deref().unwrap_or(path);
        let hidden = |part: std::path::Component<'_>| {
            let name = part.as_os_str().to_string_lossy();
            name.starts_with('.') && name.len() > 2 || IGNORED_FOLDERS.contains(&&*name)
        };
        // A path without an extension may be a folder that was created or removed.
        let fits = looks_like_definition(path)
            || path.extension().is_none()
            || COMPANION_FILES.iter().any(|name| path.ends_with(name));
        let is_mock_file = || path.canonicalize().is_ok_and(|path| self.mock_file.as_ref() == Some(&path));
        !in_store && fits && !relative.components().any(hidden) || is_mock_file()
    }
}

fn looks_like_definition(path: &Path) -> bool {
    let fits = path.extension().is_some_and(|ending| ["json", "yaml", "yml"].iter().any(|known| ending == *known));
    fits && !path.file_name().is_some_and(|name| COMPANION_FILES.iter().any(|companion| name == *companion))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unrelated_files_of_a_folder_are_ignored() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        for name in [
            "a.json",
            "b/c.yaml",
            "b/notes.txt",
            ".windlass/x.json",
            "node_modules/y.json",
            "kept/z.json",
            "parameters.json",
        ] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "{}").expect("written");
        }
        let roots = DefinitionRoots::new(&[root.to_owned()], Some(root.join("kept")), &ProcessLimits::default())
            .expect("there");
        let files: Vec<String> =
            roots.files().iter().map(|file| file.strip_prefix(root).expect("inside").display().to_string()).collect();
        assert_eq!(files, ["a.json", "b/c.yaml"]);
        for (path, is_relevant) in [
            ("a.json", true),
            ("b/new.yml", true),
            ("b", true),
            ("parameters.json", true),
            ("b/notes.txt", false),
            (".windlass/x.json", false),
            ("kept/z.json", false),
            ("b/.c.yaml.swp", false),
            ("node_modules/y.json", false),
        ] {
            assert_eq!(roots.is_relevant(&root.join(path)), is_relevant, "{path}");
        }
        assert!(DefinitionRoots::new(&[root.join("none")], None, &ProcessLimits::default()).is_err());
        let found = |limits: ProcessLimits| {
            DefinitionRoots::new(&[root.to_owned()], None, &limits).expect("there").files().len()
        };
        let one = ProcessLimits { max_dev_files: 1, ..ProcessLimits::default() };
        assert!(DefinitionRoots::new(&[root.to_owned()], None, &one).expect("there").truncation_note().is_some());
        assert_eq!((found(one), roots.truncation_note()), (1, None));
        assert_eq!(found(ProcessLimits { max_dev_depth: 0, ..ProcessLimits::default() }), 1);
    }
}
