//! Reads the `options` of a workflow.

use windlass_dialect::DiagnosticSink;
use windlass_syntax::SyntaxNode;

use super::DocumentReader;
use crate::codes;
use crate::document::{FailureStrategy, FlowOptions, StepScheduler};

const STRATEGIES: [(&str, FailureStrategy); 3] = [
    ("cascade", FailureStrategy::Cascade),
    ("skip-dependents", FailureStrategy::SkipDependents),
    ("abort", FailureStrategy::Abort),
];

const SCHEDULERS: [(&str, StepScheduler); 3] = [
    ("dependency-first", StepScheduler::DependencyFirst),
    ("round-robin", StepScheduler::RoundRobin),
    ("least-busy", StepScheduler::LeastBusy),
];

impl DocumentReader<'_> {
    pub(crate) fn settings(&mut self, node: &SyntaxNode) -> FlowOptions {
        let Some(mut object) = self.object(node, "`options`") else { return FlowOptions::default() };
        let concurrency = object.take("maxConcurrency");
        let options = FlowOptions {
            max_concurrency: concurrency.and_then(|node| self.count(node, "maxConcurrency", 0, codes::NEGATIVE_VALUE)),
            on_step_failure: object
                .take("onStepFailure")
                .and_then(|node| self.one_of(node, "onStepFailure", &STRATEGIES, codes::VALIDATION)),
            timeout: object.take("timeout").and_then(|node| self.duration(node, "timeout")),
            step_timeout: object.take("stepTimeout").and_then(|node| self.duration(node, "stepTimeout")),
            isolation: object.take("isolation").and_then(|node| self.plain(node, "isolation")),
            scheduler: object
                .take("scheduler")
                .and_then(|node| self.one_of(node, "scheduler", &SCHEDULERS, codes::VALIDATION)),
            max_retries: object.take("maxRetries").and_then(|node| self.retries(node, "maxRetries")),
        };
        object.finish(codes::UNKNOWN_KEY, "`options`", &mut self.found);
        if let Some(isolation) =
            options.isolation.as_ref().filter(|isolation| !matches!(isolation.as_str(), "" | "none"))
        {
            let message = format!("the isolation `{}` has no effect: all steps work in one folder", isolation.value);
            self.warning(
                codes::NO_EFFECT,
                isolation.span,
                message,
                "let steps that write the same files depend on each other",
            );
        }
        options
    }
}
