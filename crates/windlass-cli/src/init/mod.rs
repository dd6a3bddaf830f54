//! The files of a new project.

use std::path::{Path, PathBuf};

use crate::commands::schema;
use crate::failure::CliFailure;

/// The contents of a project in one dialect.
pub(crate) struct ProjectTemplate {
    pub dialect: &'static str,
    pub definition: &'static str,
    definition_text: &'static str,
    mocks: &'static str,
}

pub(crate) const TEMPLATES: [ProjectTemplate; 3] = [
    ProjectTemplate {
        dialect: "loom",
        definition: "orders.json",
        definition_text: include_str!("files/orders.json"),
        mocks: include_str!("files/orders.mocks.yaml"),
    },
    ProjectTemplate {
        dialect: "noetl",
        definition: "pages.yaml",
        definition_text: include_str!("files/pages.yaml"),
        mocks: include_str!("files/pages.mocks.yaml"),
    },
    ProjectTemplate {
        dialect: "zenflow",
        definition: "review.yaml",
        definition_text: include_str!("files/review.yaml"),
        mocks: include_str!("files/review.mocks.yaml"),
    },
];

/// The names of the dialects that have a template.
pub(crate) fn dialects() -> [&'static str; 3] {
    TEMPLATES.each_ref().map(|template| template.dialect)
}

impl ProjectTemplate {
    /// Returns the template of a dialect.
    pub(crate) fn for_dialect(dialect: &str) -> Option<&'static ProjectTemplate> {
        TEMPLATES.iter().find(|template| template.dialect == dialect)
    }

    /// Returns the files with their texts, by path in the project.
    fn files(&self, project: &str) -> [(&'static str, String); 7] {
        // Not every dialect has a JSON Schema.
        let schemas = [self.dialect, "mocks", "events"].map(|subject| format!("`windlass schema {subject}`"));
        let first = usize::from(!schema::subjects().contains(&self.dialect));
        let schemas = schemas[first..].join(", ");
        let fill = |text: &str| {
            let text = text.replace("SCHEMAS", &schemas);
            let text = text.replace("DEFINITION", self.definition).replace("DIALECT", self.dialect);
            text.replace("PROJECT", project)
        };
        [
            (self.definition, self.definition_text.to_owned()),
            ("mocks.yaml", self.mocks.to_owned()),
            ("windlass.toml", include_str!("files/windlass.toml").to_owned()),
            ("README.md", fill(include_str!("files/README.md"))),
            ("AGENTS.md", fill(include_str!("files/AGENTS.md"))),
            (".github/workflows/windlass.yml", fill(include_str!("files/ci.yml"))),
            (".gitignore", ".windlass/\n".to_owned()),
        ]
    }

    /// Writes the project. If one of its files exists, nothing is written.
    pub(crate) fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, CliFailure> {
        let failed = |path: &Path, error: std::io::Error| {
            CliFailure::usage(format!("could not write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let name = folder.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let files = self.files(name.as_deref().unwrap_or("A project"));
        let existing = files.iter().filter(|(name, _)| folder.join(name).symlink_metadata().is_ok());
        let existing: Vec<&str> = existing.map(|(name, _)| *name).collect();
        if !existing.is_empty() {
            return Err(CliFailure::usage(format!("{} exists already in {}", existing.join(", "), folder.display()))
                .hint("nothing was written; name an empty folder: windlass init FOLDER"));
        }
        let mut written = Vec::new();
        for (name, text) in files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
            crate::commands::write_new(&path, &text)?;
            written.push(path);
        }
        Ok(written)
    }
}
