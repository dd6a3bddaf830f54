//! Summarizes a document in a few lines.

use std::fmt::Write as _;

use windlass_value::{Duration, to_json};
use windlass_zenflow::document::{
    CelSource, ForEachItems, LoopMode, Spanned, WorkflowDocument, ZenflowBudget, ZenflowStep,
};

pub(crate) fn summary(document: &WorkflowDocument) -> String {
    let mut out = String::new();
    write(document, 0, &mut out);
    out
}

fn write(document: &WorkflowDocument, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let _ = writeln!(out, "{indent}workflow {:?}", *document.name);
    if let Some(text) = &document.description {
        let _ = writeln!(out, "{indent}  about {:?}", text.value);
    }
    for agent in &document.agents {
        let mut line = format!("agent {}", *agent.name);
        field(&mut line, "prompt", agent.prompt.as_ref().map(|prompt| format!("{:?}", prompt.value)));
        field(&mut line, "model", agent.model.as_ref().map(|model| model.value.clone()));
        field(&mut line, "tools", agent.tools.as_deref().map(join_texts));
        field(
            &mut line,
            "but",
            Some(&agent.disallowed_tools).filter(|tools| !tools.is_empty()).map(|tools| join_texts(tools)),
        );
        field(&mut line, "turns", number(agent.max_turns.as_ref()));
        field(&mut line, "results", number(agent.max_result_attempts.as_ref()));
        field(&mut line, "repeats", number(agent.max_repeated_calls.as_ref()));
        field(&mut line, "temperature", agent.temperature.map(|number| number.value.to_string()));
        field(&mut line, "topP", agent.top_p.map(|number| number.value.to_string()));
        field(&mut line, "result", agent.result_schema.as_ref().map(|schema| to_json(&schema.value)));
        let _ = writeln!(out, "{indent}  {line}");
    }
    for trigger in &document.extensions.triggers {
        let _ = writeln!(out, "{indent}  trigger {} [{}] {}", trigger.name, trigger.kind, to_json(&trigger.settings));
    }
    document.steps.iter().for_each(|one| step(one, depth + 1, out));
    let options = &document.options;
    let mut line = String::new();
    field(&mut line, "max_concurrency", number(options.max_concurrency.as_ref()));
    field(&mut line, "on failure", options.on_step_failure.map(|strategy| format!("{:?}", strategy.value)));
    field(&mut line, "timeout", time(options.timeout.as_ref()));
    field(&mut line, "step timeout", time(options.step_timeout.as_ref()));
    field(&mut line, "isolation", options.isolation.as_ref().map(|isolation| isolation.value.clone()));
    field(&mut line, "scheduler", options.scheduler.map(|scheduler| format!("{:?}", scheduler.value)));
    field(&mut line, "calls again", number(options.max_retries.as_ref()));
    let own = &document.extensions;
    field(&mut line, "budget", own.budget.as_ref().map(budget));
    let inputs =
        own.inputs.iter().map(|(name, value)| format!("{}={}", name.value, to_json(value))).collect::<Vec<_>>();
    field(&mut line, "inputs", Some(inputs.join(", ")).filter(|inputs| !inputs.is_empty()));
    field(&mut line, "coordinator", own.coordinator.mode.map(|mode| format!("{:?}", mode.value)));
    field(&mut line, "its model", own.coordinator.model.as_ref().map(|model| model.value.clone()));
    field(&mut line, "its prompt", own.coordinator.prompt.as_ref().map(|prompt| format!("{:?}", prompt.value)));
    field(&mut line, "lenient", own.lenient_files.then(|| "files".to_owned()));
    if !line.is_empty() {
        let _ = writeln!(out, "{indent}  options{line}");
    }
}

fn step(step: &ZenflowStep, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let mut line = format!("step {}", *step.id);
    field(&mut line, "after", Some(&step.depends_on).filter(|ids| !ids.is_empty()).map(|ids| join_texts(ids)));
    field(&mut line, "if", step.condition.as_ref().map(cel));
    field(&mut line, "agent", step.agent.as_ref().map(|agent| agent.value.clone()));
    field(&mut line, "does", step.instructions.as_ref().map(|text| format!("{:?}", text.value)));
    field(
        &mut line,
        "files",
        Some(&step.context_files).filter(|paths| !paths.is_empty()).map(|paths| join_texts(paths)),
    );
    field(&mut line, "model", step.model.as_ref().map(|model| model.value.clone()));
    field(&mut line, "timeout", time(step.timeout.as_ref()));
    field(&mut line, "again", number(step.retries.as_ref()));
    field(&mut line, "calls again", number(step.max_retries.as_ref()));
    field(&mut line, "budget", step.budget.as_ref().map(budget));
    field(&mut line, "accepts", Some(&step.accept).filter(|stops| !stops.is_empty()).map(|stops| format!("{stops:?}")));
    let _ = writeln!(out, "{indent}{line}");
    if let Some(repeat) = &step.repeat {
        let mut line = String::from("loop");
        match &repeat.mode {
            LoopMode::ForEach { items, max_concurrency } => {
                let list = match items {
                    ForEachItems::Literal(list) => to_json(&list.value),
                    ForEachItems::Cel(text) => cel(text),
                };
                field(&mut line, "over", Some(list));
                field(&mut line, "max_concurrency", number(max_concurrency.as_ref()));
            }
            LoopMode::Repeat { max_iterations, until, until_agent, delay } => {
                field(&mut line, "most", number(Some(max_iterations)));
                field(&mut line, "until", until.as_ref().map(cel));
                field(&mut line, "judge", until_agent.as_ref().map(|judge| judge.value.clone()));
                field(&mut line, "delay", time(delay.as_ref()));
            }
        }
        field(&mut line, "gives", repeat.output_mode.map(|mode| format!("{:?}", mode.value)));
        field(&mut line, "budget", repeat.budget.as_ref().map(budget));
        field(&mut line, "unjudged", number(repeat.max_unjudged.as_ref()));
        let _ = writeln!(out, "{indent}  {line}");
        repeat.steps.iter().for_each(|inner| self::step(inner, depth + 2, out));
    }
    if let Some(include) = &step.include {
        let _ = writeln!(out, "{indent}  include {}", *include.target);
        if let Some(document) = &include.document {
            write(document, depth + 2, out);
        }
    }
}

fn field(line: &mut String, name: &str, value: Option<String>) {
    if let Some(value) = value {
        let _ = write!(line, " · {name} {value}");
    }
}

fn join_texts(words: &[Spanned<String>]) -> String {
    words.iter().map(|word| word.value.as_str()).collect::<Vec<_>>().join(", ")
}

fn number(number: Option<&Spanned<u64>>) -> Option<String> {
    number.map(|number| number.value.to_string())
}

fn time(time: Option<&Spanned<Duration>>) -> Option<String> {
    time.map(|time| format!("{}s", time.value.as_secs_f64()))
}

fn cel(cel: &CelSource) -> String {
    to_json(&cel.source())
}

fn budget(budget: &ZenflowBudget) -> String {
    let mut parts = Vec::new();
    parts.extend(budget.tokens.map(|tokens| format!("{} tokens", tokens.value)));
    parts.extend(budget.money.map(|money| format!("{} millionths", money.value)));
    parts.extend(budget.calls.map(|calls| format!("{} calls", calls.value)));
    parts.extend(time(budget.time.as_ref()));
    parts.join(", ")
}
