//! Invariants of a run in the store that hold whatever it went through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_core::{Event, Limits, Program};
use windlass_expr::wdl;
use windlass_runtime::codec::{self, IterationPack, TickEntry};
use windlass_runtime::{FinalReport, RunImage, new_state, replay_from, resolve};
use windlass_store::{MemoryStore, RunFilter, StoreRead, StoreScan};
use windlass_value::{Language, Value, to_json};

use super::limits;

/// A finished run, as far as it must not depend on crashes.
#[derive(Debug, PartialEq)]
pub(crate) struct Audit {
    pub report: String,
    /// Kind and path of every event, sorted: parallel branches may come in any order.
    pub events: Vec<(String, String)>,
    /// The iterations of each loop, with their status.
    pub iterations: BTreeMap<String, BTreeMap<u64, String>>,
    /// All runs of the store: a child that was started twice would be one too many.
    pub runs: BTreeMap<String, &'static str>,
}

pub(crate) fn audit(store: &MemoryStore, run: &str) -> Audit {
    assert_eq!(store.verify().expect("a store that can be read"), Vec::<String>::new());
    let row = store.run(run).expect("readable").expect("the run exists");
    let report: FinalReport = codec::decode(&row.result.clone().expect("an end"), "result").expect("a report");
    let events = events(store, run);
    assert_replays(store, run);
    let loops = store.loops(run).expect("readable").into_iter();
    let runs = store.runs(&RunFilter::default(), None, u32::MAX).expect("readable").into_iter();
    Audit {
        report: render_report(store, &report),
        events: sorted(&events),
        iterations: loops.map(|path| (path.clone(), iterations(store, run, &path))).collect(),
        runs: runs.map(|row| (row.run.to_string(), row.status.as_str())).collect(),
    }
}

/// Renders everything a caller sees of a run's end, with stored values resolved.
pub(crate) fn render_report(store: &dyn StoreRead, report: &FinalReport) -> String {
    let value = resolve(store, &Value::map(report.to_value())).expect("all values are stored");
    to_json(&value)
}

pub(crate) fn entries(store: &dyn StoreRead, run: &str) -> Vec<TickEntry> {
    let rows = store.journal(run, 0, u32::MAX).expect("readable");
    rows.iter().flat_map(|row| codec::decode::<Vec<TickEntry>>(&row.body, "row").expect("a row")).collect()
}

/// Returns the events of a run: numbered from 1, without gaps or duplicates.
pub(crate) fn events(store: &dyn StoreRead, run: &str) -> Vec<Event> {
    let events: Vec<Event> = entries(store, run).into_iter().flat_map(|entry| entry.events).collect();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "events are numbered without a gap");
    events
}

fn sorted(events: &[Event]) -> Vec<(String, String)> {
    let mut kinds: Vec<_> = events.iter().map(|event| (event.type_name().to_owned(), event.path.to_string())).collect();
    kinds.sort();
    kinds
}

/// Replays the whole journal from an empty state: every digest is compared, and the end is the one that was reported.
pub(crate) fn assert_replays(store: &dyn StoreRead, run: &str) -> RunImage {
    let row = store.run(run).expect("readable").expect("the run exists");
    let program = program_of(store, run, limits());
    let mut image = RunImage::new(new_state(&row.run, row.execution_id, &program, row.created_at));
    replay_from(store, &row.run, &program, &mut image, u64::MAX, &mut |_, _| Ok(()))
        .expect("a replay without difference");
    assert_eq!(image.state.ticks, row.ticks);
    image
}

pub(crate) fn program_of(store: &dyn StoreRead, run: &str, limits: Limits) -> Arc<Program> {
    let row = store.run(run).expect("readable").expect("the run exists");
    let plan = store.plan(&row.plan).expect("readable").expect("the plan exists");
    let plan = codec::decode(&plan.body, "a plan").expect("a plan");
    let languages = wdl::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
    Arc::new(Program::load(plan, &languages, limits).expect("a plan that loads"))
}

/// Returns the history of one loop: rows hold consecutive iterations, and no iteration is in two of them.
pub(crate) fn iterations(store: &dyn StoreRead, run: &str, path: &str) -> BTreeMap<u64, String> {
    let mut iterations = BTreeMap::new();
    for row in store.iterations(run, path, 0, u32::MAX).expect("readable") {
        let IterationPack(pack) = codec::decode(&row.body, "iterations").expect("iterations");
        let indexes: Vec<u64> = pack.iter().map(|iteration| iteration.index).collect();
        assert_eq!(indexes, (row.first..=row.last).collect::<Vec<_>>(), "a row of {path} holds consecutive iterations");
        for iteration in pack {
            let before = iterations.insert(iteration.index, iteration.status.as_str().to_owned());
            assert_eq!(before, None, "iteration {} of {path} is stored twice", iteration.index);
        }
    }
    let indexes: BTreeSet<u64> = iterations.keys().copied().collect();
    assert_eq!(indexes, (0..iterations.len() as u64).collect(), "no iteration of {path} is missing");
    iterations
}
