//! Steps in code, as the reducer executes them: routing of events, joins, failure handlers, and proven hangs.

use crate::support;

use support::steps::*;
use support::*;
use windlass_core::plan::*;
use windlass_core::{ErrorInfo, Program, Status, TaskOutcome, TickKind};
use windlass_value::Value;

fn failure(sim: &Sim) -> ErrorInfo {
    sim.result().error.clone().unwrap()
}

fn external_event(sim: &mut Sim, name: &str, payload: &str, to: Option<&str>) {
    let (name, payload, to) = (name.into(), json(payload), to.map(Into::into));
    sim.tick(TickKind::AddEvent {
        name,
        payload,
        request: None,
        origin: None,
        to,
        trigger_metadata: Value::Null,
        defaults: Value::Null,
    })
    .drain_buffer();
}

// Routing.

fn two_receivers() -> Program {
    steps(vec![step("first", "start", "item stop"), step("one", "item", "stop"), step("two", "item more", "stop")])
        .load()
}

#[test]
fn only_the_target_gets_a_targeted_event() {
    // The event that is sent or comes from outside, and its target; the steps that run then; the reason if none does.
    let cases = [
        ("item", None, vec!["first", "one", "two"], ""),
        ("item", Some("two"), vec!["first", "two"], ""),
        ("more", Some("one"), vec!["first"], "no step `one` accepts it"),
        ("item", Some("missing"), vec!["first"], "no step `missing` accepts it"),
    ];
    for (kind, to, expected, reason) in cases {
        let program = two_receivers();
        let mut sim = begun(&program);
        external_event(&mut sim, kind, "1", to);
        assert_eq!(sim.open_paths(), expected, "{kind} for {to:?} from outside");
        let unhandled = event_lines(&sim, "event.unhandled", &["event", "reason", "idle"]);
        let line = format!(" event={kind} reason={reason} idle=false");
        assert_eq!(unhandled, if reason.is_empty() { Vec::new() } else { vec![line] });
        assert!(sim.state.signals.is_empty(), "an event for one step is not buffered");
        // The same for an event sent by a step.
        let mut sim = begun(&program);
        let sent = to.map_or(format!("{kind} 1"), |to| format!("{kind}@{to} 1"));
        sim.reply("first", sending(&[&sent], ""));
        assert_eq!(
            ["first"].into_iter().chain(sim.open_paths().iter().map(|path| &**path)).collect::<Vec<_>>(),
            expected
        );
        assert_eq!(sim.count("event.unhandled"), usize::from(!reason.is_empty()));
    }
}

#[test]
fn sent_events_precede_the_returned_one_and_are_dropped_on_failure() {
    let program = steps(vec![
        step("first", "start", "item stop").retries(retry(2, secs(1))),
        step("work", "item", "").max_concurrency(9),
    ])
    .load();
    let mut sim = begun(&program);
    let refused = ErrorInfo::new("500", "http", "no").replied();
    sim.reply("first", TaskOutcome { error: Some(refused), ..sending(&["item 0"], "") });
    sim.advance(secs(1)).reply("first", sending(&["item 1", "item@work 2"], "item 3"));
    assert_eq!(input_texts_at(&sim, "work"), ["1", "2", "3"]);
}

#[test]
fn an_unhandled_event_is_published_with_the_idle_flag() {
    // The outcome of the first step; for each unhandled event, whether it was the last activity.
    let cases: [(TaskOutcome, &[&str]); 5] = [
        (sending(&[], "unknown"), &["idle=true"]),
        (sending(&["unknown"], "unknown"), &["idle=false", "idle=true"]),
        (sending(&["unknown"], "item 1"), &["idle=false"]),
        (sending(&["item 1"], "unknown"), &["idle=false"]),
        (sending(&["question 1"], ""), &[]),
    ];
    for (outcome, expected) in cases {
        let first = step("first", "start", "item unknown question");
        let program = steps(vec![first, step("work", "item", "stop"), step("answer", "reply", "stop")]).load();
        let mut sim = begun(&program);
        sim.reply("first", outcome);
        let unhandled: Vec<String> =
            event_lines(&sim, "event.unhandled", &["idle"]).iter().map(|line| line.trim().to_owned()).collect();
        assert_eq!(unhandled, expected);
    }
}

