//! The outcome of a run: the documented JSON object, and a summary for users.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, LoopEndReason, LoopSummary, Status};
use windlass_dialect::{ReportDetail, ReportEntry, ReportSection};
use windlass_errors::for_run_error;
use windlass_runtime::adapters::CHILD_FACT;
use windlass_runtime::inspect::{
    LoopDetailsByStep, StoredEvents, defined_max_iterations, loop_details, source_span, with_run_hint,
};
use windlass_runtime::{FinalReport, RunOptions, StepReport, resolve};
use windlass_store::Store;
use windlass_value::{Map, Value, to_json_pretty};

use crate::args::GlobalArgs;
use crate::dialects::registry;
use crate::failure::{CliExit, CliFailure};
use crate::out::{self, Paint};
use crate::text;
use crate::warnings;
use crate::{hints, stores, trust};

/// An ended run with its report.
pub(crate) struct EndedRun<'a> {
    pub run: &'a Arc<str>,
    pub plan: &'a Plan,
    pub report: FinalReport,
    facts: LoopDetailsByStep,
    /// Non-fatal problems of the run.
    warnings: Vec<String>,
    /// The run is in memory only: there is nothing to inspect later.
    ephemeral: bool,
    /// The number that identifies the run besides its id.
    execution_id: Option<i64>,
    /// The mock file with which the run was started: a retry without it would call the services themselves.
    mock_file: Option<Arc<str>>,
    /// Its definition is also registered with a server.
    is_server_run: bool,
}

