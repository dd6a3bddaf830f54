//! `windlass completions SHELL` and `windlass man FOLDER`, for packages and for programs installed with cargo.

use clap::CommandFactory;

use crate::args::{CliArgs, CompletionsArgs, ManArgs};
use crate::failure::{CliExit, CliFailure};
use crate::out;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<CliExit, CliFailure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut CliArgs::command(), "windlass", &mut script);
    out::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(CliExit::Success)
}

/// Writes a manual page for the program, and one for each command: `windlass.1`, `windlass-run.1` and so on.
pub(crate) fn man(args: &ManArgs) -> Result<CliExit, CliFailure> {
    // The pages of all targets are the same: they show the number of the version alone.
    let command = CliArgs::command().version(env!("CARGO_PKG_VERSION")).long_version(None::<&str>);
    clap_mangen::generate_to(command, &args.folder).map_err(|error| {
        CliFailure::usage(format!("could not write the manual pages: {error}"))
            .location(args.folder.display().to_string())
            .hint("the folder must exist and be writable")
    })?;
    Ok(CliExit::Success)
}
