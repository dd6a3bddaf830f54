//! Deterministic single-threaded work, for counting instructions: `windlass-bench --work NAME TIMES`.
//!
//! It reads no clock and waits for nothing. Starting the program and compiling the definitions costs the same for any
//! number of repetitions, so the difference of two counts is the work alone.

use std::sync::Arc;

use windlass_core::plan::Plan;
use windlass_core::{
    Command, Event, Limits, PartialTick, Program, Reduced, START_EVENT, State, TaskOutcome, Tick, TickKind, TickOutput,
    reduce,
};
use windlass_runtime::codec::{self, TickEntry, TickEntryHeader};
use windlass_runtime::{BlobCache, new_state};
use windlass_store::{BatchVerdict, JournalRecord, NewRun, NewSnapshot, RunBatch};
use windlass_store_sqlite::SyncMode;
use windlass_value::{BlobHash, Language, Timestamp, Value};

use crate::disk::BenchFolder;
use crate::{definitions, engine, reducer, steps};

/// Iterations of the loops of one round.
const ITERATIONS: u64 = 200;

/// Names of the workloads, for comparisons.
pub(crate) const WORKS: [&str; 3] = ["reducer", "codec", "append"];

/// Performs a workload this many times. Returns false if there is no such workload.
pub(crate) fn run(name: &str, times: u64) -> bool {
    match name {
        "reducer" => reduce_plans(times),
        "codec" => encode_and_decode(times),
        "append" => append(times),
        _ => return false,
    }
    true
}

/// Drives a run without workers, store or clock: every job succeeds immediately.
fn drive(
    program: &Program,
    input: Value,
    mut reply: impl FnMut(&str, &Value) -> TaskOutcome,
    mut on_tick: impl FnMut(&Tick, &TickOutput, &State),
) -> State {
    let run: Arc<str> = "work".into();
    let mut state = new_state(&run, 1, program, Timestamp(0));
    let mut blobs = BlobCache::default();
    let mut next = std::collections::VecDeque::from([TickKind::AddEvent {
        name: START_EVENT.into(),
        payload: input,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    }]);
    while let Some(kind) = next.pop_front() {
        let tick =
            Tick { at: Timestamp(state.ticks as i64), seed: state.ticks, kind, more_pending: false, clock_step: 0 };
        let Ok(Reduced::Done(output)) = reduce(program, &mut state, &tick, &mut blobs, &mut PartialTick::default())
        else {
            panic!("this work stores no blobs");
        };
        blobs.take_fresh();
        on_tick(&tick, &output, &state);
        for command in output.commands {
            match command {
                Command::QueueEvent(kind) => next.push_back(kind),
                Command::RunWorker(job) => {
                    let outcome = reply(&job.tool, &job.input);
                    next.push_back(TickKind::StepResult { job: job.job, lease_epoch: job.lease_epoch, outcome });
                }
                _ => {}
            }
        }
    }
    assert!(state.result().is_some(), "the run ends");
    state
}

fn echo(_: &str, input: &Value) -> TaskOutcome {
    TaskOutcome::success(input.clone())
}

fn load_program(plan: Plan) -> Program {
    reducer::program_within(plan, definitions::limits())
}

/// Reduces a loop with effects, a loop that only computes, and a net.
fn reduce_plans(times: u64) {
    let effects = load_program(definitions::effect_loop(ITERATIONS, definitions::NOOP));
    let compute = load_program(definitions::counting_loop(ITERATIONS * 5));
    let language = steps::TokenLanguage;
    let languages: [&dyn Language; 1] = [&language];
    let net = Program::load(steps::ping_pong(), &languages, Limits::default()).expect("the plan loads");
    for _ in 0..times {
        drive(&effects, Value::Null, echo, |_, _, _| ());
        drive(&compute, Value::Null, echo, |_, _, _| ());
        drive(&net, Value::object([("left", ITERATIONS as i64)]), steps::step_reply, |_, _, _| ());
    }
}

/// Returns the ticks of a loop in the form that the journal stores, and a state from the middle.
fn journal() -> (Vec<TickEntry>, State) {
    let program = load_program(definitions::effect_loop(ITERATIONS, definitions::NOOP));
    let (mut entries, mut middle) = (Vec::new(), None);
    drive(&program, Value::Null, echo, |tick, output, state| {
        let event = |command: &Command| match command {
            Command::PublishEvent(event) => Some(event.clone()),
            _ => None,
        };
        let events: Vec<Event> = output.commands.iter().filter_map(event).collect();
        entries.push(TickEntry { tick: tick.clone(), digest: codec::digest(&output.commands), events });
        if state.iterations == ITERATIONS / 2 {
            middle = Some(state.clone());
        }
    });
    (entries, middle.expect("a loop has a middle"))
}

/// Encodes and decodes ticks, states and snapshots.
fn encode_and_decode(times: u64) {
    let (entries, state) = journal();
    for _ in 0..times {
        for entry in entries.chunks(2) {
            let bytes = codec::encode(&entry);
            let whole: Vec<TickEntry> = codec::decode(&bytes, "a tick").expect("encoded data decodes");
            let bare: Vec<TickEntryHeader> = codec::decode(&bytes, "a tick").expect("encoded data decodes");
            assert_eq!(whole.len(), bare.len());
        }
        for _ in 0..20 {
            let (bytes, _) = codec::state_bytes(&state);
            let read: State = codec::decode(&bytes, "a state").expect("encoded data decodes");
            assert_eq!(read.ticks, state.ticks);
        }
    }
}

/// Appends batches of one run, one transaction each, as a loop with effects produces them, with occasional snapshots.
fn append(times: u64) {
    const BATCHES: u64 = 100;
    let (entries, state) = journal();
    let body = codec::encode(&entries[..2].to_vec());
    let (snapshot, state_hash) = codec::state_bytes(&state);
    let folder = BenchFolder::new("append");
    let store = engine::sqlite(folder.path(), SyncMode::Full);
    let create = NewRun {
        execution_id: 1,
        plan: BlobHash([1; 32]),
        definition: "work".to_owned(),
        dialect: "loom".to_owned(),
        owner: Some("me".to_owned()),
        created_at: Timestamp(0),
        parent: None,
        cancel_request_id: None,
        max_tree_runs: u64::MAX,
        options: Vec::new(),
        labels: Default::default(),
    };
    let run: Arc<str> = "work".into();
    let mut batch = RunBatch { run: run.clone(), owner_epoch: 1, create: Some(create), ..RunBatch::default() };
    let mut ticks = 0;
    for number in 0..times * BATCHES {
        let record = JournalRecord { ticks: 2, first_event: ticks * 2 + 1, events: 4, body: body.clone() };
        let next = NewSnapshot { tick: ticks + 2, event: ticks * 2 + 4, state_hash, body: snapshot.clone() };
        let snapshot = (number % BATCHES == BATCHES - 1).then_some(next);
        let verdicts = store.append(vec![RunBatch { record: Some(record), snapshot, ..batch }]).expect("appended");
        assert_eq!(verdicts, [BatchVerdict::Committed]);
        ticks += 2;
        batch = RunBatch { run: run.clone(), owner_epoch: 1, expected_ticks: ticks, ..RunBatch::default() };
    }
}
