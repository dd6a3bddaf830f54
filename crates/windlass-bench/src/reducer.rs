//! The reducer alone: no store, no workers, one core.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::{Command, Limits, PartialTick, Program, Reduced, START_EVENT, State, Tick, TickKind, reduce};
use windlass_expr::wdl;
use windlass_runtime::{BlobCache, new_state};
use windlass_value::{Language, Timestamp, Value};

use crate::definitions;

const ROUNDS: usize = 5;

fn program(plan: windlass_core::plan::Plan) -> Program {
    program_within(plan, definitions::limits())
}

pub(crate) fn program_within(plan: windlass_core::plan::Plan, limits: Limits) -> Program {
    let languages = wdl::languages();
    let languages: Vec<&dyn Language> = languages.iter().map(AsRef::as_ref).collect();
    Program::load(plan, &languages, limits).expect("the benchmark's plan loads")
}

fn compute(program: &Program, on_tick: impl FnMut(&State, Duration)) -> State {
    compute_with(program, Value::Null, on_tick)
}

/// Runs a plan that only computes, and reports the duration of each tick.
pub(crate) fn compute_with(program: &Program, payload: Value, mut on_tick: impl FnMut(&State, Duration)) -> State {
    let run: Arc<str> = "bench".into();
    let mut state = new_state(&run, 1, program, Timestamp(0));
    let mut blobs = BlobCache::default();
    let mut next = Some(TickKind::AddEvent {
        name: START_EVENT.into(),
        payload,
        request: None,
        origin: None,
        to: None,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    });
    while let Some(kind) = next.take() {
        let tick =
            Tick { at: Timestamp(state.ticks as i64), seed: state.ticks, kind, more_pending: false, clock_step: 0 };
        let begun = Instant::now();
        let Ok(Reduced::Done(output)) = reduce(program, &mut state, &tick, &mut blobs, &mut PartialTick::default())
        else {
            panic!("a plan that only computes requests no blob");
        };
        let took = begun.elapsed();
        blobs.take_fresh();
        next = output.commands.into_iter().find_map(|command| match command {
            Command::QueueEvent(tick) => Some(tick),
            _ => None,
        });
        on_tick(&state, took);
    }
    state
}

pub(crate) fn iterations() -> Vec<String> {
    const ITERATIONS: u64 = 1_000_000;
    let rate = (0..ROUNDS).map(|_| iteration_rate(ITERATIONS)).fold(0.0, f64::max);
    vec![format!("{rate:.0} iterations/s = {:.2} x the target", rate / 300_000.0)]
}

/// Returns the iterations per second of a loop of this many.
pub(crate) fn iteration_rate(iterations: u64) -> f64 {
    let program = program(definitions::counting_loop(iterations));
    let begun = Instant::now();
    compute(&program, |_, _| ());
    iterations as f64 / begun.elapsed().as_secs_f64()
}

/// Compares a tick of the same loop early and late. Iterations that publish individual events, as the first ten
/// thousand do, would cost more early, so both ends are measured quiet.
pub(crate) fn flatness() -> Vec<String> {
    const ITERATIONS: u64 = 1_000_200;
    let mut plan_limits = definitions::limits();
    plan_limits.slice_iterations = 100;
    plan_limits.loop_quiet_from_iteration = 0;
    let program = program_within(definitions::counting_loop(ITERATIONS), plan_limits);
    let ratio = (0..ROUNDS)
        .map(|_| {
            let (mut early, mut late) = (Vec::new(), Vec::new());
            compute(&program, |state, took| match state.iterations {
                1_000..50_000 => early.push(took),
                950_000..1_000_000 => late.push(took),
                _ => {}
            });
            median(late).as_secs_f64() / median(early).as_secs_f64()
        })
        .fold(f64::MAX, f64::min);
    vec![format!("ratio {ratio:.3} (medians of ticks of 100 iterations; best of {ROUNDS})")]
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
