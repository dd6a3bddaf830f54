//! A definition with its surroundings: the definitions it calls, and the files of a Logic Apps Standard project.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use windlass_core::Program;
use windlass_core::plan::Plan;
use windlass_runtime::RuntimeEngine;
use windlass_syntax::{Diagnostic, DiagnosticReport, Diagnostics, Severity, SourceText, Span, nearest};
use windlass_value::BlobHash;

use crate::commands::check::explain_command;
use crate::config::{CliSettings, ConfiguredTarget};
use crate::definition;
use crate::dialects::{file_context, registry};
use crate::failure::{CliExit, CliFailure};
use crate::mock_steps;
use crate::out::{self, Paint};
use crate::standard_project::{StandardProjectFiles, folder_of, is_standard};

/// The problem code of a call to a definition that does not exist or cannot be used.
pub(crate) const NO_SUCH_WORKFLOW: &str = "WND-1116";

/// The problem code of a credential whose environment variable is not set; the same as for an unknown credential.
const UNSET_CREDENTIAL: &str = "WND-1510";

/// Maximum number of playbooks beside a caller that are searched, and maximum number of bytes read of each.
const MAX_REGISTERED: usize = 1_000;
const MAX_HEAD_BYTES: u64 = 16 * 1024;

/// A compiled project: definitions come before their callers, the requested one last.
pub(crate) struct Project {
    definitions: Vec<Definition>,
    /// Every file that was read, with its diagnostics, in the order of reading.
    pub diagnostics: Vec<(SourceText, Diagnostics)>,
}

struct Definition {
    plan: Plan,
    /// The names by which it calls other definitions, with their indexes.
    calls: Vec<(Arc<str>, usize)>,
}

impl Project {
    /// Reads and compiles a definition. Reads only files beside it and those that the settings name.
    pub(crate) fn read(source: SourceText, dialect: Option<&str>, settings: &CliSettings) -> Project {
        let mut project = Project { definitions: Vec::new(), diagnostics: Vec::new() };
        let mut reader = Reader { project: &mut project, settings, done: BTreeMap::new(), open: Vec::new() };
        let path = (!definition::is_from_stdin(&source)).then(|| PathBuf::from(&*source.name));
        reader.definition(source, path, dialect);
        project
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|(_, found)| found.has_errors())
    }

    /// For commands that need a plan: prints problems and warnings on stderr, and fails if there are problems.
    pub(crate) fn or_fail(self, paint: Paint) -> Result<Project, CliFailure> {
        let shown = self.diagnostics.iter().filter(|(_, found)| !found.is_empty());
        shown.for_each(|(source, found)| out::note(&found.render(source, paint.syntax())));
        match self.diagnostics.iter().find(|(_, found)| found.has_errors()) {
            None => Ok(self),
            Some((source, found)) => {
                let errors = found.iter().filter(|problem| problem.severity == Severity::Error).count();
                let what = if errors == 1 { "1 problem".to_owned() } else { format!("{errors} problems") };
                let reports: Vec<DiagnosticReport> =
                    self.diagnostics.iter().flat_map(|(source, found)| found.reports(source)).collect();
                let failure = CliFailure::new(CliExit::Invalid, format!("{} has {what}", source.name));
                let failure = failure.problems(&reports);
                Err(match explain_command(found) {
                    Some(command) => failure.hint(format!("`{command}` explains the first one")),
                    None => failure,
                })
            }
        }
    }

    /// Adds the names of the steps of all its definitions.
    pub(crate) fn add_step_names(&self, names: &mut BTreeSet<String>) {
        self.definitions.iter().for_each(|definition| mock_steps::add_step_names(&definition.plan, names));
    }

    /// Returns the plan of the requested definition.
    pub(crate) fn plan(&self) -> Result<&Plan, CliFailure> {
        // Without a plan there are problems, and they were already printed.
        self.definitions.last().map(|definition| &definition.plan).ok_or_else(|| CliFailure::silent(CliExit::Invalid))
    }

    /// Stores all plans. Each plan pins the hashes of the plans it calls, so that no later change of a file affects a
    /// run.
    pub(crate) fn add_to(
        self,
        engine: &RuntimeEngine,
        settings: &CliSettings,
    ) -> Result<(BlobHash, Arc<Program>), CliFailure> {
        Ok(engine.add_plan(self.add_called_plans(engine, settings)?)?)
    }

    /// Stores the plans that the definition calls, and returns its own plan.
    pub(crate) fn add_called_plans(
        mut self,
        engine: &RuntimeEngine,
        settings: &CliSettings,
    ) -> Result<Plan, CliFailure> {
        let requested = self.definitions.pop().ok_or_else(|| CliFailure::silent(CliExit::Invalid))?;
        let mut added: Vec<BlobHash> = Vec::new();
        let seals = crate::secrets::sealer(settings);
        let finished = |definition: Definition, added: &[BlobHash]| {
            let Definition { mut plan, calls } = definition;
            // The file is trusted to hold secrets: literal ones stay.
            crate::secrets::seal_defaults(&seals, &mut plan);
            plan.pins = calls.into_iter().map(|(name, at)| (name, added[at])).collect();
            plan
        };
        for definition in self.definitions {
            added.push(engine.add_plan(finished(definition, &added))?.0);
        }
        Ok(finished(requested, &added))
    }
}

