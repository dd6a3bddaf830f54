//! `windlass mock FILE`

use windlass_syntax::Severity;
use windlass_testing::mock::{MockOptions, MockService, Script, ServedRequest};

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::definition;
use crate::failure::{CliExit, CliFailure};
use crate::host::{self, Interrupts};
use crate::out::{self, Paint};

/// Answers on loopback as the script says, until it is interrupted.
pub(crate) fn mock(global: &GlobalArgs, args: &args::MockArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let source = definition::read(&args.file, &settings.limits)?;
    let script = Script::parse(&source).map_err(|problems| {
        out::note(&problems.render(&source, Paint::stderr(global.no_color).syntax()));
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        CliFailure::new(CliExit::Invalid, format!("{} has {errors} problem(s)", source.name))
    })?;
    host::runtime()?.block_on(async {
        let mut interrupts = Interrupts::listen()?;
        let quiet = args.quiet;
        let print_request = move |ServedRequest { method, path, status, by }: &ServedRequest| {
            if !quiet {
                out::note(&format!("{method} {path} → {status} ({by})"));
            }
        };
        let has_model = script.has_model();
        let options = MockOptions { port: args.port, log: args.log.clone() };
        let service = MockService::with_options(script, &options, print_request);
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
