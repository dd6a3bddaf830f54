//! Slots of steps: which body holds which slot, which one waits, which one has yielded its slot; and time bounds.

use crate::support;

use support::steps::*;
use support::*;
use windlass_core::plan::*;
use windlass_core::{Limits, Program, Status, SuspendedOn, Suspension, TaskOutcome};
use windlass_value::{Duration, Value};

/// A step that gets five events, with this concurrency and number of attempts.
fn crowd(max_concurrency: u32, attempts: u64) -> Program {
    let work = step("work", "item", "done").max_concurrency(max_concurrency).retries(retry(attempts, secs(10)));
    let gather = step("gather", "done", "stop").join(Join::FanOut);
    steps(vec![step("split", "start", "item").fans_into(&[2]), work, gather]).load()
}

fn split(program: &Program) -> Sim<'_> {
    let mut sim = begun(program);
    complete_oldest(&mut sim, "split", "[item 1; item 2; item 3; item 4; item 5]");
    sim
}

/// Returns the inputs of the jobs dispatched at a path.
fn at_work(sim: &Sim, path: &str) -> Vec<i64> {
    let here = sim.flights.iter().filter(|flight| &**flight.job.path() == path);
    here.filter_map(|flight| flight.job.input.get("args")?.as_int()).collect()
}

fn reply(sim: &mut Sim, item: i64, outcome: TaskOutcome) {
    let matches = |flight: &&support::sim::Flight| flight.job.input.get("args") == Some(&Value::Int(item));
    let job = sim.flights.iter().find(matches).unwrap().job.job;
    sim.reply_to(job, outcome);
}

fn done(sim: &mut Sim, item: i64) {
    reply(sim, item, TaskOutcome::success(event(&format!("done {item}"))));
}

fn fails(sim: &mut Sim, item: i64) {
    reply(sim, item, TaskOutcome::failure(world::refusal()));
}

fn suspend(sim: &mut Sim, item: i64, awaited: SuspendedOn) {
    let suspension = Some(Box::new(Suspension { waits_for: awaited, published_events: 0 }));
    reply(sim, item, TaskOutcome { suspension, ..TaskOutcome::success(Value::Null) });
}

#[test]
fn queued_bodies_are_published_once_and_start_in_order() {
    let program = crowd(2, 1);
    let mut sim = split(&program);
    assert_eq!(at_work(&sim, "work"), [1, 2]);
    assert_eq!(
        event_lines(&sim, "step.queued", &["event", "waiting"]),
        ["work event=item waiting=1", "work event=item waiting=2", "work event=item waiting=3"]
    );
    for item in 1..=5 {
        done(&mut sim, item);
    }
    assert_eq!(input_texts_at(&sim, "work"), ["1", "2", "3", "4", "5"]);
    assert_eq!(sim.count("step.queued"), 3);
}

#[test]
fn a_free_slot_has_the_smallest_number() {
    let program = crowd(3, 1);
    let mut sim = split(&program);
    done(&mut sim, 2);
    done(&mut sim, 1);
    assert_eq!(
        event_lines(&sim, "step.started", &["worker", "firing", "from"]),
        [
            "split worker=0 firing=0 from=[]",
            "work worker=0 firing=1 from=[0]",
            "work worker=1 firing=2 from=[0]",
            "work worker=2 firing=3 from=[0]",
            "work worker=1 firing=4 from=[0]",
            "work worker=0 firing=5 from=[0]",
        ]
    );
    for item in [3, 5, 4] {
        done(&mut sim, item);
    }
    let last = event_lines(&sim, "step.started", &["worker", "firing", "from"]);
    assert_eq!(last.last().unwrap(), "gather worker=0 firing=6 from=[1,2,3,4,5]");
}

#[test]
fn a_step_that_repeats_itself_never_queues() {
    let program = steps(vec![step("repeat", "start again", "again stop")]).load();
    let mut sim = begun(&program);
    for n in 0..20 {
        complete_oldest(&mut sim, "repeat", &format!("again {n}"));
    }
    assert_eq!((sim.count("step.queued"), sim.count("step.idle")), (0, 0));
    let started = event_lines(&sim, "step.started", &["worker", "from"]);
    assert_eq!(started.last().unwrap(), "repeat worker=0 from=[19]");
}

