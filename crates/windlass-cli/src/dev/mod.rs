//! Registers definitions from files on this machine, and again whenever they change.

mod files;
mod names;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::info;
use windlass_server::catalog::RegistrationError;
use windlass_server::{App, CompiledDraft};
use windlass_syntax::{DiagnosticReport, Diagnostics, SourceText};

use crate::config::CliSettings;
use crate::definition;
use crate::out::Paint;
use crate::project::Project;
pub(crate) use files::DefinitionRoots;
pub(crate) use watch::FileWatcher;

/// The problem code of a file that is no definition at all: a folder may hold other files.
pub(crate) const NO_DEFINITION: &str = windlass_dialect::UNKNOWN_DIALECT;

/// The recorded author of the registrations.
const REGISTERED_BY: &str = "windlass dev";

/// The definition files with their registration state.
pub(crate) struct DefinitionFolder {
    roots: DefinitionRoots,
    settings: Arc<CliSettings>,
    app: App,
    paint: Paint,
    known: BTreeMap<PathBuf, FileState>,
    /// The names of the steps of all definitions, collected during a scan.
    steps: BTreeSet<String>,
    /// The last warning about rules of the mock file.
    mock_warning: Option<String>,
}

/// A file's state as of the last scan.
#[derive(Clone, PartialEq)]
struct FileState {
    /// The registered definition, if the file ever was valid.
    registered: Option<(Arc<str>, u64)>,
    /// The current message about it, as last printed.
    message: String,
    broken: bool,
    /// The names that its definition has, or may have while the file is broken.
    names: Vec<Arc<str>>,
}

/// The outcome of scanning a file.
enum ScanOutcome {
    /// The file is no definition.
    NotADefinition,
    Registered {
        name: Arc<str>,
        version: u64,
        new: bool,
        message: String,
    },
    Broken {
        problems: Vec<DiagnosticReport>,
        message: String,
        /// The names that its definition may have.
        names: Vec<Arc<str>>,
    },
}

impl DefinitionFolder {
    pub(crate) fn new(roots: DefinitionRoots, settings: Arc<CliSettings>, app: App, paint: Paint) -> DefinitionFolder {
        DefinitionFolder {
            roots,
            settings,
            app,
            paint,
            known: BTreeMap::new(),
            steps: BTreeSet::new(),
            mock_warning: None,
        }
    }

