//! Durable loops of playbooks: the cost of an iteration by task kind, and the small influence of the collection's
//! size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::plan::Plan;
use windlass_core::{ProcessLimits, Status};
use windlass_expr::jinja::JinjaLanguage;
use windlass_runtime::{EngineOptions, RunStartOptions};
use windlass_store_sqlite::SyncMode;
use windlass_syntax::{Colour, SourceText};
use windlass_testing::test_service::TestService;
use windlass_tools::{Credentials, HttpOptions, NamedCredentials, Outbound, playbook_tools};
use windlass_value::Value;

use crate::definitions::limits;
use crate::disk::{self, BenchFolder};
use crate::engine::{engine, options, runtime, sqlite};

const ROUNDS: usize = 3;

fn compile(text: &str) -> Plan {
    let source = SourceText::new("bench.yaml", text);
    let tools = ["http_call", "python"].map(str::to_owned).to_vec();
    let name = Some("bench".to_owned());
    let options =
        windlass_noetl::NoetlOptions { limits: limits(), name, tools, ..windlass_noetl::NoetlOptions::default() };
    match windlass_noetl::compile(&source, &options) {
        Ok(compiled) => compiled.plan,
        Err(diagnostics) => panic!("{}", diagnostics.render(&source, Colour::Never)),
    }
}

fn playbook_options() -> EngineOptions {
    let credentials: Arc<dyn Credentials> = Arc::new(NamedCredentials::new(|_| None));
    let http = HttpOptions { outbound: Outbound::open(), ..HttpOptions::default() };
    let tools = playbook_tools(http, &ProcessLimits::default(), &credentials, |name| std::env::var(name).ok());
    let mut options = options();
    options.languages.push(Arc::new(JinjaLanguage));
    EngineOptions { tools, commit_here: true, ..options }
}

/// Runs a playbook to its end, on a disk with syncs.
fn time_run(text: &str, input: &Value) -> Duration {
    let folder = BenchFolder::new("playbook");
    runtime().block_on(async {
        let engine = engine(sqlite(folder.path(), SyncMode::Full), playbook_options());
        let (plan, _) = engine.add_plan(compile(text)).expect("the plan loads");
        let begun = Instant::now();
        let options = RunStartOptions { watch: false, ..RunStartOptions::default() };
        let mut handle = engine.start(plan, input.clone(), options).await.expect("the run starts");
        let report = handle.wait().await.expect("the run ends");
        assert_eq!(report.status, Status::Succeeded, "{:?}", report.error);
        begun.elapsed()
    })
}

fn loop_playbook(collection: &str, spec: &str, tasks: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: bench}}\nworkload: {{items: []}}\nworkflow:\n  \
         - step: work\n    loop: {{in: \"{collection}\", iterator: item, spec: {spec}}}\n    tool:\n{tasks}"
    )
}

fn best_rate(iterations: u64, text: &str) -> f64 {
    let rate = |_| iterations as f64 / time_run(text, &Value::Null).as_secs_f64();
    (0..ROUNDS).map(rate).fold(0.0, f64::max)
}

const NOOPS: &str = "      - first: {kind: noop, result: \"{{ iter.item }}\"}\n      - second: {kind: noop, result: \"{{ _prev + 1 }}\"}\n";

pub(crate) fn noop_iterations() -> Vec<String> {
    const ITEMS: u64 = 100_000;
    let collection = format!("{{{{ range({ITEMS}) }}}}");
    let modes = [("one after another", "{mode: sequential}"), ("64 in flight", "{mode: parallel, max_in_flight: 64}")];
    let line = |(how, spec): (&str, &str)| {
        let rate = best_rate(ITEMS, &loop_playbook(&collection, spec, NOOPS));
        format!("{how}: {rate:.0} iterations/s = {:.2} x the target (two tasks each)", rate / 50_000.0)
    };
    modes.map(line).to_vec()
}

/// Returns the iterations per second of a sequential loop over this many items.
pub(crate) fn noop_rate(items: u64) -> f64 {
    let text = loop_playbook(&format!("{{{{ range({items}) }}}}"), "{mode: sequential}", NOOPS);
    items as f64 / time_run(&text, &Value::Null).as_secs_f64()
}

pub(crate) fn python_iterations() -> Vec<String> {
    const ITEMS: u64 = 10_000;
    let task = "      - work: {kind: python, args: {n: \"{{ iter.item }}\"}, code: \"result = n * 2\"}\n";
    let spec = "{mode: parallel, max_in_flight: 16}";
    let rate = best_rate(ITEMS, &loop_playbook(&format!("{{{{ range({ITEMS}) }}}}"), spec, task));
    vec![format!("{rate:.0} iterations/s = {:.2} x the target", rate / 2_000.0)]
}

pub(crate) fn http_iterations() -> Vec<String> {
    const ITEMS: u64 = 20_000;
    let service = TestService::start().expect("the service starts");
    let task = format!("      - fetch: {{kind: http, url: \"{}\"}}\n", service.url("/json/x"));
    let spec = "{mode: parallel, max_in_flight: 64}";
    let rate = best_rate(ITEMS, &loop_playbook(&format!("{{{{ range({ITEMS}) }}}}"), spec, &task));
    vec![format!("{rate:.0} requests/s = {:.2} x the target (service and engine share the cores)", rate / 5_000.0)]
}

/// Measures the same loop over few and over many items, up to a hundred million bytes.
pub(crate) fn flat_iterations() -> Vec<String> {
    let text = loop_playbook("{{ items }}", "{mode: parallel, max_in_flight: 64}", NOOPS_OF_OBJECTS);
    let mut lines = Vec::new();
    let mut first = None;
    for (items, runs) in [(100, 200), (10_000, 10), (1_000_000, 1)] {
        let input = Value::object([("items", collection(items))]);
        let whole = (0..ROUNDS).map(|_| (0..runs).map(|_| time_run(&text, &input)).sum::<Duration>()).min();
        // The cost of a run without any iteration is not the loop's.
        let empty = Value::object([("items", Value::list(Vec::new()))]);
        let start: Duration = (0..20).map(|_| time_run(&text, &empty)).sum::<Duration>() / 20;
        let spent = whole.unwrap_or_default().saturating_sub(start * runs);
        let each = spent.as_secs_f64() / (items * u64::from(runs)) as f64;
        let first = *first.get_or_insert(each);
        lines.push(format!("{items} items: {:.2} us each, {:.2} x the first", each * 1e6, each / first));
    }
    lines.push(format!("memory peak {} MB", disk::resident_peak() >> 20));
    lines
}

const NOOPS_OF_OBJECTS: &str = "      - first: {kind: noop, result: \"{{ iter.item.n }}\"}\n      - second: {kind: noop, result: \"{{ _prev + 1 }}\"}\n";

fn collection(items: u64) -> Value {
    let item = |n: u64| Value::object([("n", Value::from(n)), ("text", Value::from("x".repeat(80)))]);
    Value::list((0..items).map(item).collect())
}