impl<'a> EndedRun<'a> {
    /// Creates the report and resolves all values that were stored as blobs.
    pub(crate) fn new(
        store: &dyn Store,
        run: &'a Arc<str>,
        plan: &'a Plan,
        report: &FinalReport,
    ) -> Result<EndedRun<'a>, CliFailure> {
        let mut report = report.clone();
        report.output = resolve(store, &report.output)?;
        report.error = report.error.map(|error| with_run_hint(error, run));
        for (_, step) in &mut report.steps {
            step.output = resolve(store, &step.output)?;
            step.error = step.error.take().map(|error| with_run_hint(error, run));
        }
        let facts = loop_details(store, run, plan, &report)?;
        let mut events = StoredEvents::new(run.clone(), 0);
        let warnings = warnings::collect(plan, &report, || events.read(store))?;
        let row = store.run(run)?;
        let execution_id = row.as_ref().map(|row| row.execution_id);
        let is_server_run = row.as_ref().map(|row| trust::is_server_run(store, row)).transpose()?.unwrap_or_default();
        let options = row.filter(|_| !is_server_run).map(|row| RunOptions::from_row(&row)).transpose()?;
        let mock_file = options.and_then(|options| options.mock_file);
        Ok(EndedRun {
            execution_id,
            mock_file,
            is_server_run,
            ..EndedRun::from_parts(run, plan, report, facts, warnings)
        })
    }

    /// Creates the report of a run whose parts were read elsewhere.
    pub(crate) fn from_parts(
        run: &'a Arc<str>,
        plan: &'a Plan,
        report: FinalReport,
        facts: LoopDetailsByStep,
        warnings: Vec<String>,
    ) -> EndedRun<'a> {
        EndedRun {
            run,
            plan,
            report,
            facts,
            warnings,
            ephemeral: false,
            execution_id: None,
            mock_file: None,
            is_server_run: false,
        }
    }

    #[must_use]
    pub(crate) fn with_execution_id(mut self, execution_id: i64) -> EndedRun<'a> {
        self.execution_id = Some(execution_id);
        self
    }

    #[must_use]
    pub(crate) fn ephemeral(mut self, ephemeral: bool) -> EndedRun<'a> {
        self.ephemeral = ephemeral;
        self
    }

    pub(crate) fn exit(&self) -> CliExit {
        if self.report.status == Status::Succeeded { CliExit::Success } else { CliExit::Failed }
    }

    /// Prints the result on stdout. A reader that has gone does not change the exit code.
    pub(crate) fn print(&self, global: &GlobalArgs, took: Option<String>) -> Result<CliExit, CliFailure> {
        let shown = match global.json {
            true => {
                self.warnings.iter().for_each(|warning| out::note(&format!("warning: {warning}")));
                out::print_json(&self.to_value())
            }
            false => out::print(&self.summary(global, took)),
        };
        match shown {
            Err(failure) if failure.exit() == CliExit::Usage => Err(failure),
            _ => Ok(self.exit()),
        }
    }

    /// Returns the documented JSON object.
    pub(crate) fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("run", self.run.clone());
        if let Some(execution_id) = self.execution_id {
            map.insert("execution_id", execution_id.to_string());
        }
        map.insert("definition", self.plan.name.clone());
        map.insert("dialect", self.plan.dialect.clone());
        self.report.to_value().iter().for_each(|(key, value)| {
            map.insert(key.clone(), value.clone());
        });
        Value::map(map)
    }

    pub(crate) fn summary(&self, global: &GlobalArgs, took: Option<String>) -> String {
        let paint = Paint::stdout(global.no_color);
        let status = self.report.status.as_str();
        let took = took.map(|took| format!(" in {took}")).unwrap_or_default();
        let mut parts = vec![format!("{}{took}", paint.status(status, &text::sentence_case(status)))];
        parts.extend(steps_table(self.plan, &self.facts, &self.report.steps, paint));
        parts.extend(text::usage(&self.report.usage).map(|used| format!("used: {used}")));
        parts.extend(self.failed_iterations(global));
        let warnings: Vec<String> = self.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
        parts.extend((!warnings.is_empty()).then(|| warnings.join("\n")));
        let sections = registry().for_plan(self.plan).report(self.plan, &self.report.output);
        parts.extend(sections.iter().map(section));
        parts.extend(self.report.error.as_ref().map(|error| self.error(error, global)));
        parts.join("\n\n")
    }

    /// Warns about failed iterations of a run that succeeded: users should not have to search for them.
    fn failed_iterations(&self, global: &GlobalArgs) -> Option<String> {
        if self.report.status != Status::Succeeded {
            return None;
        }
        let loops = self.report.steps.iter().filter_map(|(name, step)| Some((name, step.looping.as_ref()?)));
        let failed = loops.filter(|(_, looping)| looping.failed > 0);
        let lines: Vec<String> = failed
            .map(|(name, looping)| {
                let iterations = text::pluralize(looping.iterations, "iteration");
                let command = stores::command(global, &format!("iterations {} {name}", self.run));
                let next = if self.ephemeral { String::new() } else { format!("\n  next: {command}") };
                format!("warning: {name}: {} of {iterations} failed{next}", looping.failed)
            })
            .collect();
        let retry = (!lines.is_empty() && !self.ephemeral).then(|| self.retry_line(global));
        let lines: Vec<String> = lines.into_iter().chain(retry).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn error(&self, error: &ErrorInfo, global: &GlobalArgs) -> String {
        let code = for_run_error(&error.code, &error.kind);
        let mut lines = vec![format!("error[{code}]: {} [{}]", error.message, error.code)];
        if !error.path.is_empty() {
            let line = line_of(self.plan, &error.path).map(|line| format!(", line {line} of the definition"));
            lines.push(format!("  where: {}{}", error.path, line.unwrap_or_default()));
        }
        if let Some((child, path)) = child_location(error) {
            let look = stores::command(global, &format!("status {child}"));
            let place = if path.is_empty() { String::new() } else { format!(" at {path}") };
            lines.push(format!("  in its child run {child}{place}: {look}"));
        }
        let hint = error.hint.as_ref().map(|hint| hints::complete_commands(global, hint));
        lines.extend(hint.map(|hint| format!("  hint: {hint}")));
        lines.push(format!("  details: windlass explain {code}"));
        lines.push(match self.ephemeral {
            true => "  next: run it without --ephemeral, then `windlass events last` shows what happened".to_owned(),
            false => format!("  next: {}", stores::command(global, &format!("events {}", self.run))),
        });
        if !self.ephemeral {
            lines.push(self.retry_line(global));
            lines.extend((!error.path.is_empty()).then(|| self.restart_line(global, &error.path)));
        }
        lines.join("\n")
    }

    fn retry_line(&self, global: &GlobalArgs) -> String {
        let mocks = hints::mock_option(global, self.mock_file.as_deref());
        let retry = hints::host_command(global, &format!("retry {}", self.run), self.is_server_run);
        format!("  retry what failed: {retry}{mocks}")
    }

    fn restart_line(&self, global: &GlobalArgs, path: &str) -> String {
        let from = stores::shell_quote(path);
        let restart = hints::host_command(global, &format!("restart {} --from {from}", self.run), self.is_server_run);
        format!("  restart from there: {restart}{}", hints::mock_option(global, self.mock_file.as_deref()))
    }
}

/// Returns the child run in which an error happened, and the path in it.
fn child_location(error: &ErrorInfo) -> Option<(&str, &str)> {
    let child = error.facts.get(CHILD_FACT)?;
    Some((child.get("run")?.as_str()?, child.get("path")?.as_str()?))
}

fn line_of(plan: &Plan, path: &str) -> Option<usize> {
    let before = plan.source.get(..source_span(plan, path)?.start as usize)?;
    Some(before.matches('\n').count() + 1)
}

