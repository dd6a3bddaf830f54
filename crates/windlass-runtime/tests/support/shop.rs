//! A tool that counts its calls and fails for chosen inputs, and runs that use it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use windlass_core::plan::Plan;
use windlass_core::{ErrorInfo, TaskOutcome};
use windlass_runtime::{EngineOptions, FinalReport, RunHandle, RunStartOptions, RuntimeEngine, RuntimeError};
use windlass_store::MemoryStore;
use windlass_value::{Value, to_json};

use super::audit::render_report;
use super::{World, engine_with, in_time, locked, options};

/// Run, path, input and key of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub run: String,
    pub path: String,
    pub input: String,
    pub key: String,
}

#[derive(Clone, Default)]
pub(crate) struct Shop {
    calls: Arc<Mutex<Vec<Call>>>,
    broken: Arc<Mutex<BTreeSet<String>>>,
}

impl Shop {
    pub(crate) fn breaks(&self, inputs: &[&str]) {
        *locked(&self.broken) = inputs.iter().map(|input| (*input).to_owned()).collect();
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        locked(&self.calls).clone()
    }

    /// Returns paths and inputs of a run's calls, in order.
    pub(crate) fn calls_of(&self, run: &str) -> Vec<(String, String)> {
        self.calls().into_iter().filter(|call| call.run == run).map(|call| (call.path, call.input)).collect()
    }

    pub(crate) fn paths_of(&self, run: &str) -> Vec<String> {
        self.calls_of(run).into_iter().map(|(path, _)| path).collect()
    }

    pub(crate) fn options(&self) -> EngineOptions {
        let shop = self.clone();
        let base = options(&World::new());
        let tools = base.tools.clone().with_fn("count", move |call| {
            let input = to_json(&call.input);
            let (run, path, key) = (call.run.to_string(), call.path.to_string(), call.key.to_string());
            locked(&shop.calls).push(Call { run, path, input: input.clone(), key });
            let fails = locked(&shop.broken).contains(&input);
            async move {
                tokio::task::yield_now().await;
                match fails {
                    true => TaskOutcome::failure(ErrorInfo::new("500", "http", "broken").replied()),
                    false => TaskOutcome::success(Value::object([("saw", call.input)])),
                }
            }
        });
        EngineOptions { tools, ..base }
    }

    pub(crate) fn engine(&self, store: &Arc<MemoryStore>) -> RuntimeEngine {
        engine_with(store, self.options())
    }

    /// Runs a plan to its end, in virtual time, as the run `old`.
    pub(crate) async fn old_run(&self, engine: &RuntimeEngine, plans: &[Plan]) -> Arc<FinalReport> {
        let mut hash = None;
        for plan in plans.iter().rev() {
            hash = Some(engine.add_plan(plan.clone()).expect("a plan").0);
        }
        let start = RunStartOptions { id: Some("old".to_owned()), virtual_time: true, ..RunStartOptions::default() };
        let started = engine.start(hash.expect("a plan"), Value::Null, start).await;
        ended(started).await
    }
}

pub(crate) async fn ended(started: Result<RunHandle, RuntimeError>) -> Arc<FinalReport> {
    in_time(started.expect("started").wait()).await.expect("an end")
}

/// Returns the visible end of a run, without anything that depends on time.
pub(crate) fn visible_end(store: &MemoryStore, report: &FinalReport) -> String {
    render_report(store, report)
}
