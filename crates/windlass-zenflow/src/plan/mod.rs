//! Compiles a checked document to the plan.
//!
//! - `planner`: nodes and expressions · `flow`: steps, their order, includes and calls · `agent`: the pipeline of an
//!   agent
//! - `tools`: tool calls · `loops`: forEach, repeat and judges · `coordinator`: mail and the coordinator · `costs`:
//!   budgets and prices

mod agent;
mod coordinator;
mod costs;
mod flow;
mod loops;
mod planner;
mod tools;

use windlass_core::plan::Plan;
use windlass_syntax::{Diagnostics, Span};

use crate::ZenflowOptions;
use crate::document::WorkflowDocument;
use planner::Planner;

/// The called definitions that are not registered, each once, and their locations.
pub(crate) type UnregisteredCalls = Vec<(String, Span)>;

/// Compiles a document. Problems that only the compiler can find go to `diagnostics`; they are of the document's own
/// file.
pub(crate) fn compile(
    document: &WorkflowDocument,
    options: &ZenflowOptions,
    diagnostics: &mut Diagnostics,
) -> (Plan, UnregisteredCalls) {
    let mut planner = Planner::new(document, options, diagnostics);
    planner.run(document);
    planner.plan.triggers = document.extensions.triggers.clone();
    for (name, value) in &document.extensions.labels {
        let computed = planner.call_input(value);
        planner.plan.labels.push((name.clone(), computed));
    }
    (planner.plan, planner.calls)
}
