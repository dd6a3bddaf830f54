//! Reads a definition from a file or standard input.

use std::io::Read;
use std::path::Path;

use windlass_core::Limits;
use windlass_syntax::SourceText;

use crate::failure::{CliFailure, codes};
use crate::standard_project;

/// The name of standard input in messages.
const STDIN: &str = "<stdin>";

/// Reads the definition's text. An unreadable file is a usage error, not a problem of the definition.
pub(crate) fn read(path: &Path, limits: &Limits) -> Result<SourceText, CliFailure> {
    read_as("definition", path, limits)
}

/// Reads the text of a file of any kind, in the same way.
pub(crate) fn read_as(kind: &str, path: &Path, limits: &Limits) -> Result<SourceText, CliFailure> {
    let name = if is_stdin(path) { STDIN.to_owned() } else { path.display().to_string() };
    // One byte more than allowed is enough for the parser to report that the definition is too large.
    let max_bytes = limits.max_definition_bytes as u64 + 1;
    let failed = |error: std::io::Error| {
        CliFailure::usage(format!("could not read the {kind}: {error}")).code(codes::UNREADABLE).location(&name)
    };
    let mut bytes = Vec::new();
    match is_stdin(path) {
        true => std::io::stdin().take(max_bytes).read_to_end(&mut bytes).map_err(failed)?,
        false => {
            // Opening a pipe waits for a writer, and a device may never end. Reading a folder reports an error itself.
            let about = std::fs::metadata(path).map_err(failed)?;
            if !about.is_file() && !about.is_dir() {
                let failure = CliFailure::usage(format!("could not read the {kind}: it is not a regular file"))
                    .code(codes::UNREADABLE)
                    .location(&name);
                return Err(failure.hint("`-` reads it from standard input"));
            }
            let file = std::fs::File::open(path).map_err(failed)?;
            file.take(max_bytes).read_to_end(&mut bytes).map_err(failed)?
        }
    };
    let is_truncated = bytes.len() as u64 == max_bytes;
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // A character may have been cut in half; then the size is the problem.
        Err(error) if is_truncated => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            return Err(CliFailure::usage(format!("the {kind} is not UTF-8 text: byte {at} begins no character"))
                .code(codes::UNREADABLE)
                .location(&name)
                .hint("save it as UTF-8"));
        }
    };
    Ok(SourceText::new(name, text))
}

pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the file name without its extension; in a Standard project, the name of the folder.
pub(crate) fn default_name(path: &Path) -> Option<String> {
    let folder = path.canonicalize().ok().filter(|_| standard_project::is_standard(path));
    let folder = folder.as_deref().and_then(Path::parent).and_then(Path::file_name);
    folder.or_else(|| path.file_stem()).map(|name| name.to_string_lossy().into_owned())
}

pub(crate) fn is_from_stdin(source: &SourceText) -> bool {
    &*source.name == STDIN
}