struct Reader<'a> {
    project: &'a mut Project,
    settings: &'a CliSettings,
    /// Compiled files with the index of their definition, or `None` if they have problems.
    done: BTreeMap<PathBuf, Option<usize>>,
    /// Files whose calls are being resolved, outermost first.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    /// Compiles a definition and returns its index, or `None` if it has problems.
    fn definition(&mut self, source: SourceText, path: Option<PathBuf>, dialect: Option<&str>) -> Option<usize> {
        let surroundings =
            path.as_deref().map(|path| StandardProjectFiles::read_for(path, &self.settings.limits)).unwrap_or_default();
        self.project.diagnostics.extend(surroundings.diagnostics);
        let mut app = surroundings.settings;
        app.extend(self.settings.app_settings.clone());
        let context = file_context(&source, self.settings, app, surroundings.parameters);
        let (plan, mut found, calls, others) = match registry().compile(&source, dialect, &context) {
            Ok(compiled) => (Some(compiled.plan), compiled.warnings, compiled.calls, compiled.included_files),
            Err(problems) => {
                let calls = registry().calls(&source, dialect, &context);
                (None, problems.own, calls, problems.included_files)
            }
        };
        unset_credentials(&source, self.settings).into_iter().for_each(|warning| found.push(warning));
        self.open.extend(path.clone().map(canonical_path));
        let at = self.project.diagnostics.len();
        self.project.diagnostics.push((source, Diagnostics::new()));
        self.project.diagnostics.extend(others);
        let mut resolved = Vec::new();
        for (name, span) in calls {
            let own = plan.as_ref().is_some_and(|plan| *plan.name == *name);
            match self.resolve_call(&name, span, path.as_deref(), own) {
                Ok(called) => resolved.extend(called.map(|called| (Arc::from(name), called))),
                Err(problem) => found.push(*problem),
            }
        }
        if path.is_some() {
            self.open.pop();
        }
        let usable = !found.has_errors() && !self.project.has_errors();
        self.project.diagnostics[at].1 = found.sorted();
        let plan = plan.filter(|_| usable)?;
        self.project.definitions.push(Definition { plan, calls: resolved });
        Some(self.project.definitions.len() - 1)
    }

    /// Returns the index of a called definition, or `None` for a definition that calls itself by name: the engine
    /// resolves that.
    fn resolve_call(
        &mut self,
        name: &str,
        span: Span,
        from: Option<&Path>,
        own: bool,
    ) -> Result<Option<usize>, Box<Diagnostic>> {
        let problem = |message: String, hint: String| {
            Box::new(Diagnostic::error(NO_SUCH_WORKFLOW, span, message).with_hint(hint))
        };
        let candidates = self.candidate_paths(name, from);
        let Some(path) = candidates.iter().find(|path| path.is_file()).cloned() else {
            if own {
                return Ok(None);
            }
            let searched = candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
            let near = from.and_then(|from| near_file(name, from)).map(|near| format!("did you mean `{near}`?"));
            let hint = match (near, searched.is_empty(), from) {
                (_, true, Some(_)) => {
                    "a path cannot lead out of the folder of this file, nor to a hidden file: put the \
                                       called file next to it"
                        .to_owned()
                }
                (Some(near), ..) => near,
                (None, false, _) => format!("put it beside this file; searched: {searched}"),
                (None, true, None) => "a definition from standard input has no files beside it".to_owned(),
            };
            return Err(problem(format!("there is no workflow `{name}`"), hint));
        };
        let file = canonical_path(path.clone());
        if self.open.last() == Some(&file) && own {
            return Ok(None);
        }
        if self.open.contains(&file) {
            let message = format!("the workflow `{name}` calls itself through other files");
            let hint = "a workflow can call itself by its own name; a cycle of several files cannot be pinned";
            return Err(problem(message, hint.to_owned()));
        }
        let known = match self.done.get(&file) {
            Some(known) => *known,
            None => {
                let read = definition::read(&path, &self.settings.limits);
                let source = read.map_err(|failure| {
                    problem(format!("the workflow `{name}` cannot be read: {}", failure.message()), String::new())
                })?;
                let made = self.definition(source, Some(path.clone()), None);
                self.done.insert(file, made);
                made
            }
        };
        match known {
            Some(known) => Ok(Some(known)),
            None => {
                let message = format!("the workflow `{name}` has problems");
                Err(problem(message, format!("`windlass check {}` shows them", path.display())))
            }
        }
    }

    /// Returns the paths where a definition of this name may be: the configured one, beside the caller, or in its own
    /// folder.
    fn candidate_paths(&self, name: &str, from: Option<&Path>) -> Vec<PathBuf> {
        let configured = self.settings.activities.iter().find_map(|activity| match &activity.target {
            ConfiguredTarget::Workflow(path) if activity.name == name => Some(path.clone()),
            _ => None,
        });
        if let Some(path) = configured {
            return vec![path];
        }
        let Some(folder) = from.map(folder_of) else { return Vec::new() };
        // A path that leads out of the folder could reach any file.
        let inside =
            |part: Component| matches!(part, Component::Normal(part) if !part.as_encoded_bytes().starts_with(b"."));
        if name.is_empty() || name.contains('\\') || !Path::new(name).components().all(inside) {
            return Vec::new();
        }
        let mut paths = vec![folder.join(format!("{name}.json")), folder.join(name).join("workflow.json")];
        if from.is_some_and(is_standard) {
            paths.push(folder_of(&folder).join(name).join("workflow.json"));
        }
        // Playbooks are called by the path they were registered under: its last component is usually the file's name.
        let last = name.rsplit('/').next().unwrap_or(name);
        for name in if last == name { vec![name] } else { vec![name, last] } {
            paths.extend(["", ".yaml", ".yml"].map(|ending| folder.join(format!("{name}{ending}"))));
        }
        paths.extend(find_registered_playbook(&folder, name));
        paths
    }
}

