//! Runs of any length produce drawings of readable size.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{event_of, folder, plan_of, steps};
use windlass_core::plan::Plan;
use windlass_core::{Event, EventKind};
use windlass_draw::{ActivityState, MAX_NODES, RunDrawing};
use windlass_value::{Timestamp, Value};

fn ring() -> Plan {
    steps(&json!({
        "name": "ring", "start": "begin", "stop": "end", "events": {},
        "steps": [
            { "name": "ping", "accepts": ["begin", "pong"], "produces": ["ping"] },
            { "name": "pong", "accepts": ["ping"], "produces": ["pong", "end"] },
        ],
    }))
}

/// Adds the events of two steps that trigger each other, `count` step runs in all.
fn rounds(drawing: &mut RunDrawing, count: u64) {
    for firing in 0..count {
        let (step, token) = if firing % 2 == 0 { ("ping", "pong") } else { ("pong", "ping") };
        let from = firing.checked_sub(1).map(Value::from).into_iter().collect();
        let started = Value::object([
            ("token", Value::from(if firing == 0 { "begin" } else { token })),
            ("firing", Value::from(firing)),
            ("from", Value::list(from)),
        ]);
        let ended = Value::object([("status", Value::from("succeeded")), ("firing", Value::from(firing))]);
        for (at, kind, data) in [(1, "step.started", started), (2, "step.done", ended)] {
            let (seq, at) = (firing * 2 + at, Timestamp((firing * 2_000 + at * 1_000) as i64));
            let kind = EventKind::with_defaults(kind, data.as_map().unwrap().clone());
            drawing.event(&Event { seq, at, path: step.into(), kind });
        }
    }
}

#[test]
fn up_to_the_limit_every_run_has_its_own_box() {
    let mut drawing = RunDrawing::new(&ring());
    rounds(&mut drawing, MAX_NODES as u64);
    let drawn = drawing.finish();
    let boxes = drawn.items.iter().filter(|item| item.activity.is_some()).count();
    assert_eq!((boxes, drawn.arrows.len()), (MAX_NODES, MAX_NODES));
}

#[test]
fn beyond_the_limit_a_step_has_one_box_and_keeps_all_counts() {
    let count = 40_001;
    let mut drawing = RunDrawing::new(&ring());
    rounds(&mut drawing, count);
    let drawn = drawing.finish();
    let runs: Vec<_> =
        drawn.items.iter().filter_map(|item| Some((&*item.title, item.activity.as_ref()?.runs))).collect();
    assert_eq!(runs, [("ping", 20_001), ("pong", 20_000)]);
    assert!(drawn.notes[1].contains("40001 step runs are too many"), "{:?}", drawn.notes);
    let took = drawn.items.iter().filter_map(|item| item.activity.as_ref()?.took).map(|took| took.as_ms());
    assert_eq!(took.sum::<u64>(), count, "a millisecond each");
    let text = drawn.to_mermaid();
    assert!(text.contains("|\"ping × 20000\"|") && text.contains("|\"pong × 20000\"|"), "{text}");
}

#[test]
fn drawings_beyond_mermaid_limits_are_folded_too() {
    let long = "a_name_of_some_length_that_an_author_has_written_for_other_readers_a";
    let definition = json!({ "name": "long", "start": "begin", "stop": "end", "events": {},
        "steps": [{ "name": long, "accepts": ["begin", long], "produces": [long] }] });
    let plan = steps(&definition);
    let mut drawing = RunDrawing::new(&plan);
    for firing in 0..400_u64 {
        let from: Vec<u64> = firing.checked_sub(1).into_iter().collect();
        let line = json!({ "seq": firing + 1, "at": "2026-11-16T05:00:00Z", "type": "step.started", "path": long,
            "token": if firing == 0 { "begin" } else { "again" }, "firing": firing, "from": from });
        drawing.event(&event_of(&line.to_string()));
    }
    let drawn = drawing.finish();
    assert!(drawn.to_mermaid().len() < 50_000 && drawn.items.len() == 2, "{}", drawn.to_mermaid());
    assert!(drawn.notes[1].contains("400 step runs are too many"));
}

#[test]
fn folding_early_or_late_draws_the_same() {
    let draw = |max_nodes: usize| {
        let mut drawing = RunDrawing::new(&ring()).with_max_nodes(max_nodes);
        rounds(&mut drawing, 1_000);
        drawing.finish()
    };
    let (early, late) = (draw(1), draw(400));
    assert_eq!((&early.items, &early.arrows), (&late.items, &late.arrows));
}

#[test]
fn unbounded_iterations_are_one_box() {
    let plan = plan_of(&folder("plans").join("nested.loom.json"));
    let mut drawing = RunDrawing::new(&plan);
    let mut event = |seq: u64, kind: &str, path: String, data: serde_json::Value| {
        let mut line = json!({ "seq": seq, "at": "2026-11-16T05:00:00Z", "type": kind, "path": path });
        line.as_object_mut().unwrap().extend(data.as_object().unwrap().clone());
        drawing.event(&event_of(&line.to_string()));
    };
    event(1, "step.started", "rows".to_owned(), json!({}));
    event(2, "loop.started", "rows".to_owned(), json!({ "limits": { "count": 5000 } }));
    for iteration in 0..1_000 {
        let status = if iteration % 10 == 0 { "failed" } else { "succeeded" };
        event(3 + iteration, "loop.iteration.done", format!("rows[{iteration}]"), json!({ "status": status }));
    }
    event(1_003, "loop.progress", "rows".to_owned(), json!({ "from": 1000, "to": 1999, "failed": 5 }));
    let drawn = drawing.finish();
    let rows = drawn.items[0].activity.as_ref().unwrap();
    let counts = rows.iterations.as_ref().unwrap();
    assert_eq!(
        (counts.ended, counts.failed, counts.max, rows.state),
        (2_000, 105, Some(5_000), ActivityState::Running)
    );
}
