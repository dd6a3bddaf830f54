//! `windlass mock FILE` and `windlass mock --from DEFINITION`

use std::path::Path;

use windlass_testing::mock::{MockOptions, MockService, ServedRequest};

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::out::{self, Paint};
use crate::{definition, mock_stubs, mocks};

pub(crate) fn mock(global: &GlobalArgs, args: &args::MockArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    match (&args.from, &args.file) {
        (Some(definition), _) => write_stubs(global, args, &settings, definition),
        (None, Some(file)) => serve(global, args, &settings, file),
        (None, None) => Err(CliFailure::usage("name a mock file, or a definition with --from")),
    }
}

/// Writes stubs for the calls of a definition. An existing file is never overwritten.
fn write_stubs(
    global: &GlobalArgs,
    args: &args::MockArgs,
    settings: &CliSettings,
    path: &Path,
) -> Result<CliExit, CliFailure> {
    let source = definition::read(path, &settings.limits)?;
    let stubs = mock_stubs::for_definition(&source, args.dialect.as_deref(), &settings.limits).map_err(|problems| {
        out::note(&problems.render(&source, Paint::stderr(global.no_color).syntax()));
        CliFailure::new(CliExit::Invalid, format!("{} has no calls that could be found", source.name))
            .problems(&problems.reports(&source))
    })?;
    let Some(file) = &args.file else {
        out::print(stubs.trim_end())?;
        return Ok(CliExit::Success);
    };
    write_new(file, &stubs)?;
    let quoted = |path: &Path| crate::hints::shell_quote(&path.to_string_lossy());
    let run = format!("windlass run {} --static {}", quoted(path), quoted(file));
    out::note(&format!("wrote {}; edit its answers, then: {run}", file.display()));
    Ok(CliExit::Success)
}

/// Creates a file with this text.
pub(crate) fn write_new(path: &Path, text: &str) -> Result<(), CliFailure> {
    let created = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = created.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|error| {
        let failure = CliFailure::usage(format!("could not write {}: {error}", path.display()));
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => {
                failure.hint("name another file: existing files are never overwritten")
            }
            _ => failure,
        }
    })
}

/// Answers on loopback as the mock file says, until it is interrupted.
fn serve(
    global: &GlobalArgs,
    args: &args::MockArgs,
    settings: &CliSettings,
    path: &Path,
) -> Result<CliExit, CliFailure> {
    let file = mocks::read(path, settings, Paint::stderr(global.no_color))?;
    if !file.has_requests() && !file.has_model() {
        let hint = format!("rules for steps are for `windlass run DEFINITION --static {}`", path.display());
        out::note(&format!("no rule of this file names a request or a model\n  hint: {hint}"));
    }
    host::runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let quiet = args.quiet;
        let print_request = move |ServedRequest { method, path, status, by }: &ServedRequest| {
            if !quiet {
                out::note(&format!("{method} {path} → {status} ({by})"));
            }
        };
        let has_model = file.has_model();
        let options = MockOptions { port: args.port, log: args.log.clone() };
        let service = MockService::with_options(file, &options, print_request);
        let service = service.map_err(|error| {
            // Opening the log file shows whether the log or the port is the problem.
            if let Some(log) =
                args.log.as_ref().filter(|log| std::fs::OpenOptions::new().append(true).open(log).is_err())
            {
                return CliFailure::usage(format!("could not write the log {}: {error}", log.display()));
            }
            CliFailure::usage(format!("could not listen on port {}: {error}", args.port))
                .hint("choose another with --port; 0 picks a free one")
        })?;
        out::print(&format!("listening on {}", service.url("")))?;
        if has_model {
            let url = service.url("/v1");
            out::note(&format!(
                "reach its model with OPENAI_BASE_URL={url} and --model openai/NAME, or ANTHROPIC_BASE_URL={url} and \
                 --model anthropic/NAME; any key is accepted"
            ));
        }
        interrupts.next().await;
        Ok(CliExit::Success)
    })
}
