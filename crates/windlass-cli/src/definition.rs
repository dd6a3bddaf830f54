//! A definition from a file or standard input, compiled.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use windlass_core::Limits;
use windlass_loom::Compiled;
use windlass_syntax::{Diagnostic, Diagnostics, ParseLimits, Source, Span, parse_json};
use windlass_value::Value;

use crate::args::Dialect;
use crate::config::{Activity, Settings, Target};
use crate::failure::Failure;
use crate::standard;

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

/// Compiles in the dialect that was named, or the one the content looks like. `app` are the settings that its parameters
/// may read, `parameters` values for those that it does not declare.
pub fn compile(
    source: &Source,
    dialect: Option<Dialect>,
    settings: &Settings,
    app: BTreeMap<String, String>,
    parameters: BTreeMap<String, Value>,
) -> Result<Compiled, Diagnostics> {
    let limits = &settings.limits;
    let options = windlass_loom::Options {
        limits: limits.clone(),
        name: name_of(source),
        tools: crate::tools::NAMES.iter().map(|name| (*name).to_owned()).collect(),
        activities: settings.activities.iter().map(activity).collect(),
        settings: app,
        parameters,
    };
    if dialect == Some(Dialect::Loom) {
        return windlass_loom::compile(source, &options);
    }
    let mut found = Diagnostics::new();
    let parse_limits = ParseLimits { bytes: limits.definition_bytes_max, depth: limits.definition_depth_max };
    match parse_json(source, parse_limits, &mut found) {
        Some(tree) if windlass_loom::recognise(&tree) => windlass_loom::compile_tree(source, &tree, found, &options),
        // A broken file is most likely one of ours: its own problems come first.
        _ if (looks_like_json(source) || source.text.len() > parse_limits.bytes) && found.has_errors() => {
            Err(found.sorted())
        }
        _ => Err(unknown_dialect()),
    }
}

fn activity(activity: &Activity) -> windlass_loom::Activity {
    let target = match activity.target {
        Target::Endpoint { .. } => windlass_loom::Target::Tool,
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
    let hint =
        "loom: a JSON object with `actions` (or `definition`), or one action with a `type`; --dialect loom insists";
    found.push(Diagnostic::error("WND-0001", Span::at(0), message).hint(hint));
    found
}

/// The file's name without its ending; in a Standard project that of its folder.
fn name_of(source: &Source) -> Option<String> {
    if is_from_stdin(source) {
        return None;
    }
    let path = Path::new(&*source.name);
    let folder = path.canonicalize().ok().filter(|_| standard::is_standard(path));
    let folder = folder.as_deref().and_then(Path::parent).and_then(Path::file_name);
    folder.or_else(|| path.file_stem()).map(|name| name.to_string_lossy().into_owned())
}

pub fn is_from_stdin(source: &Source) -> bool {
    &*source.name == STDIN
}