#[test]
fn a_body_waiting_for_a_retry_yields_its_slot_and_resumes_before_the_queue() {
    let program = crowd(2, 3);
    let mut sim = split(&program);
    fails(&mut sim, 1);
    assert_eq!(at_work(&sim, "work"), [2, 3], "the next has its slot");
    sim.advance(secs(4));
    fails(&mut sim, 3);
    assert_eq!(at_work(&sim, "work"), [2, 4]);
    sim.advance(secs(6));
    assert_eq!(at_work(&sim, "work"), [2, 4], "the first is due, and there is no slot");
    sim.advance(secs(4));
    done(&mut sim, 4);
    assert_eq!(at_work(&sim, "work"), [2, 1], "before the fifth, and before the third");
    done(&mut sim, 2);
    assert_eq!(at_work(&sim, "work"), [1, 3], "in the order in which they were due");
    assert_eq!(
        event_lines(&sim, "step.idle", &["worker", "firing", "reason"]),
        ["work worker=0 firing=1 reason=retry", "work worker=0 firing=3 reason=retry"]
    );
    assert_eq!(
        event_lines(&sim, "step.running", &["worker", "firing"]),
        ["work worker=0 firing=1", "work worker=1 firing=3"]
    );
    for item in [1, 3, 5] {
        done(&mut sim, item);
    }
    assert_eq!(input_texts_at(&sim, "gather"), ["[1,2,3,4,5]"], "they are members still");
}

#[test]
fn bodies_due_at_the_same_time_run_in_timer_order() {
    let program = crowd(2, 3);
    let mut sim = split(&program);
    fails(&mut sim, 2);
    fails(&mut sim, 1);
    done(&mut sim, 3);
    done(&mut sim, 4);
    assert_eq!(at_work(&sim, "work"), [5]);
    sim.advance(secs(10));
    assert_eq!(at_work(&sim, "work"), [5, 2]);
    done(&mut sim, 5);
    assert_eq!(at_work(&sim, "work"), [2, 1]);
}

#[test]
fn with_a_free_slot_a_body_resumes_immediately() {
    let program = crowd(5, 2);
    let mut sim = split(&program);
    fails(&mut sim, 3);
    assert_eq!(at_work(&sim, "work"), [1, 2, 4, 5]);
    sim.advance(secs(10));
    assert_eq!(at_work(&sim, "work"), [1, 2, 4, 5, 3]);
    assert_eq!(event_lines(&sim, "step.running", &["worker"]), ["work worker=2"], "its number was free still");
}

