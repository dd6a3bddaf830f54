//! What a loop writes down of its turns.

#![allow(clippy::unwrap_used)]

mod support;

use support::looped::*;
use support::values::MemoryValues;
use support::*;
use windlass_core::plan::*;
use windlass_core::state::Body;
use windlass_core::{Limits, Program, Status};
use windlass_value::{TurnRecords, Value};

fn recorded(sim: &Sim) -> TurnRecords {
    let scope = sim.state.scopes.get(sim.state.root_scope).unwrap();
    let loops = scope.outcomes.iter().filter_map(|(_, outcome)| outcome.turns.as_ref());
    match loops.map(|turns| turns.records.clone()).next().unwrap() {
        TurnRecords::None => TurnRecords::None,
        TurnRecords::Last(record) => TurnRecords::Last(sim.values.whole(&record)),
        TurnRecords::All(records) => TurnRecords::All(sim.values.whole(&records)),
    }
}

/// Every turn writes down its item and how its two actions ended.
fn recording(in_flight: u64, keep: Keep, on_turn_failure: TurnFailure) -> Program {
    looped(|b, id| {
        let items = range(b, 3);
        let body = b.node(id, "body", |b, id| {
            let (one, two) = (b.effect(Some(id), "one", "0"), b.evaluate(Some(id), "two", "2"));
            let accepts = windlass_core::StatusSet::of([Status::Succeeded]);
            NodeKind::Graph(graph(vec![
                Child { node: one, after: Vec::new(), condition: None },
                Child { node: two, after: vec![After { child: 0, accepts }], condition: None },
            ]))
        });
        let value = b.expr(r#"[{"$turn": "item"}, {"$status": "one"}, {"$status": "two"}]"#);
        Loop { records: Some(Records::new(value, keep)), on_turn_failure, ..each(items, in_flight, body) }
    })
}

#[test]
fn every_turn_is_written_down_in_index_order() {
    let program = recording(3, Keep::All, TurnFailure::FailAtEnd);
    let mut sim = begun(&program);
    sim.succeed("loop[2].body.one", 1u32).fail("loop[1].body.one").succeed("loop[0].body.one", 1u32);
    let expected = r#"[[0, "succeeded", "succeeded"], [1, "failed", "skipped"], [2, "succeeded", "succeeded"]]"#;
    assert_eq!((sim.status(), recorded(&sim)), (Status::Failed, TurnRecords::All(json(expected))));
}

#[test]
fn the_last_turn_by_index_is_written_down() {
    let program = recording(3, Keep::Last, TurnFailure::Count);
    let mut sim = begun(&program);
    sim.fail("loop[2].body.one").succeed("loop[1].body.one", 1u32).succeed("loop[0].body.one", 1u32);
    assert_eq!(recorded(&sim), TurnRecords::Last(json(r#"[2, "failed", "skipped"]"#)));
}

#[test]
fn a_turn_that_stops_the_loop_is_written_down_and_one_that_is_called_off_is_not() {
    let program = recording(2, Keep::All, TurnFailure::Stop { running_finish: false });
    let mut sim = begun(&program);
    sim.fail("loop[1].body.one").pass(secs(30));
    assert_eq!(recorded(&sim), TurnRecords::All(json(r#"[null, [1, "failed", "skipped"]]"#)));
}

#[test]
fn turns_that_may_finish_are_written_down_too() {
    let program = recording(2, Keep::All, TurnFailure::Stop { running_finish: true });
    let mut sim = begun(&program);
    sim.fail("loop[0].body.one").succeed("loop[1].body.one", 1u32);
    let expected = r#"[[0, "failed", "skipped"], [1, "succeeded", "succeeded"]]"#;
    assert_eq!((sim.status(), recorded(&sim)), (Status::Failed, TurnRecords::All(json(expected))));
}

#[test]
fn a_loop_without_turns_has_nothing_to_write_down() {
    for (keep, expected) in [(Keep::Last, TurnRecords::Last(Value::Null)), (Keep::All, TurnRecords::All(json("[]")))] {
        let program = looped(|b, id| {
            let items = range(b, 0);
            let records = Some(Records::new(b.expr("1"), keep));
            Loop { records, ..each(items, 1, b.evaluate(id, "body", "1")) }
        });
        assert_eq!(recorded(&ran(&program)), expected);
    }
}

#[test]
fn a_record_that_cannot_be_made_fails_the_loop_unless_it_ends_anyway() {
    let with = |fails: bool| {
        let program = looped(|b, id| {
            let records = Some(Records::new(b.expr(r#"{"$fail": "no record"}"#), Keep::All));
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
        let records = Some(Records::new(b.expr(r#"[{"$turn": "item"}, {"$text": 50}]"#), Keep::All));
        Loop { records, collect: Collect::Last, ..each(items, 4, b.evaluate(id, "body", "1")) }
    });
    let mut sim = Sim::new(&program, support::world::echo());
    sim.values = MemoryValues::forgetful();
    sim.start();
    while !sim.ended() {
        for (_, frame) in sim.state.frames.iter() {
            if let Body::Loop(body) = &frame.body {
                assert!(body.records.tail.len() + body.records.early.len() < 14, "records pile up");
            }
        }
        sim.step();
    }
    let TurnRecords::All(records) = recorded(&sim) else { panic!("all are kept") };
    let first = |record: &Value| record.as_list().unwrap()[0].as_int().unwrap();
    assert_eq!(records.as_list().unwrap().iter().map(first).collect::<Vec<_>>(), (0..2_005).collect::<Vec<_>>());
}
