//! How a run ended: the contract's object, and the same for people.

use std::sync::Arc;

use windlass_core::plan::{Amount, NodeKind, Plan};
use windlass_core::{ErrorInfo, LoopSummary, Reason, Status};
use windlass_runtime::{FinalReport, RuntimeError, StepReport, resolve};
use windlass_store::StoreRead;
use windlass_value::{Map, Value, to_json_pretty};

use crate::args::Global;
use crate::failure::{Exit, Failure};
use crate::out::{self, Paint};
use crate::stores;
use crate::text;

/// Which run an ended run is.
pub struct Ended<'a> {
    pub run: &'a Arc<str>,
    pub plan: &'a Plan,
    pub report: FinalReport,
}

impl<'a> Ended<'a> {
    /// Puts back everything that was stored elsewhere.
    pub fn new(
        store: &dyn StoreRead,
        run: &'a Arc<str>,
        plan: &'a Plan,
        report: &FinalReport,
    ) -> Result<Ended<'a>, RuntimeError> {
        let mut report = report.clone();
        report.output = resolve(store, &report.output)?;
        for (_, step) in &mut report.steps {
            step.output = resolve(store, &step.output)?;
        }
        Ok(Ended { run, plan, report })
    }

    pub fn exit(&self) -> Exit {
        if self.report.status == Status::Succeeded { Exit::Good } else { Exit::Otherwise }
    }

    /// Shows the result on stdout. A reader that has gone does not change how the run ended.
    pub fn print(&self, global: &Global, took: Option<String>) -> Result<Exit, Failure> {
        let shown = match global.json {
            true => out::print_json(&self.to_value()),
            false => out::print(&self.summary(global, took)),
        };
        match shown {
            Err(failure) if failure.exit() == Exit::Usage => Err(failure),
            _ => Ok(self.exit()),
        }
    }

    /// The contract's object.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("run", self.run.clone());
        map.insert("definition", self.plan.name.clone());
        map.insert("dialect", self.plan.dialect.clone());
        self.report.to_value().iter().for_each(|(key, value)| {
            map.insert(key.clone(), value.clone());
        });
        Value::map(map)
    }

    pub fn summary(&self, global: &Global, took: Option<String>) -> String {
        let paint = Paint::stdout(global.no_color);
        let status = self.report.status.as_str();
        let took = took.map(|took| format!(" in {took}")).unwrap_or_default();
        let mut parts = vec![format!("{}{took}", paint.status(status, &text::sentence_case(status)))];
        parts.extend(steps_table(self.plan, &self.report.steps, paint));
        parts.extend(self.outputs());
        parts.extend(self.report.error.as_ref().map(|error| self.error(error, global)));
        parts.join("\n\n")
    }

    fn outputs(&self) -> Option<String> {
        let line = |(name, value): (&Arc<str>, &Value)| format!("  {name}: {}", indented(value));
        match &self.report.output {
            Value::Null => None,
            Value::Map(map) if map.is_empty() => None,
            Value::Map(map) => Some(format!("outputs\n{}", map.iter().map(line).collect::<Vec<_>>().join("\n"))),
            other => Some(format!("output: {}", indented(other))),
        }
    }

    fn error(&self, error: &ErrorInfo, global: &Global) -> String {
        let mut lines = vec![format!("error: {} [{}]", error.message, error.code)];
        if !error.path.is_empty() {
            lines.push(format!("  where: {}", error.path));
        }
        lines.extend(error.hint.as_ref().map(|hint| format!("  hint: {hint}")));
        lines.push(format!("  next: {}", stores::command(global, &format!("events {}", self.run))));
        lines.join("\n")
    }
}

/// Letters of one output that people get to see.
const SHOWN_MAX: usize = 4_000;

fn indented(value: &Value) -> String {
    let shown = match value {
        Value::List(_) | Value::Map(_) => to_json_pretty(value).replace('\n', "\n  "),
        plain => text::short(plain, usize::MAX),
    };
    let cut = text::cut(&shown, SHOWN_MAX);
    if cut.len() < shown.len() { format!("{cut}\n  (cut here; --json shows all of it)") } else { shown }
}

/// One line a step, loops as `15/100 condition`.
pub fn steps_table(plan: &Plan, steps: &[(Arc<str>, StepReport)], paint: Paint) -> Option<String> {
    let width = steps.iter().map(|(name, _)| name.chars().count()).max()?;
    let line = |(name, step): &(Arc<str>, StepReport)| {
        let status = step.status.as_str();
        let padded = paint.status(status, &format!("{status:<9}"));
        let turns = step.looping.as_ref().map(|looping| turns_line(plan, name, looping)).unwrap_or_default();
        let error =
            step.error.as_ref().map(|error| text::cut(&text::one_line(&error.message), 100)).unwrap_or_default();
        let more: Vec<String> = [turns, error].into_iter().filter(|part| !part.is_empty()).collect();
        format!("  {name:<width$}  {padded}  {}", more.join("  ")).trim_end().to_owned()
    };
    Some(steps.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn turns_line(plan: &Plan, name: &str, looping: &LoopSummary) -> String {
    let most = match looping.reason {
        Reason::Items => Some(looping.turns),
        _ => turns_most(plan, name),
    };
    let failed = if looping.failed > 0 { format!(", {} failed", looping.failed) } else { String::new() };
    format!("{} {}{failed}", text::of(looping.turns, most), looping.reason.as_str())
}

/// How many turns a loop may have, if the definition says so in a number.
pub fn turns_most(plan: &Plan, name: &str) -> Option<u64> {
    plan.nodes.iter().filter(|node| &*node.name == name).find_map(|node| match &node.kind {
        NodeKind::Loop(looping) => match looping.limits.turns {
            Some(Amount::Fixed(most)) => Some(most),
            Some(Amount::Computed(_)) | None => None,
        },
        _ => None,
    })
}
