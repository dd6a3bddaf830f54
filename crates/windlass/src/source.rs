//! A workflow as text: the source of a plan that comes from code instead of a file.

use windlass_core::plan::SourceSpan;

use crate::builder::{StepDef, WorkflowBuilder};
use crate::signature::JoinKind;

/// Renders the text and returns it with the span of each step.
pub(crate) fn render_source(workflow: &WorkflowBuilder) -> (String, Vec<SourceSpan>) {
    let mut text = format!("workflow {}", workflow.name);
    if let Some(timeout) = workflow.timeout {
        text.push_str(&format!("  timeout {timeout:?}"));
    }
    text.push('\n');
    let mut spans = Vec::new();
    for step in &workflow.steps {
        let start = text.len() as u32;
        text.push_str(&render_step(step));
        spans.push(SourceSpan { start, end: text.len() as u32 });
        text.push('\n');
    }
    (text, spans)
}

/// `charge(order.placed) -> order.charged | order.failed  workers 4`
fn render_step(step: &StepDef) -> String {
    let names = |separator: &str| step.shape.accepts.iter().map(|event| event.name).collect::<Vec<_>>().join(separator);
    let takes = match (step.shape.join, &step.handler) {
        (JoinKind::One, _) => names(" | "),
        (JoinKind::All, _) => format!("all {}", names(" | ")),
        (JoinKind::Collect, _) => names(" + "),
        (JoinKind::Failure, Some(handler)) => match &handler.steps {
            Some(of) => format!("failure of {}", of.join(", ")),
            None => "failure".to_owned(),
        },
        (JoinKind::Failure, None) => "failure".to_owned(),
    };
    let mut gives: Vec<&str> = step.shape.produces.iter().map(|event| event.name).collect();
    gives.dedup();
    let gives = match (gives.is_empty(), step.shape.fans_out) {
        (true, _) => "nothing".to_owned(),
        (false, true) => format!("many {}", gives.join(" | ")),
        (false, false) => gives.join(" | "),
    };
    let mut facts = vec![format!("workers {}", step.workers)];
    if !step.sends.is_empty() {
        facts.push(format!("sends {}", step.sends.iter().map(|event| event.name).collect::<Vec<_>>().join(", ")));
    }
    if !step.waits.is_empty() {
        facts.push(format!("waits {}", step.waits.iter().map(|event| event.name).collect::<Vec<_>>().join(", ")));
    }
    facts.extend(step.key.as_ref().map(|key| format!("key {key}")));
    facts.extend(step.surplus.map(|surplus| format!("surplus {}", format!("{surplus:?}").to_lowercase())));
    facts.extend(step.timeout.map(|time| format!("timeout {time:?}")));
    facts.extend(step.retry.as_ref().and_then(crate::RetryPolicy::summary));
    facts.extend(step.handler.as_ref().map(|handler| format!("times {}", handler.times)));
    format!("{}({takes}) -> {gives}  {}", step.name, facts.join("  "))
}
