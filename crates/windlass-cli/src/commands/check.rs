//! `windlass check FILE…`

use std::collections::BTreeSet;

use windlass_syntax::{DiagnosticReport, Diagnostics, Severity, SourceText};

use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::definition;
use crate::failure::{CliExit, CliFailure};
use crate::out::{self, Paint};
use crate::project::Project;
use crate::{mock_steps, mocks};

/// Checks all files, even if one of them is broken.
pub(crate) fn check(global: &GlobalArgs, args: &args::CheckArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let mut reports = Vec::new();
    let mut steps = BTreeSet::new();
    let (mut invalid, mut unreadable) = (false, false);
    for file in &args.files {
        let source = match definition::read(file, &settings.limits) {
            Ok(source) => source,
            Err(failure) => {
                failure.show();
                reports.push(failure.report(file));
                unreadable = true;
                continue;
            }
        };
        let project = Project::read(source, args.dialect.as_deref(), &settings);
        invalid |= project.has_errors();
        project.add_step_names(&mut steps);
        // A called definition gets its own line only if it has findings.
        let called = |at: usize, found: &Diagnostics| at > 0 && found.is_empty();
        let shown = project.diagnostics.iter().enumerate().filter(|(at, (_, found))| !called(*at, found));
        for (_, (source, found)) in shown {
            match global.json {
                true => reports.extend(found.reports(source)),
                false => show(global, source, found)?,
            }
        }
    }
    if let Some(path) = &settings.dev_mocks
        && let Ok(file) = mocks::read(path, &settings, Paint::stderr(global.no_color))
    {
        // The definitions that are not checked now may use the same file.
        let warning = mock_steps::misspelt_steps_warning(&file, &path.display().to_string(), &steps);
        warning.iter().for_each(|warning| out::note(warning));
    }
    if global.json {
        print_reports(&reports)?;
    }
    Ok(match (unreadable, invalid) {
        (true, _) => CliExit::Usage,
        (false, true) => CliExit::Invalid,
        (false, false) => CliExit::Success,
    })
}

fn show(global: &GlobalArgs, source: &SourceText, found: &Diagnostics) -> Result<(), CliFailure> {
    let paint = Paint::stdout(global.no_color);
    if !found.is_empty() {
        out::print(&found.render(source, paint.syntax()))?;
        out::print("")?;
    }
    let count = |severity| found.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let verdict = match (errors, warnings) {
        (0, 0) => "valid".to_owned(),
        (0, warnings) => format!("valid, {}", counted(warnings, "warning")),
        (errors, 0) => counted(errors, "problem"),
        (errors, warnings) => format!("{}, {}", counted(errors, "problem"), counted(warnings, "warning")),
    };
    out::print(&format!("{}: {verdict}", source.name))?;
    explain_command(found).map_or(Ok(()), |command| out::print(&format!("details: {command}")))
}

/// Returns the command that explains the first problem, or the first warning if there is no problem.
pub(crate) fn explain_command(found: &Diagnostics) -> Option<String> {
    let problem = found.iter().find(|problem| problem.severity == Severity::Error).or(found.iter().next())?;
    Some(format!("windlass explain {}", problem.code))
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn print_reports(reports: &[DiagnosticReport]) -> Result<(), CliFailure> {
    let text = serde_json::to_string_pretty(reports).map_err(|error| CliFailure::usage(error.to_string()))?;
    out::print(&text)
}
