//! A definition from a file or standard input, compiled.

use std::io::Read;
use std::path::Path;

use windlass_core::Limits;
use windlass_core::plan::Plan;
use windlass_loom::Compiled;
use windlass_syntax::{Diagnostic, Diagnostics, ParseLimits, Source, Span, parse_json};

use crate::args::Dialect;
use crate::failure::{Exit, Failure};
use crate::out::{self, Paint};

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

/// Compiles in the dialect that was named, or the one the content looks like.
pub fn compile(source: &Source, dialect: Option<Dialect>, limits: &Limits) -> Result<Compiled, Diagnostics> {
    let options = windlass_loom::Options {
        limits: limits.clone(),
        name: name_of(source),
        tools: crate::tools::tools(limits).names().map(str::to_owned).collect(),
        ..Default::default()
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

/// The file's name without its ending.
fn name_of(source: &Source) -> Option<String> {
    match &*source.name {
        STDIN => None,
        name => Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned()),
    }
}

/// For commands that need a plan: problems and warnings go to stderr, problems end the command.
pub fn plan_of(source: &Source, dialect: Option<Dialect>, limits: &Limits, paint: Paint) -> Result<Plan, Failure> {
    match compile(source, dialect, limits) {
        Ok(Compiled { plan, warnings, .. }) => {
            if !warnings.is_empty() {
                out::note(&warnings.render(source, paint.syntax()));
            }
            Ok(plan)
        }
        Err(problems) => {
            out::note(&problems.render(source, paint.syntax()));
            let errors = problems.iter().filter(|problem| problem.severity == windlass_syntax::Severity::Error).count();
            let what = if errors == 1 { "1 problem".to_owned() } else { format!("{errors} problems") };
            Err(Failure::new(Exit::Invalid, format!("{} has {what}", source.name)))
        }
    }
}
