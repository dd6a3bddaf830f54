//! A definition from a file or standard input, compiled.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostic, Diagnostics, Node, ParseLimits, Scalars, Source, Span, parse_json, parse_yaml};
use windlass_value::Value;

use crate::args::Dialect;
use crate::config::{Activity, Settings, Target};
use crate::failure::Failure;
use crate::{flow, standard};

/// The name a definition from standard input has in messages.
const STDIN: &str = "<stdin>";

/// Reads the text; what cannot be read at all is no problem of the definition.
pub fn read(path: &Path, limits: &Limits) -> Result<Source, Failure> {
    let name = if is_stdin(path) { STDIN.to_owned() } else { path.display().to_string() };
    // One more than allowed is enough for the parser to say that it is too much.
    let most = limits.definition_bytes_max as u64 + 1;
    let failed = |error: std::io::Error| Failure::usage(format!("could not read the definition: {error}")).place(&name);
    let mut bytes = Vec::new();
    match is_stdin(path) {
        true => std::io::stdin().take(most).read_to_end(&mut bytes).map_err(failed)?,
        false => {
            // Opening a pipe waits for whoever writes to it; a device may have no end. A folder says so when it is read.
            let about = std::fs::metadata(path).map_err(failed)?;
            if !about.is_file() && !about.is_dir() {
                let failure = Failure::usage("could not read the definition: it is no regular file").place(&name);
                return Err(failure.hint("`-` reads it from standard input"));
            }
            let file = std::fs::File::open(path).map_err(failed)?;
            file.take(most).read_to_end(&mut bytes).map_err(failed)?
        }
    };
    let cut = bytes.len() as u64 == most;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A character may have been cut in half; the size is the problem then.
        Err(error) if cut => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            return Err(Failure::usage(format!("the definition is not UTF-8 text: byte {at} begins no character"))
                .place(&name)
                .hint("save it as UTF-8"));
        }
    };
    Ok(Source::new(name, text))
}

pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// A definition that can run, whatever it was written in.
pub struct Compiled {
    pub plan: Plan,
    /// Nothing that stops it from running.
    pub warnings: Diagnostics,
    /// Definitions that this one calls by a literal name, and where it does.
    pub calls: Vec<(String, Span)>,
    /// Files that are part of it, with warnings of their own.
    pub others: Vec<(Source, Diagnostics)>,
}

/// What is wrong with a definition, and with files that would be part of it.
#[derive(Default)]
pub struct Problems {
    pub own: Diagnostics,
    pub others: Vec<(Source, Diagnostics)>,
}

impl From<Diagnostics> for Problems {
    fn from(own: Diagnostics) -> Problems {
        Problems { own, others: Vec::new() }
    }
}

/// What a definition is compiled against, whatever it is written in.
pub trait Around {
    fn limits(&self) -> &Limits;
    fn loom(&self) -> windlass_loom::Options;
    fn noetl(&self) -> windlass_noetl::Options;
    fn zenflow(&self) -> windlass_zenflow::Options;
}

/// A file, with the settings beside it.
struct File<'a> {
    source: &'a Source,
    settings: &'a Settings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
}

impl Around for File<'_> {
    fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    fn loom(&self) -> windlass_loom::Options {
        loom_options(name_of(self.source), self.settings, self.app.clone(), self.parameters.clone())
    }

    fn noetl(&self) -> windlass_noetl::Options {
        noetl_options(name_of(self.source), self.settings)
    }

    fn zenflow(&self) -> windlass_zenflow::Options {
        flow::options(self.source, self.settings)
    }
}

/// Compiles in the dialect that was named, or the one the content looks like. `app` are the settings that its parameters
/// may read, `parameters` values for those that it does not declare.
pub fn compile(
    source: &Source,
    dialect: Option<Dialect>,
    settings: &Settings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
) -> Result<Compiled, Problems> {
    compile_in(source, dialect, &File { source, settings, app, parameters })
}

/// Compiles in the dialect that was named, or the one the content looks like.
pub fn compile_in(source: &Source, dialect: Option<Dialect>, around: &dyn Around) -> Result<Compiled, Problems> {
    let mut found = Diagnostics::new();
    let limits = around.limits();
    let parse_limits = ParseLimits { bytes: limits.definition_bytes_max, depth: limits.definition_depth_max };
    let is_json = dialect == Some(Dialect::Loom) || looks_like_json(source);
    let tree = match is_json {
        true => parse_json(source, parse_limits, &mut found),
        false => parse_yaml(source, parse_limits, Scalars::Yaml11, &mut found),
    };
    // The YAML of workflows has more than that of playbooks: what cannot be read as these may still be one.
    let only_zenflow =
        || (tree.is_none() && windlass_zenflow::looks_like_one(source, limits)).then_some(Dialect::Zenflow);
    let dialect = dialect.or_else(|| tree.as_ref().and_then(recognise)).or_else(only_zenflow);
    match (dialect, tree) {
        (Some(Dialect::Loom), Some(tree)) => {
            let compiled = windlass_loom::compile_tree(source, &tree, found, &around.loom())?;
            Ok(Compiled { plan: compiled.plan, warnings: compiled.warnings, calls: compiled.calls, others: Vec::new() })
        }
        (Some(Dialect::Noetl), Some(tree)) => {
            let compiled = windlass_noetl::compile_tree(source, &tree, found, &around.noetl())?;
            Ok(Compiled { plan: compiled.plan, warnings: compiled.warnings, calls: compiled.calls, others: Vec::new() })
        }
        (Some(Dialect::Zenflow), _) => zenflow(source, around),
        // A broken file is most likely one of ours: its own problems come first.
        (dialect, _)
            if found.has_errors()
                && (dialect.is_some()
                    || is_json
                    || mentions_a_playbook(source)
                    || mentions_agents(source)
                    || source.text.len() > parse_limits.bytes) =>
        {
            Err(found.sorted().into())
        }
        _ => Err(unknown_dialect().into()),
    }
}