#[test]
fn an_input_request_is_published_and_answered() {
    let program = steps(vec![step("ask", "start", "question"), step("answer", "reply", "stop")]).load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "ask", "question {\"price\": 5}");
    assert_eq!(
        event_lines(&sim, "input.required", &["event", "payload", "step"]),
        ["ask event=question payload={price:5} step=ask"]
    );
    assert_eq!((sim.count("event.unhandled"), sim.count("workflow.idle")), (0, 1));
    sim.event("reply", 7u32).drain_buffer();
    complete_oldest(&mut sim, "answer", "stop 8");
    assert_eq!(sim.output(), Value::Int(8));
}

// Joins.

/// One step that emits the events it is given, and a join over it.
fn joining(join: Join, kinds: &str) -> Program {
    steps(vec![
        step("source", "start again", &format!("{kinds} again stop")),
        step("pair", kinds, "stop").join(join).max_concurrency(9),
    ])
    .load()
}

#[test]
fn a_join_over_kinds_fires_with_one_event_per_required_kind() {
    use SurplusPolicy::{Drop, Fail, Keep};
    let a_b = r#"[{"kind":"A","payload":1},{"kind":"B","payload":2}]"#;
    let b_a_a = r#"[{"kind":"B","payload":1},{"kind":"A","payload":2},{"kind":"A","payload":3}]"#;
    // Needs, key, surplus policy; events that arrive; inputs of the step; number of dropped events; error code.
    type Case =
        (&'static str, Option<&'static str>, SurplusPolicy, &'static [&'static str], Vec<String>, usize, &'static str);
    let keyed = |order: u32, b: u32| {
        format!(
            r#"[{{"kind":"A","payload":{{"order":{order},"n":1}}}},{{"kind":"B","payload":{{"order":{order},"n":{b}}}}}]"#
        )
    };
    let cases: [Case; 9] = [
        ("A B", None, Keep, &["A 1", "B 2"], vec![a_b.into()], 0, ""),
        ("A B", None, Keep, &["B 2", "A 1"], vec![a_b.into()], 0, ""),
        ("B A A", None, Keep, &["A 2", "B 1", "A 3"], vec![b_a_a.into()], 0, ""),
        (
            "A B",
            None,
            Keep,
            &["A 1", "A 3", "B 2", "B 4"],
            vec![a_b.into(), a_b.replace('2', "4").replace('1', "3")],
            0,
            "",
        ),
        ("A B", None, Drop, &["A 1", "A 3", "B 2", "B 4"], vec![a_b.into()], 1, ""),
        ("A B", None, Fail, &["A 1", "A 3"], vec![], 0, "SurplusEvent"),
        ("A A B", None, Fail, &["A 1", "A 3"], vec![], 0, ""),
        (
            "A B",
            Some("order"),
            Keep,
            &[r#"A {"order":1,"n":1}"#, r#"A {"order":2,"n":1}"#, r#"B {"order":2,"n":2}"#, r#"B {"order":1,"n":3}"#],
            vec![keyed(2, 2), keyed(1, 3)],
            0,
            "",
        ),
        ("A B", Some("order"), Keep, &[r#"A {"order":1}"#, "B 2", r#"B {"order":null}"#], vec![], 0, ""),
    ];
    for (needs, key, surplus, events, expected, dropped, code) in cases {
        let program = joining(every(needs, key, surplus), "A B");
        let mut sim = begun(&program);
        sim.reply("source", sending(events, "again"));
        assert_eq!(input_texts_at(&sim, "pair"), expected, "{needs} {events:?}");
        assert_eq!(sim.count("event.unhandled"), dropped, "{needs} {events:?}");
        let failed = sim.ended().then(|| failure(&sim));
        assert_eq!(failed.map(|error| error.code.to_string()).unwrap_or_default(), code);
    }
}

#[test]
fn a_surplus_event_that_fails_the_run_names_place_and_event() {
    let program = joining(every("A B", Some("order"), SurplusPolicy::Fail), "A B");
    let mut sim = begun(&program);
    sim.reply("source", sending(&[r#"A {"order": "x"}"#, r#"A {"order": "x"}"#], "again"));
    let error = failure(&sim);
    assert_eq!(&*error.path, "pair");
    assert_eq!(
        &*error.message,
        "the join `pair` already has all the `A` tokens that its set needs where `order` is \"x\", and another has \
         arrived"
    );
}

#[test]
fn a_dropped_event_is_published_with_its_reason() {
    let program = joining(every("A B", None, SurplusPolicy::Drop), "A B");
    let mut sim = begun(&program);
    sim.reply("source", sending(&["A 1", "A 2"], "again"));
    let reason = "the join `pair` already has all the `A` tokens that its set needs; this one is dropped";
    assert_eq!(event_lines(&sim, "event.unhandled", &["event", "reason"]), [format!(" event=A reason={reason}")]);
}

#[test]
fn tokens_held_by_a_join_keep_their_fan_out_open() {
    let program = steps(vec![
        step("split", "start", "A").fans_into(&[2]),
        step("pair", "A B", "done").join(every("A B", None, SurplusPolicy::Keep)),
        step("gather", "done", "stop").join(Join::FanOut),
    ])
    .load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "split", "[A 1; A 2]");
    for n in [7u32, 8] {
        assert!(inputs_at(&sim, "gather").is_empty(), "two members, two that they wait for");
        sim.event("B", n).drain_buffer();
        complete_oldest(&mut sim, "pair", &format!("done {n}"));
    }
    assert_eq!(input_texts_at(&sim, "gather"), ["[7,8]"], "a member that meets something from outside stays a member");
}

#[test]
fn a_join_of_members_of_two_fan_outs_closes_both() {
    let program = steps(vec![
        step("left", "start", "A").fans_into(&[3]),
        step("right", "start", "B").fans_into(&[3]),
        step("pair", "A B", "").join(every("A B", None, SurplusPolicy::Keep)),
        step("gather", "done", "").join(Join::FanOut).max_concurrency(2),
    ])
    .load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "left", "[A 1]");
    complete_oldest(&mut sim, "right", "[B 2]");
    assert_eq!(input_texts_at(&sim, "gather"), ["[]"], "the work continues as the first one's");
    complete_oldest(&mut sim, "pair", "");
    assert_eq!(input_texts_at(&sim, "gather"), ["[]", "[]"]);
}

// Fan-outs with declared joins.

#[test]
fn a_fan_out_closes_into_its_joins_once_in_the_order_of_its_members() {
    // The joins of `split`; what it returns; which worker finishes with which output, in order; what each join gets.
    type Case = (&'static [u32], &'static str, &'static [(usize, &'static str)], [Option<&'static str>; 2]);
    let cases: [Case; 5] = [
        (&[2], "[item 1; item 2; item 3]", &[(2, "done 3"), (0, "done 1"), (0, "done 2")], [Some("[1,2,3]"), None]),
        (&[2, 3], "[item 1; item 2]", &[(1, "done 2"), (0, "done 1")], [Some("[1,2]"), Some("[]")]),
        (&[2, 3], "[item 1; item 2]", &[(1, "other 2"), (0, "done 1")], [Some("[1]"), Some("[2]")]),
        (&[2, 3], "[]", &[], [Some("[]"), Some("[]")]),
        (&[], "[item 1; item 2]", &[(0, "done 1"), (0, "done 2")], [Some("[1] [2]"), None]),
    ];
    for (joins, returned, ends, expected) in cases {
        let program = steps(vec![
            step("split", "start", "item").fans_into(joins),
            step("work", "item", "done other").max_concurrency(9),
            step("gather", "done", "stop").join(Join::FanOut).max_concurrency(2),
            step("beside", "other", "stop").join(Join::FanOut),
        ])
        .load();
        let mut sim = begun(&program);
        complete_oldest(&mut sim, "split", returned);
        for (which, gives) in ends {
            let job = sim.flights.iter().filter(|flight| &**flight.job.path() == "work").nth(*which).unwrap().job.job;
            sim.reply_to(job, TaskOutcome::success(event(gives)));
        }
        let got = ["gather", "beside"].map(|path| input_texts_at(&sim, path).join(" "));
        assert_eq!(got, expected.map(Option::unwrap_or_default), "{returned} into {joins:?}");
    }
}

#[test]
fn members_of_a_fan_out_without_a_join_belong_to_the_enclosing_fan_out() {
    let program = steps(vec![
        step("split", "start", "group").fans_into(&[3]),
        step("group", "group", "item").fans_into(&[]).max_concurrency(2),
        step("work", "item", "done").max_concurrency(9),
        step("gather", "done", "stop").join(Join::FanOut),
    ])
    .load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "split", "[group 1; group 2]");
    complete_oldest(&mut sim, "group", "[item 11; item 12]");
    complete_oldest(&mut sim, "group", "[item 21]");
    for n in [21, 12, 11] {
        let at = sim.flights.iter().position(|flight| flight.job.input.get("args") == Some(&Value::Int(n))).unwrap();
        let job = sim.flights[at].job.job;
        sim.reply_to(job, TaskOutcome::success(event(&format!("done {n}"))));
    }
    assert_eq!(input_texts_at(&sim, "gather"), ["[12,11,21]"], "by the outer member, then in order of arrival");
}

// Failure handlers.

fn handled(times: u32) -> Program {
    steps(vec![
        step("first", "start", "risky"),
        step("risky", "risky again", "done").handler(3, times).timeout(60).max_concurrency(2),
        step("last", "done", "stop").handler(3, times),
        step("rescue", FAILED_KIND, "again done"),
        step("plain", "plain", "stop"),
    ])
    .load()
}

#[test]
fn a_handler_gets_all_facts_of_a_failure() {
    let program = handled(1);
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "first", "risky {\"id\": 5}");
    sim.fail("risky");
    let failed = &inputs_at(&sim, "rescue")[0];
    assert_eq!(failed.get("step"), Some(&Value::from("risky")));
    assert_eq!(failed.get("attempts"), Some(&Value::Int(1)));
    assert_eq!(failed.get("event"), Some(&json(r#"{"kind": "risky", "payload": {"id": 5}}"#)));
    assert_eq!(failed.get("error").unwrap().get("code"), Some(&Value::from("500")));
    complete_oldest(&mut sim, "rescue", "done 1");
    complete_oldest(&mut sim, "last", "stop 2");
    assert_eq!(sim.output(), Value::Int(2));
}

#[test]
fn a_handler_has_a_budget_per_chain_of_events() {
    // The budget; how often the step fails, each failure handled by a retry; whether the run continues.
    for (times, fails, lives) in [(1, 1, true), (1, 2, false), (2, 2, true), (2, 3, false), (0, 1, false)] {
        let program = handled(times);
        let mut sim = begun(&program);
        complete_oldest(&mut sim, "first", "risky");
        for n in 0..fails {
            sim.fail("risky");
            // A snapshot in between changes nothing.
            sim.state = sim::decoded(&sim::encoded(&sim.state));
            if n < times {
                complete_oldest(&mut sim, "rescue", "again");
            }
        }
        assert_eq!(!sim.ended(), lives, "{times} {fails}");
        if !lives {
            let error = failure(&sim);
            let hint = format!("`rescue` has already handled {times} failures of this line of events");
            assert_eq!((&*error.code, &*error.path, error.hint.as_deref()), ("500", "risky", Some(&*hint)));
        }
    }
}

#[test]
fn each_chain_of_events_has_its_own_budget_and_a_join_takes_the_largest() {
    let program = steps(vec![
        step("split", "start", "item").fans_into(&[2]),
        step("work", "item again", "done").handler(3, 1).max_concurrency(2),
        step("gather", "done", "stop again").join(Join::FanOut).handler(3, 1),
        step("rescue", FAILED_KIND, "again done"),
    ])
    .load();
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "split", "[item 1; item 2]");
    sim.fail("work");
    complete_oldest(&mut sim, "rescue", "done 1");
    sim.fail("work");
    assert!(!sim.ended(), "the second member has not been handled before");
    complete_oldest(&mut sim, "rescue", "done 2");
    assert_eq!(input_texts_at(&sim, "gather"), ["[1,2]"], "a handler's events are members still");
    sim.fail("gather");
    assert!(sim.ended(), "both lines lead here");
}

#[test]
fn a_handler_does_not_handle_every_unsuccessful_end() {
    // A timeout of the step is a failure; a handler's failure and a cancelled run do not go to handlers.
    let program = handled(1);
    let mut sim = begun(&program);
    complete_oldest(&mut sim, "first", "risky");
    sim.advance(secs(60)).advance(secs(10));
    assert_eq!(sim.open_paths(), ["risky", "rescue"], "it timed out, and its worker does not respond");
    let failed = &inputs_at(&sim, "rescue")[0];
    assert_eq!(failed.get("error").unwrap().get("code"), Some(&Value::from("ActionTimedOut")));
    sim.fail("rescue").advance(secs(10));
    assert_eq!((sim.status(), &*failure(&sim).path), (Status::Failed, "rescue"));

    let mut sim = begun(&program);
    complete_oldest(&mut sim, "first", "risky");
    sim.cancel().advance(secs(10));
    assert_eq!((sim.status(), inputs_at(&sim, "rescue").len()), (Status::Cancelled, 0));
}

#[test]
fn inconsistent_plans_are_rejected() {
    let cases = [
        (step("a", "start", "stop").handler(0, 1), "the handler of `a` is not a place that accepts `step.failed`"),
        (step("a", "start", "stop").handler(9, 1), "the handler of `a` is not a place that accepts `step.failed`"),
        (step("a", "start", "stop").fans_into(&[0]), "`a` fans out into a place that does not join fan-outs"),
        (
            step("a", "start", "stop").join(every("", None, SurplusPolicy::Keep)),
            "`a` must accept exactly the events that its join needs",
        ),
        (
            step("a", "start", "stop").join(every("start b", None, SurplusPolicy::Keep)),
            "`a` must accept exactly the events that its join needs",
        ),
        (
            step("a", "start b", "stop").join(every("b", None, SurplusPolicy::Keep)),
            "`a` must accept exactly the events that its join needs",
        ),
    ];
    for (step, expected) in cases {
        let plan = steps(vec![step]).plan;
        let refused = Program::load(plan, &[&language::TestLanguage], windlass_core::Limits::default());
        assert_eq!(refused.err().map(|error| error.0), Some(expected.to_owned()));
    }
}

// Proven hangs.

#[test]
fn a_proven_hang_names_what_is_missing() {
    let pair = |join: Join| step("pair", "A B", "stop").join(join);
    let keep_surplus = |key| every("A B", key, SurplusPolicy::Keep);
    let first = || step("first", "start", "A B C");
    // The steps after the first; what the first returns; the expected error, if any.
    let cases: Vec<(Vec<Step>, &str, &str)> = vec![
        (vec![pair(keep_surplus(None))], "A 1", "`pair` waits for `B` of `first`"),
        (vec![pair(Join::All)], "A 1", "`pair` waits for a token of `first`"),
        (vec![pair(keep_surplus(Some("k")))], r#"A {"k": 7}"#, "`pair` waits for `B` of `first` where `k` is 7"),
        (vec![pair(keep_surplus(None))], "", "no `stop` of `pair` was emitted"),
        (vec![pair(keep_surplus(None))], "[A 1]", "`pair` waits for `B` of `first`; the fan-out of `first` stays open"),
        // An external event can help: with the stop kind, with the missing kind, with a kind that leads to it.
        (vec![pair(keep_surplus(None)), step("late", "reply", "stop")], "", ""),
        (vec![pair(keep_surplus(None)), step("late", "reply", "B")], "A 1", ""),
        (vec![step("pair", "A D", "stop").join(every("A D", None, SurplusPolicy::Keep))], "A 1", ""),
        (vec![pair(keep_surplus(None)), step("late", "reply", "C"), step("next", "C", "B")], "A 1", ""),
        (
            vec![pair(keep_surplus(None)), step("late", "reply", "C").handler(3, 1), step("next", FAILED_KIND, "B")],
            "A 1",
            "",
        ),
        (vec![pair(keep_surplus(None)), step("note", "reply", "")], "A 1", ""),
        // External events are possible, but none of them helps.
        (
            vec![pair(keep_surplus(None)), step("late", "reply", "A")],
            "",
            "no `stop` of `pair` was emitted; no outside event (`reply`) can resolve this",
        ),
        (
            vec![pair(keep_surplus(None)), step("late", "reply", "A"), step("spare", "A", "C")],
            "A 1",
            "`pair` waits for `B` of `first`; no outside event (`reply`) can resolve this",
        ),
    ];
    for (after, gives, expected) in cases {
        let names: Vec<String> = after.iter().map(|step| step.place.name.to_string()).collect();
        let program = steps([first()].into_iter().chain(after).collect()).load();
        let mut sim = begun(&program);
        complete_oldest(&mut sim, "first", gives);
        if names.contains(&"spare".to_owned()) {
            complete_oldest(&mut sim, "spare", "");
        }
        let error_text = sim.ended().then(|| failure(&sim)).map(|error| {
            assert_eq!(&*error.code, "Hang");
            error.message.to_string()
        });
        let expected = (!expected.is_empty()).then(|| format!("nothing is left to do, and {expected}"));
        assert_eq!(error_text, expected, "{names:?} {gives}");
    }
}

#[test]
fn a_body_that_waits_is_no_hang() {
    let program = steps(vec![step("first", "start", "A").retries(retry(2, secs(9)))]).load();
    let mut sim = begun(&program);
    sim.fail("first");
    assert!(!sim.ended(), "it is going to be tried again");
    sim.advance(secs(9)).fail("first");
    assert!(sim.ended());
}

#[test]
fn a_suspended_step_resumes_with_the_output_of_another() {
    use windlass_core::{SuspendedOn, Suspension};
    let program =
        steps(vec![step("first", "start", "stop"), step("other", "start", "news"), step("reader", "news", "stop")])
            .load();
    let mut sim = begun(&program);
    let awaited = SuspendedOn::Event {
        name: "news".into(),
        requirements: json(r#"{"n": 2}"#),
        deadline: None,
        announcement: None,
    };
    let suspension = Some(Box::new(Suspension { waits_for: awaited, published_events: 0 }));
    sim.reply("first", TaskOutcome { suspension, ..TaskOutcome::success(Value::Null) });
    sim.reply("other", sending(&[r#"news {"n": 1}"#], r#"news {"n": 2}"#));
    assert_eq!(sim.open_paths(), ["first", "reader"], "and a step that accepts it gets it as well");
    let resumed = sim.dispatched.iter().rfind(|job| &**job.path() == "first").unwrap();
    let answers = &resumed.resumed.as_ref().unwrap().answers;
    assert_eq!(answers[0].value, json(r#"{"n": 2}"#));
}

#[test]
fn an_event_from_another_step_that_precedes_its_wait_is_buffered() {
    use windlass_core::{SuspendedOn, Suspension};
    let program = steps(vec![step("first", "start", "stop"), step("other", "start", "later news")]).load();
    let mut sim = begun(&program);
    sim.reply("other", sending(&[r#"later {"n": 1}"#, r#"news {"n": 2}"#], r#"later {"n": 3}"#));
    let reasons = event_lines(&sim, "event.unhandled", &["event", "reason"]);
    assert_eq!(
        reasons.iter().map(|one| one.trim()).collect::<Vec<_>>(),
        [
            "event=later reason=no node waits for it yet; it is buffered",
            "event=news reason=no step accepts it",
            "event=later reason=no node waits for it yet; it is buffered"
        ]
    );
    for _ in 0..2 {
        let awaited =
            SuspendedOn::Event { name: "later".into(), requirements: Value::Null, deadline: None, announcement: None };
        let suspension = Some(Box::new(Suspension { waits_for: awaited, published_events: 0 }));
        sim.reply("first", TaskOutcome { suspension, ..TaskOutcome::success(Value::Null) });
    }
    let resumed = sim.dispatched.iter().rfind(|job| &**job.path() == "first").unwrap();
    let answers: Vec<Value> = resumed.resumed.as_ref().unwrap().answers.iter().map(|one| one.value.clone()).collect();
    assert_eq!(answers, [json(r#"{"n": 1}"#), json(r#"{"n": 3}"#)]);
    assert_eq!(sim.count("workflow.idle"), 0);
}