    /// Returns the number of registered definitions and of broken files.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let registered = self.known.values().filter(|known| known.registered.is_some()).count();
        let broken = self.known.values().filter(|known| known.broken).count();
        (registered, broken)
    }

    /// Scans all files: an unchanged file may call a changed one. An unchanged definition gets no new version.
    ///
    /// Blocking: reads, compiles and writes.
    pub(crate) fn rescan(&mut self) {
        // First: the names of mocked steps matter to the definitions.
        if let Some(message) = self.settings.mocks.as_ref().and_then(|mocks| mocks.reload(&self.settings, self.paint)) {
            info!(event = "mocks", "{message}");
        }
        let files = self.roots.files();
        let mut names: BTreeMap<Arc<str>, PathBuf> = BTreeMap::new();
        for file in &files {
            let looked = self.register_file(file, &names);
            if let ScanOutcome::Registered { name, .. } = &looked {
                names.insert(name.clone(), file.clone());
            }
            self.report(file, looked);
        }
        self.report_unknown_mocked_steps();
        let gone: Vec<PathBuf> = self.known.keys().filter(|file| !files.contains(file)).cloned().collect();
        for file in gone {
            self.report_removed(&file, &names);
        }
        self.app.definitions.files.replace(self.file_names());
    }

    /// Warns about rules of the mock file that name none of the steps of the folder, once as long as they are the same.
    fn report_unknown_mocked_steps(&mut self) {
        let steps = std::mem::take(&mut self.steps);
        let Some(mocks) = &self.settings.mocks else { return };
        // The steps of a file that is broken while it is edited are unknown.
        if self.known.values().any(|state| state.broken) {
            return;
        }
        let warning = mocks.unknown_steps_warning(&steps);
        if warning != self.mock_warning {
            warning.iter().for_each(|warning| info!(event = "mocks", "{warning}"));
            self.mock_warning = warning;
        }
    }

    /// Returns the files by the names of their definitions. A broken file has the name of its last valid version, and
    /// those that it may have once it is repaired, unless they belong to another file.
    fn file_names(&self) -> BTreeMap<Arc<str>, String> {
        let (broken, valid): (Vec<_>, Vec<_>) = self.known.iter().partition(|(_, state)| state.broken);
        let named = |(file, state): (&PathBuf, &FileState)| {
            let file = file.display().to_string();
            state.names.clone().into_iter().map(move |name| (name, file.clone()))
        };
        broken.into_iter().chain(valid).flat_map(named).collect()
    }

    fn register_file(&mut self, file: &Path, names: &BTreeMap<Arc<str>, PathBuf>) -> ScanOutcome {
        let source = match definition::read(file, &self.settings.limits) {
            Ok(source) => source,
            Err(failure) => {
                return ScanOutcome::Broken {
                    problems: Vec::new(),
                    message: format!("{}: {}", file.display(), failure.message()),
                    names: vec![default_name(file)],
                };
            }
        };
        let possible_names = names::possible_names(&source.text, default_name(file));
        let was_definition = || self.known.contains_key(file) || self.was_registered(&default_name(file));
        let was_cut_off = names::is_cut_off(&source.text) && was_definition();
        let project = Project::read(source, None, &self.settings);
        project.add_step_names(&mut self.steps);
        let reports: Vec<DiagnosticReport> =
            project.diagnostics.iter().flat_map(|(source, found)| found.reports(source)).collect();
        // A file that was a definition before is a broken definition now.
        let ours = self.roots.is_named(file)
            || was_cut_off
            || self.known.get(file).is_some_and(|known| known.registered.is_some());
        if !ours && reports.iter().any(|report| report.code == NO_DEFINITION) {
            return ScanOutcome::NotADefinition;
        }
        let message = self.render_diagnostics(&project.diagnostics);
        if project.has_errors() {
            return ScanOutcome::Broken { problems: reports, message, names: possible_names };
        }
        let broken = |why: String| ScanOutcome::Broken {
            problems: Vec::new(),
            message: format!("{}: {why}", file.display()),
            names: possible_names.clone(),
        };
        let plan = match project.add_called_plans(&self.app.engine, &self.settings) {
            Ok(plan) => plan,
            Err(failure) => return broken(failure.message().to_owned()),
        };
        if let Some(other) = names.get(&plan.name) {
            return broken(format!(
                "its definition has the same name, `{}`, as that of {}",
                plan.name,
                other.display()
            ));
        }
        self.app.definitions.files.claim(&plan.name, file.display().to_string());
        let compiled = CompiledDraft { plan, warnings: reports };
        let registered =
            self.app.definitions.register_compiled(&self.app.engine, compiled, BTreeMap::default(), REGISTERED_BY);
        match registered {
            Ok(registered) => ScanOutcome::Registered {
                name: registered.definition.name.clone(),
                version: registered.definition.current.version,
                new: registered.is_new,
                message,
            },
            Err(RegistrationError::Invalid(problems)) => {
                ScanOutcome::Broken { problems, message, names: possible_names }
            }
            Err(RegistrationError::Refused(error)) => broken(error.to_string()),
            // A file may replace a definition of another origin.
            Err(RegistrationError::FromFile(_)) => broken("its definition comes from another file".to_owned()),
        }
    }

    /// Returns whether a definition was registered from a file in an earlier process, and no file has its name now.
    fn was_registered(&self, name: &str) -> bool {
        let definition = self.app.definitions.get(name);
        let has_file = self.known.values().any(|state| !state.broken && state.names.iter().any(|own| **own == *name));
        definition.is_some_and(|definition| &*definition.current.by == REGISTERED_BY) && !has_file
    }

    /// Renders warnings and problems with their source lines.
    fn render_diagnostics(&self, found: &[(SourceText, Diagnostics)]) -> String {
        let shown = found.iter().filter(|(_, found)| !found.is_empty());
        shown.map(|(source, found)| found.render(source, self.paint.syntax())).collect::<Vec<_>>().join("\n")
    }

    /// Reports each change once.
    fn report(&mut self, file: &Path, looked: ScanOutcome) {
        let before = self.known.get(file).cloned();
        let was = before.as_ref().and_then(|before| before.registered.clone());
        let now = match looked {
            ScanOutcome::NotADefinition => {
                if self.known.remove(file).is_some() {
                    self.app.definitions.set_problems(&default_name(file), Vec::new());
                }
                return;
            }
            ScanOutcome::Registered { name, version, new, message } => {
                self.app.definitions.set_problems(&name, Vec::new());
                let repaired = before.as_ref().is_some_and(|before| before.broken);
                if repaired && was.is_none() {
                    // The problems were listed before the name of the definition was known.
                    self.app.definitions.set_problems(&default_name(file), Vec::new());
                }
                if new || repaired || was.as_ref() != Some(&(name.clone(), version)) {
                    info!(event = "registered", "registered {name}, version {version} ({})", file.display());
                }
                if !message.is_empty() && (new || before.as_ref().is_none_or(|before| before.message != message)) {
                    info!(event = "warnings", "{message}");
                }
                let names = vec![name.clone()];
                FileState { registered: Some((name, version)), message, broken: false, names }
            }
            ScanOutcome::Broken { problems, message, mut names } => {
                names.extend(was.as_ref().map(|(name, _)| name.clone()));
                let name = was.as_ref().map_or_else(|| default_name(file), |(name, _)| name.clone());
                self.app.definitions.set_problems(&name, problems);
                if before.as_ref().is_none_or(|before| before.message != message) {
                    info!(event = "broken", "{message}");
                    if let Some((name, version)) = &was {
                        info!(event = "stays", "the last registered version of `{name}`, {version}, stays active");
                    }
                }
                FileState { registered: was, message, broken: true, names }
            }
        };
        self.known.insert(file.to_owned(), now);
    }

    fn report_removed(&mut self, file: &Path, names: &BTreeMap<Arc<str>, PathBuf>) {
        let Some(known) = self.known.remove(file) else { return };
        let gone = match known.registered {
            // Another file holds the definition now; its registration was already reported.
            Some((name, _)) if names.contains_key(&name) => return,
            Some((name, version)) => {
                self.app.definitions.set_problems(&name, Vec::new());
                format!(
                    "{} was removed; the last registered version of `{name}`, {version}, stays active",
                    file.display()
                )
            }
            None => {
                self.app.definitions.set_problems(&default_name(file), Vec::new());
                format!("{} was removed", file.display())
            }
        };
        info!(event = "gone", "{gone}");
    }
}

/// Returns the name of a definition that has none itself.
fn default_name(file: &Path) -> Arc<str> {
    definition::default_name(file).unwrap_or_default().into()
}
