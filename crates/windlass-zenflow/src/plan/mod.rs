//! From a checked document to the plan.
//!
//! - `planner` nodes and expressions · `flow` steps, their order and what is included · `agent` the pipeline of an agent
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
use windlass_syntax::Diagnostics;

use crate::Options;
use crate::document::Document;
use planner::Planner;

/// Problems that only the compiler can find go to `diagnostics`; they are of the document's own file.
pub(crate) fn compile(document: &Document, options: &Options, diagnostics: &mut Diagnostics) -> Plan {
    let mut planner = Planner::new(document, options, diagnostics);
    planner.run(document);
    planner.plan.triggers = document.extensions.triggers.clone();
    planner.plan
}
