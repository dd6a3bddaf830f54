//! The records that a loop collects, one for each iteration.

use crate::support;

use support::looped::*;
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::state::FrameBody;
use windlass_core::{Limits, Program, Status};
use windlass_value::{IterationRecords, Value};

fn recorded(sim: &Sim) -> IterationRecords {
    let scope = sim.state.scopes.get(sim.state.root_scope).unwrap();
    let loops = scope.outcomes.iter().filter_map(|(_, outcome)| outcome.loop_summary.as_ref());
    match loops.map(|summary| summary.records.clone()).next().unwrap() {
        IterationRecords::None => IterationRecords::None,
        IterationRecords::Last(record) => IterationRecords::Last(sim.values.resolve(&record)),
        IterationRecords::All(records) => IterationRecords::All(sim.values.resolve(&records)),
    }
}

/// Every iteration records its item and the status of its two actions.
fn recording(in_flight: u64, retention: RecordRetention, on_iteration_failure: IterationFailure) -> Program {
    looped(|b, id| {
        let items = range(b, 3);
        let body = b.node(id, "body", |b, id| {
            let (one, two) = (b.effect(Some(id), "one", "0"), b.evaluate(Some(id), "two", "2"));
            let accepts = windlass_core::StatusSet::from_statuses([Status::Succeeded]);
            NodeKind::Graph(graph(vec![
                GraphChild { node: one, after: Vec::new(), condition: None, group: None },
                GraphChild {
                    node: two,
                    after: vec![GraphDependency { child: 0, accepts }],
                    condition: None,
                    group: None,
                },
            ]))
        });
        let value = b.expr(r#"[{"$iteration": "item"}, {"$status": "one"}, {"$status": "two"}]"#);
        Loop {
            records: Some(RecordingSpec::new(value, retention)),
            on_iteration_failure,
            ..each(items, in_flight, body)
        }
    })
}

#[test]
fn every_iteration_is_recorded_in_index_order() {
    let program = recording(3, RecordRetention::All, IterationFailure::FailAtEnd);
    let mut sim = begun(&program);
    sim.succeed("loop[2].body.one", 1u32).fail("loop[1].body.one").succeed("loop[0].body.one", 1u32);
    let expected = r#"[[0, "succeeded", "succeeded"], [1, "failed", "skipped"], [2, "succeeded", "succeeded"]]"#;
    assert_eq!((sim.status(), recorded(&sim)), (Status::Failed, IterationRecords::All(json(expected))));
}

#[test]
fn the_last_iteration_by_index_is_recorded() {
    let program = recording(3, RecordRetention::Last, IterationFailure::Count);
    let mut sim = begun(&program);
    sim.fail("loop[2].body.one").succeed("loop[1].body.one", 1u32).succeed("loop[0].body.one", 1u32);
    assert_eq!(recorded(&sim), IterationRecords::Last(json(r#"[2, "failed", "skipped"]"#)));
}

#[test]
fn an_iteration_that_stops_the_loop_is_recorded_and_a_cancelled_one_is_not() {
    let program = recording(2, RecordRetention::All, IterationFailure::Stop { running_finish: false });
    let mut sim = begun(&program);
    sim.fail("loop[1].body.one").advance(secs(30));
    assert_eq!(recorded(&sim), IterationRecords::All(json(r#"[null, [1, "failed", "skipped"]]"#)));
}

#[test]
fn iterations_allowed_to_finish_are_recorded() {
    let program = recording(2, RecordRetention::All, IterationFailure::Stop { running_finish: true });
    let mut sim = begun(&program);
    sim.fail("loop[0].body.one").succeed("loop[1].body.one", 1u32);
    let expected = r#"[[0, "failed", "skipped"], [1, "succeeded", "succeeded"]]"#;
    assert_eq!((sim.status(), recorded(&sim)), (Status::Failed, IterationRecords::All(json(expected))));
}

#[test]
fn a_loop_without_iterations_records_nothing() {
    for (retention, expected) in [
        (RecordRetention::Last, IterationRecords::Last(Value::Null)),
        (RecordRetention::All, IterationRecords::All(json("[]"))),
    ] {
        let program = looped(|b, id| {
            let items = range(b, 0);
            let records = Some(RecordingSpec::new(b.expr("1"), retention));
            Loop { records, ..each(items, 1, b.evaluate(id, "body", "1")) }
        });
        assert_eq!(recorded(&ran(&program)), expected);
    }
}

#[test]
fn a_failing_record_fails_the_loop_unless_it_ends_anyway() {
    let with = |fails: bool| {
        let program = looped(|b, id| {
            let records = Some(RecordingSpec::new(b.expr(r#"{"$fail": "no record"}"#), RecordRetention::All));
            Loop { records, ..repeat(3, if fails { b.effect(id, "body", "1") } else { b.evaluate(id, "body", "1") }) }
        });
        let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::fail()));
        sim.start().run();
        (sim.status(), sim.loop_end("loop"), error_code(&sim))
    };
    assert_eq!(with(false), (Status::Failed, ("failed".to_owned(), 1), "InvalidTemplate".to_owned()));
    assert_eq!(with(true), (Status::Failed, ("failed".to_owned(), 1), "500".to_owned()));
}

#[test]
fn records_of_long_loops_do_not_stay_in_memory() {
    let limits = Limits { loop_chunk_items: 10, ..Limits::default() };
    let program = looped_with(limits, |b, id| {
        let items = range(b, 2_005);
        let records =
            Some(RecordingSpec::new(b.expr(r#"[{"$iteration": "item"}, {"$text": 50}]"#), RecordRetention::All));
        Loop { records, collect: CollectMode::Last, ..each(items, 4, b.evaluate(id, "body", "1")) }
    });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start();
    while !sim.ended() {
        for (_, frame) in sim.state.frames.iter() {
            if let FrameBody::Loop(body) = &frame.body {
                assert!(body.records.tail.len() + body.records.early.len() < 14, "records pile up");
            }
        }
        sim.step();
    }
    let IterationRecords::All(records) = recorded(&sim) else { panic!("all are kept") };
    let first = |record: &Value| record.as_list().unwrap()[0].as_int().unwrap();
    assert_eq!(records.as_list().unwrap().iter().map(first).collect::<Vec<_>>(), (0..2_005).collect::<Vec<_>>());
}

// Entries: the value collected for an iteration instead of its output.

const ENTRY: &str = r#"{"city": {"$iteration": "item"}, "status": {"$var": "status"}, "data": {"$var": "output"},
                        "why": {"$get": [{"$var": "error"}, "code"]}}"#;

fn entered(in_flight: u64, collect: CollectMode, on_iteration_failure: IterationFailure, entry: &str) -> Program {
    looped(|b, id| {
        let items = range(b, 3);
        let body = b.effect(id, "body", "0");
        Loop { entry: Some(b.expr(entry)), collect, on_iteration_failure, ..each(items, in_flight, body) }
    })
}

#[test]
fn entries_cover_successful_and_failed_iterations_in_index_order() {
    let program = entered(3, CollectMode::Stats, IterationFailure::Count, ENTRY);
    let mut sim = begun(&program);
    sim.succeed("loop[2].body", "c").fail("loop[1].body").succeed("loop[0].body", "a");
    let expected = r#"{"results": [{"city": 0, "status": "success", "data": "a", "why": null},
                                   {"city": 1, "status": "error", "data": null, "why": "500"},
                                   {"city": 2, "status": "success", "data": "c", "why": null}],
                       "stats": {"total": 3, "success": 2, "failed": 1}}"#;
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, json(expected)));
    let iterations_done = sim.events_of("loop.iteration.done");
    assert_eq!(iterations_done[0].data.get("result"), Some(&"c".into()), "an iteration's result is its body's output");
}

/// An iteration that stops the loop has an entry; one that the loop cancels has none.
#[test]
fn a_cancelled_iteration_has_no_entry() {
    let program = entered(3, CollectMode::List, IterationFailure::Stop { running_finish: false }, ENTRY);
    let mut sim = begun(&program);
    sim.fail("loop[0].body").advance(secs(60));
    let results = sim.output();
    let cities: Vec<Option<&Value>> = results.as_list().unwrap().iter().map(|entry| entry.get("city")).collect();
    assert_eq!((sim.status(), cities), (Status::Failed, vec![Some(&Value::Int(0)), None, None]));
}

#[test]
fn a_failing_entry_fails_the_loop_and_only_lists_have_entries() {
    let fails = r#"{"$fail": "no entry"}"#;
    let program = entered(1, CollectMode::List, IterationFailure::Count, fails);
    let sim = ran(&program);
    assert_eq!((sim.status(), sim.loop_end("loop")), (Status::Failed, ("failed".to_owned(), 1)));
    for collect in [CollectMode::Last, CollectMode::Report] {
        let program = entered(1, collect, IterationFailure::Count, fails);
        assert_eq!(ran(&program).status(), Status::Succeeded, "{collect:?}");
    }
}

#[test]
fn entries_of_a_long_loop_leave_the_state() {
    let limits = Limits { loop_chunk_items: 4, max_inline_bytes: 60, ..Limits::default() };
    let program = looped_with(limits, |b, id| {
        let (items, entry) = (range(b, 30), Some(b.expr(r#"{"n": {"$iteration": "item"}, "pad": {"$text": 100}}"#)));
        Loop { entry, ..each(items, 3, b.evaluate(id, "body", "1")) }
    });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start().run();
    let results = sim.output();
    let numbers = results.as_list().unwrap().iter().map(|entry| entry.get("n").unwrap().as_int().unwrap());
    assert!(numbers.eq(0..30));
}

// Facts about the loop that an iteration can read.

#[test]
fn an_iteration_sees_the_item_name_and_the_item_count() {
    const ITERATION_FACTS: &str = r#"[{"$iteration": "name"}, {"$iteration": "count"}, {"$iteration": "item"}]"#;
    let program = looped(|b, id| {
        let items = range(b, 2);
        let body = b.looping(id, "inner", |b, id| {
            let body = b.evaluate(id, "known", ITERATION_FACTS);
            Loop { collect: CollectMode::Last, ..repeat(1, body) }
        });
        Loop { item: Some("city".into()), ..each(items, 1, body) }
    });
    let sim = ran(&program);
    assert_eq!(sim.output(), json(r#"[["city", null, 0], ["city", null, 1]]"#), "the loop inside has no items");
    let program = looped(|b, id| {
        let items = range(b, 2);
        Loop { item: Some("city".into()), ..each(items, 1, b.evaluate(id, "body", ITERATION_FACTS)) }
    });
    assert_eq!(ran(&program).output(), json(r#"[["city", 2, 0], ["city", 2, 1]]"#));
}
