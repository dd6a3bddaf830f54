//! Cuts runs at every commit and resumes them: they must end as if they had not been interrupted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass::{Engine, Workflow};
use windlass_core::{Limits, Program};
use windlass_expr::steps::StepsLanguage;
use windlass_runtime::{RunImage, codec, new_state, replay_from};
use windlass_store::{MemoryStore, StoreRead, StoreScan};
use windlass_value::Language;

use super::{Begin, Done, World, events, in_time};

const RUN: &str = "the-run";

/// The part of a run's outcome that must not depend on crashes.
#[derive(Debug, PartialEq)]
pub(crate) struct Ending {
    pub result: String,
    /// Kind and path, sorted: concurrent steps may be in any order.
    pub events: Vec<String>,
}

pub(crate) struct Undisturbed {
    pub ending: Ending,
    pub notes: Vec<String>,
    pub syncs: u64,
}

/// One process: starts or resumes the run, up to its end or to the crash of the store.
async fn live(store: &Arc<MemoryStore>, workflow: &Workflow) -> Option<Ending> {
    let engine = Engine::in_memory().store(store.clone()).virtual_time(true).workflow(workflow).build().ok()?;
    let ending = run_life(&engine, workflow).await;
    // Nothing of this process continues in the next.
    in_time(engine.close()).await;
    ending
}

async fn run_life(engine: &Engine, workflow: &Workflow) -> Option<Ending> {
    let handle = in_time(engine.start(workflow, Begin { n: 0 }).id(RUN)).await.ok()?;
    let result = match in_time(handle.result::<Done>()).await {
        Ok(done) => done.text,
        Err(windlass::Error::Run { status, error, .. }) => format!("{status:?} {error}"),
        Err(_) => return None,
    };
    let mut lines = super::event_lines(&events(&handle, 0).await);
    lines.sort();
    Some(Ending { result, events: lines })
}

pub(crate) async fn undisturbed(make: &impl Fn(&World) -> Workflow) -> Undisturbed {
    let (store, world) = (Arc::new(MemoryStore::new()), World::default());
    let ending = live(&store, &make(&world)).await.expect("the run ends");
    replays(&*store, RUN);
    Undisturbed { ending, notes: world.notes(), syncs: store.syncs() }
}

/// Cuts the run at every commit, before and after its sync, and once more in the next process. Returns the notes of
/// each series of processes.
pub(crate) async fn cut_everywhere(make: impl Fn(&World) -> Workflow) -> (Undisturbed, Vec<Vec<String>>) {
    let expected = undisturbed(&make).await;
    let mut all = Vec::new();
    for before in [true, false] {
        let mut cuts = 0;
        for at in 1.. {
            let (mut store, world) = (Arc::new(MemoryStore::new()), World::default());
            let workflow = make(&world);
            let mut reached = Vec::new();
            for cut in [at, 1 + at % 3] {
                match before {
                    true => store.crash_before_sync(cut),
                    false => store.crash_after_sync(cut),
                }
                live(&store, &workflow).await;
                reached.push(store.run(RUN).is_err());
                store = Arc::new(store.crash());
            }
            let ending = live(&store, &workflow).await;
            let ending = ending.unwrap_or_else(|| panic!("cut at {at}: the run does not end"));
            assert_eq!(ending, expected.ending, "cut at {at}, before its sync: {before}");
            assert_eq!(store.verify().expect("readable"), Vec::<String>::new());
            replays(&*store, RUN);
            all.push(world.notes());
            if !reached[0] {
                break;
            }
            cuts += 1;
        }
        // Results of one moment may share a commit, so the number is not exact; nearly all commits must have been cut.
        assert!(cuts > 2 && cuts + 4 >= expected.syncs, "{cuts} cuts of {} commits", expected.syncs);
    }
    (expected, all)
}

/// Checks that the same things were done, however often.
pub(crate) fn same_notes(expected: &Undisturbed, all: &[Vec<String>]) {
    let set = |notes: &[String]| notes.iter().cloned().collect::<BTreeSet<_>>();
    for notes in all {
        assert_eq!(set(notes), set(&expected.notes));
    }
}

/// Checks that notes of the form `name: value` have one value for each name.
pub(crate) fn one_value_each(notes: &[String]) {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in notes.iter().filter_map(|note| note.split_once(": ")) {
        let before = values.insert(name, value);
        assert!(before.is_none_or(|before| before == value), "{name} was {before:?} and is {value}");
    }
}

/// Replays the whole journal from the beginning: compares every digest, and the final tick count. Returns the number
/// of ticks.
pub(crate) fn replays(store: &dyn StoreRead, run: &str) -> u64 {
    let row = store.run(run).expect("readable").expect("the run exists");
    let plan = store.plan(&row.plan).expect("readable").expect("the plan exists");
    let plan = codec::decode(&plan.body, "a plan").expect("a plan");
    let languages: [&dyn Language; 1] = [&StepsLanguage];
    let program = Program::load(plan, &languages, Limits::default()).expect("a plan that loads");
    let program = Arc::new(program);
    let mut image = RunImage::new(new_state(&row.run, row.execution_id, &program, row.created_at));
    replay_from(store, &row.run, &program, &mut image, u64::MAX, &mut |_, _| Ok(()))
        .expect("a replay without difference");
    assert_eq!(image.state.ticks, row.ticks);
    row.ticks
}