/// Its YAML has other rules than that of playbooks: it is read once more.
fn zenflow(source: &Source, around: &dyn Around) -> Result<Compiled, Problems> {
    let mut found = Diagnostics::new();
    let Some(tree) = windlass_zenflow::read(source, around.limits(), &mut found) else {
        return Err(found.sorted().into());
    };
    match windlass_zenflow::compile_tree(source, &tree, found, &around.zenflow()) {
        Ok(windlass_zenflow::Compiled { plan, warnings, others, calls }) => {
            Ok(Compiled { plan, warnings, calls, others })
        }
        Err(windlass_zenflow::Problems { own, others }) => Err(Problems { own, others }),
    }
}

/// What a definition with problems calls, as far as it can be read: a child that is not there is one problem more.
pub fn calls_of(source: &Source, dialect: Option<Dialect>, settings: &Settings) -> Vec<(String, Span)> {
    match dialect {
        Some(Dialect::Loom | Dialect::Zenflow) => Vec::new(),
        _ => windlass_noetl::calls_of(source, &noetl_options(name_of(source), settings)),
    }
}

fn recognise(tree: &Node) -> Option<Dialect> {
    if windlass_noetl::recognise(tree) {
        return Some(Dialect::Noetl);
    }
    if windlass_zenflow::recognise(tree) {
        return Some(Dialect::Zenflow);
    }
    windlass_loom::recognise(tree).then_some(Dialect::Loom)
}

pub fn loom_options(
    name: Option<String>,
    settings: &Settings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
) -> windlass_loom::Options {
    windlass_loom::Options {
        limits: settings.limits.clone(),
        name,
        tools: ["http", "model", "noop"].map(str::to_owned).to_vec(),
        activities: settings.activities.iter().map(activity).collect(),
        registered: Default::default(),
        settings: app,
        parameters,
    }
}

pub fn noetl_options(name: Option<String>, settings: &Settings) -> windlass_noetl::Options {
    windlass_noetl::Options {
        limits: settings.limits.clone(),
        name,
        tools: crate::tools::names().into_iter().map(str::to_owned).collect(),
        aliases: Some(crate::tools::aliases(settings)),
        registered: windlass_noetl::Registered { functions: of_workers(settings), ..Default::default() },
    }
}

/// What a playbook calls with `kind: rust`, as if this program had it.
fn of_workers(settings: &Settings) -> Vec<String> {
    let of_workers = settings.activities.iter().filter(|activity| activity.target == Target::Worker);
    of_workers.map(|activity| activity.name.clone()).collect()
}

/// Text that cannot be read as YAML has no keys to go by.
fn mentions_a_playbook(source: &Source) -> bool {
    let mut lines = source.text.lines();
    lines.any(|line| line.starts_with("apiVersion:") || line.starts_with("kind:") || line.starts_with("workflow:"))
}

fn mentions_agents(source: &Source) -> bool {
    source.text.lines().any(|line| line.starts_with("steps:") || line.starts_with("agents:"))
}

fn activity(activity: &Activity) -> windlass_loom::Activity {
    let target = match activity.target {
        Target::Endpoint { .. } | Target::Worker => windlass_loom::Target::Tool,
        Target::Workflow(_) => windlass_loom::Target::Workflow(activity.name.clone()),
    };
    windlass_loom::Activity { name: activity.name.clone(), target }
}

fn looks_like_json(source: &Source) -> bool {
    source.text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
}

fn unknown_dialect() -> Diagnostics {
    let mut found = Diagnostics::new();
    let message = "this is no definition in a dialect that is known";
    let hint = "loom: a JSON object with `actions` (or `definition`), or one action with a `type`; noetl: YAML with \
                `apiVersion: noetl.io/v2` and a `workflow` of steps; zenflow: YAML or JSON with a `name` and `steps`; \
                naming the dialect insists on it";
    found.push(Diagnostic::error("WND-0001", Span::at(0), message).hint(hint));
    found
}

fn name_of(source: &Source) -> Option<String> {
    if is_from_stdin(source) { None } else { name_of_file(Path::new(&*source.name)) }
}

/// The file's name without its ending; in a Standard project that of its folder.
pub fn name_of_file(path: &Path) -> Option<String> {
    let folder = path.canonicalize().ok().filter(|_| standard::is_standard(path));
    let folder = folder.as_deref().and_then(Path::parent).and_then(Path::file_name);
    folder.or_else(|| path.file_stem()).map(|name| name.to_string_lossy().into_owned())
}

pub fn is_from_stdin(source: &Source) -> bool {
    &*source.name == STDIN
}