/// Maximum number of characters of one output to show.
const MAX_OUTPUT_CHARS: usize = 4_000;

/// Maximum number of characters of a step's error: the reason often comes last.
const MAX_REASON_CHARS: usize = 240;

/// Maximum number of characters of an output that was not requested.
const MAX_GLANCE_CHARS: usize = 100;

fn section(section: &ReportSection) -> String {
    let indent = if section.heading.is_some() { "  " } else { "" };
    let line = |entry: &ReportEntry| {
        let value = match entry.detail {
            ReportDetail::OneLine => text::format_value(&entry.value, MAX_GLANCE_CHARS),
            ReportDetail::Full => indented(&entry.value),
            ReportDetail::FullText => format_prose(&entry.value),
        };
        format!("{indent}{}: {value}", entry.name)
    };
    let heading = section.heading.map(str::to_owned);
    heading.into_iter().chain(section.entries.iter().map(line)).collect::<Vec<_>>().join("\n")
}

/// Formats a text with its line breaks: answers of agents usually have several lines.
fn format_prose(value: &Value) -> String {
    match value {
        Value::Str(lines) if lines.trim_end().contains('\n') => {
            // A model's text must not move the cursor.
            truncate_output(lines.trim_end().lines().map(|line| format!("\n    {}", text::one_line(line))).collect())
        }
        other => indented(other),
    }
}

fn indented(value: &Value) -> String {
    truncate_output(match value {
        Value::List(_) | Value::Map(_) => to_json_pretty(value).replace('\n', "\n  "),
        plain => text::format_value(plain, usize::MAX),
    })
}

fn truncate_output(output: String) -> String {
    let cut = text::truncate(&output, MAX_OUTPUT_CHARS);
    if cut.len() < output.len() { format!("{cut}\n  (truncated; --json shows all of it)") } else { output }
}

/// Formats one line per step, loops as `15/100 condition`.
pub(crate) fn steps_table(
    plan: &Plan,
    facts: &LoopDetailsByStep,
    steps: &[(Arc<str>, StepReport)],
    paint: Paint,
) -> Option<String> {
    let width = steps.iter().map(|(name, _)| name.chars().count()).max()?;
    let line = |(name, step): &(Arc<str>, StepReport)| {
        let status = step.status.as_str();
        let padded = paint.status(status, &format!("{status:<9}"));
        let iterations =
            step.looping.as_ref().map(|looping| iterations_line(plan, facts, name, looping)).unwrap_or_default();
        let error = step
            .error
            .as_ref()
            .map(|error| text::truncate(&text::one_line(&error.message), MAX_REASON_CHARS))
            .unwrap_or_default();
        let used = text::usage(&step.usage).unwrap_or_default();
        // The answer of an agent is not complete, and its step accepts that. Otherwise the error says it.
        let stop = step.output.get("stop").and_then(Value::as_str).filter(|_| error.is_empty());
        let stop = stop.map(|stop| format!("stop: {}", text::one_line(stop))).unwrap_or_default();
        let more: Vec<String> = [iterations, used, stop, error].into_iter().filter(|part| !part.is_empty()).collect();
        format!("  {name:<width$}  {padded}  {}", more.join("  ")).trim_end().to_owned()
    };
    Some(steps.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn iterations_line(plan: &Plan, facts: &LoopDetailsByStep, name: &str, looping: &LoopSummary) -> String {
    let fact = facts.get(name);
    let max_iterations = match looping.reason {
        LoopEndReason::Items | LoopEndReason::Count => Some(looping.iterations),
        _ => fact.and_then(|fact| fact.max_iterations).or_else(|| defined_max_iterations(plan, name)),
    };
    let cut_off = fact.map_or(0, |fact| fact.cancelled).min(looping.iterations);
    if looping.failed == 0 && cut_off == 0 {
        return format!("{} {}", text::format_ratio(looping.iterations, max_iterations), looping.reason.as_str());
    }
    // `2 of 3 iterations, 1 failed, 1 cut off`, then the reason it stopped unless that is already clear.
    let progress = max_iterations.map_or_else(
        || text::pluralize(looping.iterations, "iteration"),
        |max_iterations| format!("{} of {}", looping.iterations, text::pluralize(max_iterations, "iteration")),
    );
    let reason_is_clear = matches!(looping.reason, LoopEndReason::Items | LoopEndReason::Failed);
    let why = if reason_is_clear { String::new() } else { format!(", {}", looping.reason.as_str()) };
    let failed = if looping.failed > 0 { format!(", {} failed", looping.failed) } else { String::new() };
    let broken = if cut_off > 0 { format!(", {cut_off} cut off") } else { String::new() };
    format!("{progress}{why}{failed}{broken}")
}
