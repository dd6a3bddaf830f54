//! Crashes runs of agents at every commit, before and after its sync: the result equals that of an undisturbed run,
//! and no completed call is repeated.

use crate::world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::{RunStartOptions, RuntimeError};
use windlass_store::{MemoryStore, StoreRead};
use windlass_value::{Value, to_json};
use world::{Call, Case, RUN, Script, engine};

/// Cases with state that could get lost: tool calls, results, loops, judges, mail, includes, retries, budgets; and
/// the number of calls each of them has in flight. At most that many may be repeated.
const CASES: &[(&str, usize)] = &[
    ("tools", 3),
    ("submit", 5),
    ("no_result", 4),
    ("each_steps", 4),
    ("each_fails", 1),
    ("repeat_until", 1),
    ("dev_cycle", 1),
    ("judge_open", 1),
    ("include", 2),
    ("messages", 2),
    ("cancelled_by_mail", 2),
    ("loop_retries", 2),
    ("timeouts", 8),
    ("budget_loop", 2),
    ("files", 1),
    ("strategies_abort", 1),
];

#[derive(Clone, Copy, Debug)]
enum Side {
    BeforeSync,
    AfterSync,
}

/// Runs one process lifetime: starts the run or resumes it.
async fn run_process(case: &Case, store: &Arc<MemoryStore>, script: &Script) -> Result<Value, RuntimeError> {
    let engine = engine(store.clone(), script.tools());
    let (hash, _) = engine.add_plan(case.plan())?;
    let start = RunStartOptions { id: Some(RUN.to_owned()), virtual_time: true, ..RunStartOptions::default() };
    let mut handle = within_timeout(engine.start(hash, case.input(), start)).await?;
    let report = within_timeout(handle.wait()).await?;
    let error = report.error.as_ref().map(|error| error.code.clone());
    Ok(Value::object([("output", report.output.clone()), ("error", Value::from(error))]))
}

async fn within_timeout<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.expect("it hangs")
}

/// Identifies a call by its purpose; its key depends on the order in which concurrent steps advanced.
fn purpose(call: &Call) -> String {
    let part = |key: &str| call.input.get(key).map(to_json).unwrap_or_default();
    format!("{} {} {} {}", call.path, call.attempt, part("turn"), part("arguments"))
}

/// Counts the distinct calls for each purpose.
fn purposes(calls: &[Call]) -> BTreeMap<String, usize> {
    let mut keys: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for call in calls {
        keys.entry(purpose(call)).or_default().insert(&call.key);
    }
    keys.into_iter().map(|(purpose, keys)| (purpose, keys.len())).collect()
}

fn by_key(calls: &[Call]) -> BTreeMap<(&str, u32), Vec<&Call>> {
    let mut keys: BTreeMap<(&str, u32), Vec<&Call>> = BTreeMap::new();
    for call in calls {
        keys.entry((&call.key, call.attempt)).or_default().push(call);
    }
    keys
}

async fn crash_everywhere(case: &Case, max_in_flight: usize) -> u64 {
    let (store, script) = (Arc::new(MemoryStore::new()), Script::new(case.script.clone()));
    let expected = run_process(case, &store, &script).await.expect("an undisturbed run");
    let undisturbed = script.calls();
    assert_eq!(by_key(&undisturbed).len(), undisturbed.len(), "{}: an undisturbed run repeats no call", case.name);
    let mut crashes = 0;
    for side in [Side::BeforeSync, Side::AfterSync] {
        for at in 1.. {
            let what = format!("{}, {side:?} {at}", case.name);
            let (mut store, script) = (Arc::new(MemoryStore::new()), Script::new(case.script.clone()));
            match side {
                Side::BeforeSync => store.crash_before_sync(at),
                Side::AfterSync => store.crash_after_sync(at),
            }
            let life = run_process(case, &store, &script).await;
            if store.run(RUN).is_ok() {
                assert_eq!(life.as_ref().map(to_json).ok(), Some(to_json(&expected)), "{what}");
                break;
            }
            crashes += 1;
            store = Arc::new(store.crash());
            let end = run_process(case, &store, &script).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(to_json(&end), to_json(&expected), "{what}");
            let calls = script.calls();
            assert_eq!(purposes(&calls), purposes(&undisturbed), "{what}: the same calls");
            let by_key = by_key(&calls);
            for ((key, _), calls) in &by_key {
                assert!(calls.iter().all(|call| call.input == calls[0].input), "{what}: {key} with two inputs");
                assert!(calls.len() <= 2, "{what}: {key} more often than there were lives");
            }
            let repeated = calls.len() - by_key.len();
            assert!(repeated <= max_in_flight, "{what}: {repeated} calls were made again");
        }
    }
    crashes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_a_crash_at_every_commit() {
    for (name, max_in_flight) in CASES {
        let case = Case::by_name("runs", name);
        let crashes = crash_everywhere(&case, *max_in_flight).await;
        assert!(crashes > 2, "{name} has only {crashes} commits");
    }
}
