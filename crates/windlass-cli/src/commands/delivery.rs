//! `windlass run FILE` for a definition whose trigger decides how many runs one input starts: none, one or many.

use std::sync::Arc;

use windlass_core::plan::{Plan, Trigger};
use windlass_runtime::{FinalReport, TriggerOptions};
use windlass_store::Store;
use windlass_syntax::did_you_mean;
use windlass_value::{Map, Value};

use super::run::{print_run_id, report_interruption, report_lost_run};
use crate::args::{self, GlobalArgs};
use crate::children;
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, codes};
use crate::host::{self, Interrupts, WatchOutcome};
use crate::out;
use crate::progress::ProgressDisplay;
use crate::project::Project;
use crate::report::EndedRun;
use crate::text;

/// Maximum number of characters of a condition to print.
const MAX_CONDITION_CHARS: usize = 200;

/// Returns the trigger that receives the input if it has conditions, splits the input or validates it.
pub(crate) fn deciding_trigger(plan: &Plan, named: Option<&str>) -> Result<Option<Arc<str>>, CliFailure> {
    let decides =
        |trigger: &&Trigger| !trigger.conditions.is_empty() || trigger.split.is_some() || trigger.validation.is_some();
    let names = || plan.triggers.iter().map(|trigger| &*trigger.name);
    if let Some(named) = named {
        let found = plan.triggers.iter().find(|trigger| trigger.name.eq_ignore_ascii_case(named));
        return match found {
            Some(trigger) => Ok(Some(trigger).filter(decides).map(|trigger| trigger.name.clone())),
            None => {
                let known = || match names().next() {
                    Some(_) => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
                    None => "the definition has none: leave --trigger out".to_owned(),
                };
                let hint = did_you_mean(named, names()).unwrap_or_else(known);
                Err(CliFailure::usage(format!("there is no trigger `{named}`")).code(codes::TRIGGER).hint(hint))
            }
        };
    }
    match plan.triggers.as_slice() {
        [only] => Ok(Some(only).filter(decides).map(|trigger| trigger.name.clone())),
        several if several.iter().any(|trigger| decides(&trigger)) => {
            let hint = format!("choose with --trigger: {}", names().collect::<Vec<_>>().join(", "));
            Err(CliFailure::usage("the definition has several triggers, and they accept different inputs")
                .code(codes::TRIGGER)
                .hint(hint))
        }
        _ => Ok(None),
    }
}

/// Starts every run, then watches one after another; all of them run meanwhile.
pub(crate) async fn deliver(
    global: &GlobalArgs,
    args: &args::RunArgs,
    settings: &CliSettings,
    store: Arc<dyn Store>,
    project: Project,
    trigger: &str,
    input: Value,
) -> Result<CliExit, CliFailure> {
    let mut interrupts = Interrupts::listen()?;
    let engine = host::engine(&store, settings, &args.testing)?;
    let (hash, program) = project.add_to(&engine, settings)?;
    let options = TriggerOptions {
        delivery: args.id.clone(),
        virtual_time: args.virtual_time,
        watch: !args.quiet,
        labels: args.labels.iter().cloned().collect(),
        ..TriggerOptions::default()
    };
    let triggered = engine.trigger(hash, trigger, input, options).await?;
    if triggered.runs.is_empty() {
        let why = match &triggered.unmet {
            Some(unmet) => {
                let condition = text::format_value(&unmet.source, MAX_CONDITION_CHARS);
                format!("the trigger `{trigger}` rejects this input: {condition} is not true")
            }
            None => format!("the trigger `{trigger}` found no items"),
        };
        return print_no_run(global, &why);
    }
    let mut ended: Vec<(Arc<str>, Arc<FinalReport>)> = Vec::new();
    for handle in triggered.runs {
        let run = handle.run.clone();
        print_run_id(global, &run)?;
        let mut progress = ProgressDisplay::new(args.quiet, &program);
        progress.set_run(global, &run);
        match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
            WatchOutcome::Ended(report) => ended.push((run, report)),
            WatchOutcome::Interrupted if args.ephemeral => return Ok(report_lost_run()),
            WatchOutcome::Interrupted => return report_interruption(global, &*store, &run),
        }
    }
    let mut good = true;
    let mut objects = Vec::new();
    for (run, report) in &ended {
        let ended = EndedRun::new(&*store, run, &program.plan, report)?.ephemeral(args.ephemeral);
        good &= ended.exit() == CliExit::Success;
        match global.json {
            true => objects.push(ended.to_value()),
            false => {
                out::print(&format!("\nrun {run}"))?;
                ended.print(global, None)?;
            }
        }
    }
    if global.json {
        out::print_json(&Value::object([("runs", Value::list(objects))]))?;
    }
    for (run, _) in &ended {
        children::wait_for_open_children(global, &engine, &*store, (run, &program), &mut interrupts).await?;
    }
    Ok(if good { CliExit::Success } else { CliExit::Failed })
}

/// Reports that the trigger started no run. This is not a failure: the definition decides it.
fn print_no_run(global: &GlobalArgs, why: &str) -> Result<CliExit, CliFailure> {
    match global.json {
        true => {
            let mut map = Map::new();
            map.insert("runs", Vec::<Value>::new());
            map.insert("reason", why);
            out::print_json(&Value::map(map))?;
        }
        false => out::print(&format!("no run: {why}"))?,
    }
    Ok(CliExit::Success)
}
