//! `windlass run FILE` for a definition whose trigger decides: none, one, or many runs for one input.

use std::sync::Arc;

use windlass_core::plan::{Plan, Trigger};
use windlass_runtime::{FinalReport, TriggerOptions};
use windlass_store::Store;
use windlass_syntax::did_you_mean;
use windlass_value::{Map, Value};

use super::run::{interrupted, tell_id};
use crate::args::{self, Global};
use crate::children;
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::host::{self, Interrupts, Watched};
use crate::out;
use crate::progress::Progress;
use crate::project::Project;
use crate::report::Ended;
use crate::text;

/// Letters of a condition that people get to see.
const MAX_CONDITION_CHARS: usize = 200;

/// The trigger that the input goes to, if it has something to say about it.
pub(crate) fn deciding_trigger(plan: &Plan, named: Option<&str>) -> Result<Option<Arc<str>>, Failure> {
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
                Err(Failure::usage(format!("there is no trigger `{named}`")).hint(hint))
            }
        };
    }
    match plan.triggers.as_slice() {
        [only] => Ok(Some(only).filter(decides).map(|trigger| trigger.name.clone())),
        several if several.iter().any(|trigger| decides(&trigger)) => {
            let hint = format!("choose with --trigger: {}", names().collect::<Vec<_>>().join(", "));
            Err(Failure::usage("the definition has several triggers, and they differ in what they let in").hint(hint))
        }
        _ => Ok(None),
    }
}

/// Starts every run, then watches one after another; all of them go on meanwhile.
pub(crate) async fn deliver(
    global: &Global,
    args: &args::Run,
    settings: &Settings,
    store: Arc<dyn Store>,
    project: Project,
    trigger: &str,
    input: Value,
) -> Result<Exit, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let engine = host::engine(&store, settings, &args.testing)?;
    let (hash, program) = project.add_to(&engine, settings)?;
    let options = TriggerOptions {
        delivery: args.id.clone(),
        virtual_time: args.virtual_time,
        watch: !args.quiet,
        ..TriggerOptions::default()
    };
    let triggered = engine.trigger(hash, trigger, input, options).await?;
    if triggered.runs.is_empty() {
        let why = match &triggered.unmet {
            Some(unmet) => {
                let condition = text::short(&unmet.source, MAX_CONDITION_CHARS);
                format!("the trigger `{trigger}` does not let this input in: {condition} is not true")
            }
            None => format!("the trigger `{trigger}` found no items"),
        };
        return nothing(global, &why);
    }
    let mut ended: Vec<(Arc<str>, Arc<FinalReport>)> = Vec::new();
    for handle in triggered.runs {
        let run = handle.run.clone();
        tell_id(global, &run)?;
        let mut progress = Progress::new(args.quiet, &program);
        match host::watch(&engine, handle, &mut interrupts, &mut progress).await? {
            Watched::Ended(report) => ended.push((run, report)),
            Watched::Interrupted => return Ok(interrupted(global, &run, args.ephemeral, &args.permissions.words())),
        }
    }
    let mut good = true;
    let mut objects = Vec::new();
    for (run, report) in &ended {
        let ended = Ended::new(&*store, run, &program.plan, report)?.ephemeral(args.ephemeral);
        good &= ended.exit() == Exit::Good;
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
    Ok(if good { Exit::Good } else { Exit::Otherwise })
}

/// No run is no failure: the definition says so itself.
fn nothing(global: &Global, why: &str) -> Result<Exit, Failure> {
    match global.json {
        true => {
            let mut map = Map::new();
            map.insert("runs", Vec::<Value>::new());
            map.insert("why", why);
            out::print_json(&Value::map(map))?;
        }
        false => out::print(&format!("no run: {why}"))?,
    }
    Ok(Exit::Good)
}
