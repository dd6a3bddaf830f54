//! `windlass init`

use std::path::Path;

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::init::{ProjectTemplate, TEMPLATES};
use crate::out;
use crate::stores::shell_quote;

/// Writes a project that runs offline.
pub(crate) fn init(global: &GlobalArgs, args: &args::InitArgs) -> Result<CliExit, CliFailure> {
    let folder = args.folder.as_deref().unwrap_or(Path::new("."));
    let template = ProjectTemplate::for_dialect(&args.dialect).unwrap_or(&TEMPLATES[0]);
    let written = template.write(folder)?;
    if global.json {
        let files = written.iter().map(|path| path.display().to_string().into()).collect();
        let value = windlass_value::Value::object([("written", windlass_value::Value::list(files))]);
        out::print(&windlass_value::to_json(&value))?;
        return Ok(CliExit::Success);
    }
    for path in &written {
        out::print(&format!("wrote {}", path.display()))?;
    }
    let definition = template.definition;
    let enter = args.folder.as_ref().map(|folder| format!("cd {}\n  ", shell_quote(&folder.display().to_string())));
    out::note(&format!(
        "next:\n  {}windlass run {definition} --static mocks.yaml --virtual-time\n  windlass dev",
        enter.unwrap_or_default()
    ));
    Ok(CliExit::Success)
}
