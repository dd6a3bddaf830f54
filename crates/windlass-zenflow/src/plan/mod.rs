//! From a checked document to the plan.
//!
//! - `planner` nodes and expressions · `flow` steps, their order, what is included or called · `agent` the pipeline of an agent
//! - `tools` calls of tools · `loops` forEach, repeat and judges · `coordinator` mail and whoever reads it · `costs` budgets
//!   and prices

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

/// Definitions that are called and not registered, each once, and where.
pub(crate) type UnregisteredCalls = Vec<(String, Span)>;

/// Problems that only the compiler can find go to `diagnostics`; they are of the document's own file.
pub(crate) fn compile(
    document: &WorkflowDocument,
    options: &ZenflowOptions,
    diagnostics: &mut Diagnostics,
) -> (Plan, UnregisteredCalls) {
    let mut planner = Planner::new(document, options, diagnostics);
    planner.run(document);
    planner.plan.triggers = document.extensions.triggers.clone();
    (planner.plan, planner.calls)
}