/// Warns about configured credentials that a definition names and whose environment variables are not set.
pub(crate) fn unset_credentials(source: &SourceText, settings: &CliSettings) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    for alias in settings.auth.aliases() {
        let Some(reason) = settings.auth.unset_reason(&windlass_tools::auth_variable(alias)) else { continue };
        let Some(at) = find_alias(&source.text, alias) else { continue };
        let message = format!("the credential `{alias}` cannot be used yet: {reason}");
        let warning = Diagnostic::warning(UNSET_CREDENTIAL, Span::new(at, at + alias.len()), message);
        warnings.push(warning.with_hint("set it before the run reaches it"));
    }
    warnings
}

/// Returns the position of an alias in a line about credentials.
fn find_alias(text: &str, alias: &str) -> Option<usize> {
    let part = |letter: char| letter.is_alphanumeric() || "_-".contains(letter);
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let about = ["auth", "credential", "alias"].iter().any(|word| line.contains(word));
        let positions = line.match_indices(alias).map(|(at, _)| at).filter(|_| about);
        let whole = |at: &usize| {
            let (before, after) = (line[..*at].chars().next_back(), line[at + alias.len()..].chars().next());
            !before.is_some_and(part) && !after.is_some_and(part)
        };
        // The last match: the first one may be the key.
        if let Some(at) = positions.filter(whole).last() {
            return Some(start + at);
        }
        start += line.len();
    }
    None
}

/// Finds the playbook in a folder that declares this path as its own.
fn find_registered_playbook(folder: &Path, path: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut playbooks: Vec<PathBuf> = entries.filter(|file| is_yaml(file)).collect();
    playbooks.sort();
    playbooks.into_iter().take(MAX_REGISTERED).find(|file| {
        let mut text = String::new();
        let read = std::fs::File::open(file).and_then(|file| file.take(MAX_HEAD_BYTES).read_to_string(&mut text));
        let declares_path =
            |line: &str| line.trim().strip_prefix("path:").map(|value| value.trim().trim_matches(['"', '\'']) == path);
        read.is_ok()
            && text.lines().take_while(|line| !line.starts_with("workflow:")).filter_map(declares_path).any(|same| same)
    })
}

fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "yaml" || ending == "yml")
}

fn canonical_path(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

fn near_file(name: &str, from: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder_of(from)).ok()?;
    let names: Vec<String> = entries
        .flatten()
        .filter(|entry| is_yaml(&entry.path()) || entry.path().extension().is_some_and(|ending| ending == "json"))
        .filter_map(|entry| Some(entry.path().file_stem()?.to_string_lossy().into_owned()))
        .collect();
    nearest(name, names.iter().map(String::as_str)).map(str::to_owned)
}