#[test]
fn a_suspended_body_yields_its_slot() {
    let program = crowd(1, 1);
    let mut sim = split(&program);
    let event = |n: i64| SuspendedOn::Event {
        name: "answer".into(),
        requirements: Value::object([("to", n)]),
        deadline: None,
        announcement: None,
    };
    suspend(&mut sim, 1, event(1));
    suspend(&mut sim, 2, event(2));
    assert_eq!(at_work(&sim, "work"), [3]);
    // Each body gets its own answer and resumes in the order of the answers.
    sim.event("answer", json(r#"{"to": 2}"#)).drain_buffer();
    sim.event("answer", json(r#"{"to": 1}"#)).drain_buffer();
    done(&mut sim, 3);
    assert_eq!(at_work(&sim, "work"), [2]);
    done(&mut sim, 2);
    assert_eq!(at_work(&sim, "work"), [1]);
    assert_eq!(
        event_lines(&sim, "step.idle", &["worker", "reason"]),
        ["work worker=0 reason=wait", "work worker=0 reason=wait"]
    );
    for item in [1, 4, 5] {
        done(&mut sim, item);
    }
    assert_eq!(input_texts_at(&sim, "gather"), ["[1,2,3,4,5]"]);
}

#[test]
fn a_body_that_ends_while_suspended_frees_its_slot_once() {
    // Cancelled while it waits for its timer, or while it waits for a slot.
    for awaiting_slot in [false, true] {
        let mut b = steps(vec![
            step("split", "start", "item").fans_into(&[3]),
            step("work", "item", "done").max_concurrency(1).retries(retry(3, secs(10))).timeout(if awaiting_slot {
                15
            } else {
                5
            }),
            step("rescue", FAILED_KIND, "done"),
            step("gather", "done", "stop").join(Join::FanOut),
        ]);
        let NodeKind::Net(net) = &mut b.plan.nodes[0].kind else { unreachable!("a net") };
        net.places[1].handler = Some(FailureHandler { place: 2, max_uses: 1 });
        let program = b.load();
        let mut sim = begun(&program);
        complete_oldest(&mut sim, "split", "[item 1; item 2; item 3]");
        fails(&mut sim, 1);
        sim.advance(secs(if awaiting_slot { 14 } else { 4 }));
        assert_eq!(at_work(&sim, "work"), [2]);
        let Some(NetState { running, awaiting_slot: line }) = net_state(&sim) else { panic!("a net") };
        assert_eq!((running, line), (1, usize::from(awaiting_slot)));
        sim.advance(secs(1));
        assert!(sim.open_paths().contains(&"rescue".to_owned()), "its time is over");
        let Some(NetState { running, awaiting_slot: line }) = net_state(&sim) else { panic!("a net") };
        assert_eq!((running, line), (1, 0), "checked between all ticks as well");
    }
}

struct NetState {
    running: u32,
    awaiting_slot: usize,
}

fn net_state(sim: &Sim) -> Option<NetState> {
    let frame = sim.state.frames.get(sim.state.root?)?;
    let windlass_core::state::FrameBody::Net(net) = &frame.body else { return None };
    Some(NetState { running: net.places[1].running, awaiting_slot: net.places[1].awaiting_slot.len() })
}

#[test]
fn places_that_do_not_yield_keep_their_slots() {
    let mut b = steps(vec![
        step("split", "start", "item").fans_into(&[]),
        step("work", "item", "stop").max_concurrency(1).retries(retry(2, secs(10))),
    ]);
    let NodeKind::Net(net) = &mut b.plan.nodes[0].kind else { unreachable!("a net") };
    net.places[1].yields_slot = false;
    let program = b.load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "split", "[item 1; item 2]");
    fails(&mut sim, 1);
    assert!(at_work(&sim, "work").is_empty());
    sim.advance(secs(10));
    assert_eq!(at_work(&sim, "work"), [1]);
    assert_eq!(sim.count("step.idle") + sim.count("step.running"), 0);
}

#[test]
fn a_restart_in_the_middle_changes_nothing_but_the_workers() {
    let program = crowd(2, 3);
    let mut sim = split(&program);
    fails(&mut sim, 1);
    fails(&mut sim, 2);
    let mut other = Sim::restarted(&program, 1, &sim.journal, Box::new(|_, _, _| Reply::Never));
    other.drain_buffer().advance(secs(10));
    assert_eq!(at_work(&other, "work"), [3, 4], "they wait for a slot");
    for item in [3, 4] {
        done(&mut other, item);
    }
    assert_eq!(at_work(&other, "work"), [1, 2]);
    for item in [1, 2, 5] {
        done(&mut other, item);
    }
    assert_eq!(input_texts_at(&other, "gather"), ["[1,2,3,4,5]"]);
}

// Time bounds.

#[test]
fn attempts_may_be_bounded_in_time() {
    // Time bound; whether it includes the next wait; the wait; duration of an attempt; attempts made, of five.
    let cases = [
        (None, 4, 0, 5),
        (Some((10, false)), 4, 0, 4),
        (Some((10, true)), 4, 0, 3),
        (Some((10, false)), 4, 3, 2),
        (Some((8, false)), 4, 0, 3),
        (Some((8, true)), 4, 0, 3),
        (Some((0, false)), 4, 0, 1),
        (Some((3, true)), 4, 0, 1),
    ];
    for (bound, wait, takes, tries) in cases {
        let within = bound.map(|(time, counts_wait)| RetryWindow { time: secs(time), includes_next_wait: counts_wait });
        let policy = Retry { window: within, ..retry(5, secs(wait)) };
        let program = steps(vec![step("work", "start", "stop").retries(policy.clone())]).load();
        let mut sim = begun(&program);
        exhaust_attempts(&mut sim, "work", takes);
        assert_eq!(sim.dispatched.len(), tries, "{bound:?}, {wait} {takes}");
        // The same when the whole node is entered again.
        let mut b = Builder::new();
        let root = b.effect(None, "work", "1");
        b.node_mut(root).retry = Some(policy);
        let program = b.load();
        let mut sim = begun(&program);
        exhaust_attempts(&mut sim, "work", takes);
        assert_eq!(sim.dispatched.len(), tries, "a node: {bound:?}, {wait} {takes}");
    }
}

fn exhaust_attempts(sim: &mut Sim, path: &str, takes: u64) {
    while !sim.ended() {
        sim.advance(secs(takes));
        sim.fail(path);
        if !sim.ended() {
            // The process may be lost in between: the time continues to count.
            sim.restart();
            while sim.flights.is_empty() {
                sim.advance(secs(1));
            }
        }
    }
}

#[test]
fn the_requested_delay_counts_as_the_next_wait() {
    for (requested_ms, attempts) in [(2_000u32, 2), (20_000, 1)] {
        let window = Some(RetryWindow { time: secs(10), includes_next_wait: true });
        let program = steps(vec![step("work", "start", "stop").retries(Retry { window, ..retry(2, secs(1)) })]).load();
        let mut sim = begun(&program);
        let meta = Value::object([("retry_after_ms", requested_ms)]);
        sim.reply("work", TaskOutcome { meta, ..TaskOutcome::failure(world::refusal()) });
        sim.advance(secs(30));
        assert_eq!(sim.dispatched.len(), attempts);
    }
}

#[test]
fn a_run_timeout_names_the_active_steps() {
    let mut b = steps(vec![
        step("split", "start", "item").fans_into(&[]),
        step("idle", "nothing", "stop"),
        step("work", "item", "more stop").max_concurrency(1).retries(retry(2, secs(1_000))),
        step("ship", "more", "stop"),
    ]);
    b.plan.timeout = Some(secs(60));
    let program = b.load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "split", "[item 1; item 2]");
    reply(&mut sim, 1, sending(&["more 3"], ""));
    fails(&mut sim, 2);
    sim.advance(secs(100));
    assert_eq!(sim.status(), Status::TimedOut);
    let error = sim.result().error.clone().unwrap();
    assert_eq!(&*error.message, "the run took longer than its timeout of PT1M; still running: work, ship");
    assert_eq!(error.facts, json(r#"{"active": ["work", "ship"]}"#));
}

// Large numbers of events.

/// The number of expressions evaluated per event does not grow with the number of events.
#[test]
fn a_large_fan_out_costs_as_much_per_member_as_a_small_one() {
    let evaluations = |members: usize| {
        let program = steps(vec![
            step("split", "start", "item").fans_into(&[2]),
            step("work", "item", "done").max_concurrency(100),
            step("gather", "done", "stop").join(Join::FanOut),
        ])
        .load_with(Limits { slice_items: 1_000_000, ..Limits::default() });
        let mut sim = Sim::new(
            &program,
            Box::new(|job, _, _| {
                let args = job.input.get("args").cloned().unwrap_or_default();
                let item = |n: i64| Value::object([("kind", Value::from("item")), ("payload", Value::Int(n))]);
                let one = |kind: &str| Value::object([("kind", Value::from(kind)), ("payload", args.clone())]);
                let output = match &**job.path() {
                    "split" => Value::list((0..members as i64).map(item).collect()),
                    "work" => one("done"),
                    _ => one("stop"),
                };
                Reply::After(Duration::ZERO, TaskOutcome::success(output))
            }),
        );
        sim.start().run();
        assert_eq!(sim.output().as_list().map(<[Value]>::len), Some(members));
        assert_eq!(sim.output().as_list().unwrap()[members - 1], Value::Int(members as i64 - 1));
        sim.costs.iter().sum::<u64>() as usize
    };
    assert_eq!(evaluations(600) - evaluations(400), evaluations(400) - evaluations(200));
}
