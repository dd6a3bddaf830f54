//! Definitions in files of this machine, registered as they are and again when they change.

mod files;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::info;
use windlass_server::catalog::Unregistered;
use windlass_server::{App, Catalog, Compiled, Compiler, Draft};
use windlass_syntax::{Diagnostics, Report, Source};

use crate::config::Settings;
use crate::definition;
use crate::out::Paint;
use crate::project::Project;
pub(crate) use files::Roots;
pub(crate) use watch::Watcher;

/// What is said of a file that is no definition at all: a folder may hold others.
pub(crate) const NO_DEFINITION: &str = windlass_dialect::UNKNOWN_DIALECT;

/// Under whose name definitions are registered.
const BY: &str = "windlass dev";

/// The files, and what was made of them so far.
pub(crate) struct Folder {
    roots: Roots,
    settings: Arc<Settings>,
    app: App,
    paint: Paint,
    known: BTreeMap<PathBuf, Known>,
}

/// A file as it was looked at last.
#[derive(Clone, PartialEq)]
struct Known {
    /// The definition that it has become, if it ever was a good one.
    registered: Option<(Arc<str>, u64)>,
    /// What there is to say of it now, as it was told.
    told: String,
    broken: bool,
}

/// What a look at a file has shown.
enum Looked {
    /// No definition.
    Other,
    Good {
        name: Arc<str>,
        version: u64,
        new: bool,
        told: String,
    },
    Broken {
        problems: Vec<Report>,
        told: String,
    },
}

impl Folder {
    pub(crate) fn new(roots: Roots, settings: Arc<Settings>, app: App, paint: Paint) -> Folder {
        Folder { roots, settings, app, paint, known: BTreeMap::new() }
    }

    /// How many definitions there are, and how many files are broken.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let registered = self.known.values().filter(|known| known.registered.is_some()).count();
        let broken = self.known.values().filter(|known| known.broken).count();
        (registered, broken)
    }

    /// Looks at all files: what has changed may be called by what has not. What is the same becomes no new version.
    /// Blocking: reads, compiles and writes.
    pub(crate) fn look(&mut self) {
        let files = self.roots.files();
        let mut names: BTreeMap<Arc<str>, PathBuf> = BTreeMap::new();
        for file in &files {
            let looked = self.look_at(file, &names);
            if let Looked::Good { name, .. } = &looked {
                names.insert(name.clone(), file.clone());
            }
            self.tell(file, looked);
        }
        let gone: Vec<PathBuf> = self.known.keys().filter(|file| !files.contains(file)).cloned().collect();
        for file in gone {
            self.tell_gone(&file, &names);
        }
    }

    fn look_at(&self, file: &Path, names: &BTreeMap<Arc<str>, PathBuf>) -> Looked {
        let source = match definition::read(file, &self.settings.limits) {
            Ok(source) => source,
            Err(failure) => {
                return Looked::Broken {
                    problems: Vec::new(),
                    told: format!("{}: {}", file.display(), failure.message()),
                };
            }
        };
        let text = source.text.clone();
        let project = Project::read(source, None, &self.settings);
        let reports: Vec<Report> = project.found.iter().flat_map(|(source, found)| found.reports(source)).collect();
        // A file that was a definition is one that is broken now.
        let ours = self.roots.is_named(file) || self.known.get(file).is_some_and(|known| known.registered.is_some());
        if !ours && reports.iter().any(|report| report.code == NO_DEFINITION) {
            return Looked::Other;
        }
        let told = self.rendered(&project.found);
        if project.has_errors() {
            return Looked::Broken { problems: reports, told };
        }
        let broken = |why: String| Looked::Broken { problems: Vec::new(), told: format!("{}: {why}", file.display()) };
        let plan = match project.add_below(&self.app.engine, &self.settings) {
            Ok(plan) => plan,
            Err(failure) => return broken(failure.message().to_owned()),
        };
        if let Some(other) = names.get(&plan.name) {
            return broken(format!("its definition is called `{}`, as that of {} is", plan.name, other.display()));
        }
        let draft = Draft {
            name: Some(plan.name.to_string()),
            dialect: Some(plan.dialect.to_string()),
            text: text.to_string(),
        };
        let compiled = Ready(Mutex::new(Some(Compiled { plan, warnings: reports })));
        let registered = self.app.definitions.register(&self.app.engine, &compiled, &draft, BTreeMap::default(), BY);
        match registered {
            Ok(registered) => Looked::Good {
                name: registered.definition.name.clone(),
                version: registered.definition.current.version,
                new: registered.new,
                told,
            },
            Err(Unregistered::Invalid(problems)) => Looked::Broken { problems, told },
            Err(Unregistered::Refused(error)) => broken(error.to_string()),
        }
    }

    /// Warnings and problems with the lines they stand in.
    fn rendered(&self, found: &[(Source, Diagnostics)]) -> String {
        let shown = found.iter().filter(|(_, found)| !found.is_empty());
        shown.map(|(source, found)| found.render(source, self.paint.syntax())).collect::<Vec<_>>().join("\n")
    }

    /// Says what is new, once.
    fn tell(&mut self, file: &Path, looked: Looked) {
        let before = self.known.get(file).cloned();
        let was = before.as_ref().and_then(|before| before.registered.clone());
        let now = match looked {
            Looked::Other => {
                if self.known.remove(file).is_some() {
                    self.app.definitions.tell_problems(&stem(file), Vec::new());
                }
                return;
            }
            Looked::Good { name, version, new, told } => {
                self.app.definitions.tell_problems(&name, Vec::new());
                let mended = before.as_ref().is_some_and(|before| before.broken);
                if new || mended || was.as_ref() != Some(&(name.clone(), version)) {
                    info!(event = "registered", "registered {name}, version {version} ({})", file.display());
                }
                if !told.is_empty() && (new || before.as_ref().is_none_or(|before| before.told != told)) {
                    info!(event = "warnings", "{told}");
                }
                Known { registered: Some((name, version)), told, broken: false }
            }
            Looked::Broken { problems, told } => {
                let name = was.as_ref().map_or_else(|| stem(file), |(name, _)| name.clone());
                self.app.definitions.tell_problems(&name, problems);
                if before.as_ref().is_none_or(|before| before.told != told) {
                    info!(event = "broken", "{told}");
                    if let Some((name, version)) = &was {
                        info!(event = "stays", "`{name}` stays as it was registered last, version {version}");
                    }
                }
                Known { registered: was, told, broken: true }
            }
        };
        self.known.insert(file.to_owned(), now);
    }

    fn tell_gone(&mut self, file: &Path, names: &BTreeMap<Arc<str>, PathBuf>) {
        let Some(known) = self.known.remove(file) else { return };
        let gone = match known.registered {
            // Another file has the definition now: that it is registered was said.
            Some((name, _)) if names.contains_key(&name) => return,
            Some((name, version)) => {
                self.app.definitions.tell_problems(&name, Vec::new());
                format!("{} is gone; `{name}` stays as it was registered last, version {version}", file.display())
            }
            None => {
                self.app.definitions.tell_problems(&stem(file), Vec::new());
                format!("{} is gone", file.display())
            }
        };
        info!(event = "gone", "{gone}");
    }
}

fn stem(file: &Path) -> Arc<str> {
    file.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default().into()
}

/// What was compiled before it is registered.
struct Ready(Mutex<Option<Compiled>>);

impl Compiler for Ready {
    fn compile(&self, _draft: &Draft, _catalog: &dyn Catalog) -> Result<Compiled, Vec<Report>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(Vec::new)
    }
}
