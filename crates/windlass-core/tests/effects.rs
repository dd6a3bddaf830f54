//! Effects with a computed tool name, operations of more than one call, rules that set a step's failure, and replies.

use crate::support;

use support::*;
use windlass_core::plan::*;
use windlass_core::state::Phase;
use windlass_core::{ErrorInfo, Limits, NextCall, Program, Status, TaskOutcome, TickKind, frame_tree};
use windlass_value::{Duration, Value};

fn begun(program: &Program) -> Sim<'_> {
    let mut sim = Sim::new(program, Box::new(|_, _, _| Reply::Never));
    sim.start().drain_buffer();
    sim
}

fn single_task(make: impl FnOnce(&mut Builder) -> Task) -> Program {
    let mut b = Builder::new();
    b.node(None, "step", |b, _| NodeKind::Pipeline(Pipeline { tasks: vec![make(b)] }));
    b.load()
}

/// One effect with the input 1 and this number of attempts.
fn effect(attempts: u64) -> Program {
    single_task(|b| Task { retry: Some(retry(attempts, secs(1))), ..Task::new(b.action("1")) })
}

fn unfinished(input: i64, after: Duration) -> TaskOutcome {
    TaskOutcome::call_again(input, after)
}

fn lost() -> TaskOutcome {
    TaskOutcome::failure(ErrorInfo::new("lost", "connection", "no reply"))
}

fn error(sim: &Sim) -> (String, String, String) {
    let error = sim.result().error.clone().expect("an error");
    (error.code.to_string(), error.kind.to_string(), error.message.to_string())
}

/// Returns what was sent: input, attempt, and the key's group and call.
fn sent(sim: &Sim) -> Vec<(Value, u32, u32, u32)> {
    sim.dispatched.iter().map(|job| (job.input.clone(), job.attempt, job.key.group, job.key.call)).collect()
}

fn int(number: i64) -> Value {
    Value::Int(number)
}

// Computed names.

fn computed(name: &str, attempts: u64) -> Program {
    let among = ["post", "get"].map(Into::into).to_vec();
    single_task(|b| {
        let tool = ToolName::Computed { computed: b.expr(name), among };
        let task = Task::new(Action::Effect(Effect::new(tool, b.expr("1"))));
        Task { retry: Some(retry(attempts, secs(1))), ..task }
    })
}

#[test]
fn a_computed_name_is_the_tool_that_is_called() {
    let program = computed(r#""get""#, 1);
    let sim = begun(&program);
    assert_eq!(&*sim.dispatched[0].tool, "get");
    assert_eq!(sim.events_of("task.started")[0].data.get("tool"), Some(&"get".into()));
}

#[test]
fn a_computed_name_reaches_only_what_is_allowed() {
    let cases = [
        (r#""delete""#, r#"there is no tool "delete"; available tools: post, get"#),
        (r#""Get""#, r#"there is no tool "Get"; available tools: post, get"#),
        ("7", "a tool's name must be a text, not integer 7; available tools: post, get"),
        ("null", "a tool's name must be a text, not null null; available tools: post, get"),
    ];
    for (name, message) in cases {
        let program = computed(name, 1);
        let sim = begun(&program);
        assert_eq!(sim.status(), Status::Failed);
        assert_eq!(error(&sim), ("NoSuchTool".to_owned(), "tool".to_owned(), message.to_owned()));
        assert!(sim.dispatched.is_empty());
    }
}

#[test]
fn a_long_list_of_tools_is_truncated() {
    let program = single_task(|b| {
        let among = (0..100).map(|number| format!("t{number}").into()).collect();
        let tool = ToolName::Computed { computed: b.expr(r#""x""#), among };
        Task::new(Action::Effect(Effect::new(tool, b.expr("1"))))
    });
    assert!(error(&begun(&program)).2.ends_with("t18, t19 and 80 more"));
}

#[test]
fn a_disallowed_name_is_an_ordinary_failure() {
    let program = computed(r#""delete""#, 3);
    let mut sim = begun(&program);
    sim.advance(secs(10));
    assert_eq!((sim.status(), sim.count("task.retrying")), (Status::Failed, 2));
}

/// The name is random: a repeated send under one key goes to the same tool.
#[test]
fn a_computed_name_is_evaluated_once_for_a_key() {
    let random = |b: &mut Builder| {
        let tools = (0..50).map(|length| "x".repeat(length).into()).collect();
        let computed = b.expr(r#"{"$text": {"$random": 50}}"#);
        ToolName::Computed { computed, among: tools }
    };
    let program = single_task(|b| {
        let tool = random(b);
        let task = Task::new(Action::Effect(Effect::new(tool, b.expr("1"))));
        Task { retry: Some(retry(9, secs(1))), ..task }
    });
    let mut sim = begun(&program);
    sim.reply("step", lost()).advance(secs(1)).tick(TickKind::Restart { lived: windlass_value::Duration::ZERO });
    sim.reply("step", unfinished(2, secs(1))).advance(secs(1)).reply("step", lost()).advance(secs(1));
    assert_eq!(sim.dispatched.len(), 5);
    assert!(sim.dispatched.iter().all(|job| job.tool == sim.dispatched[0].tool), "one key, one tool");
    for _ in 0..5 {
        sim.fail("step").advance(secs(1));
    }
    assert!(sim.dispatched.iter().any(|job| job.tool != sim.dispatched[0].tool), "another key, another choice");
}

// Operations of more than one call.

#[test]
fn an_operation_continues_after_a_timer_with_the_input_the_tool_returned() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(60)));
    assert!(sim.state.jobs.is_empty() && sim.state.is_quiet(), "no worker is held");
    assert!(!sim.state.is_idle(), "but there is work to come");
    assert_eq!(frame_tree(&program, &sim.state)[0].activity, "waiting");
    let waiting = sim.events_of("task.waiting")[0];
    assert_eq!(waiting.data, json(r#"{"task": "", "attempt": 1, "until": "1970-01-01T00:01:00.000Z"}"#));
    sim.advance(secs(59));
    assert_eq!(sim.dispatched.len(), 1);
    sim.advance(secs(1)).reply("step", unfinished(3, Duration::ZERO)).advance(Duration::ZERO).succeed("step", "done");
    assert_eq!((sim.status(), sim.output()), (Status::Succeeded, "done".into()));
    assert_eq!(sent(&sim), [(int(1), 1, 0, 0), (int(2), 1, 0, 1), (int(3), 1, 0, 2)]);
    assert_eq!(sim.count("task.processed"), 1);
}

#[test]
fn the_node_input_is_the_first_call_input() {
    let mut b = Builder::new();
    b.sequence(None, "all", |b, parent| {
        let step = b.effect(parent, "step", "1");
        vec![step, b.evaluate(parent, "seen", r#"{"$inputs": "step"}"#)]
    });
    let program = b.load();
    let mut sim = begun(&program);
    sim.reply("all.step", unfinished(2, secs(1))).advance(secs(1)).succeed("all.step", 3i64);
    assert_eq!(sim.end_of("all.seen"), Some(("succeeded".into(), int(1))));
}

/// A lost call keeps its key, so that the receiver can recognize it. A refused call begins a new operation.
#[test]
fn a_retry_restarts_the_operation() {
    let program = effect(9);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(1))).advance(secs(1)).reply("step", lost()).advance(secs(1));
    sim.reply("step", unfinished(4, secs(1))).advance(secs(1)).fail("step").advance(secs(1));
    sim.reply("step", unfinished(5, secs(1))).advance(secs(1)).succeed("step", 6i64);
    let first = [(int(1), 1, 0, 0), (int(2), 1, 0, 1)];
    let lost = [(int(1), 2, 0, 0), (int(4), 2, 0, 2)];
    let refused = [(int(1), 3, 1, 0), (int(5), 3, 1, 1)];
    assert_eq!(sent(&sim), [first, lost, refused].concat());
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn an_error_takes_precedence_over_a_continuation() {
    let program = effect(1);
    let mut sim = begun(&program);
    let again = Some(NextCall { input: int(2), after: secs(1) });
    sim.reply("step", TaskOutcome { next_call: again, ..lost() });
    assert_eq!((sim.status(), sim.count("task.waiting")), (Status::Failed, 0));
}

#[test]
fn late_reports_change_nothing() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.tick(TickKind::LeaseLost { job: 0, lease_epoch: 0 });
    sim.tick(TickKind::StepResult { job: 0, lease_epoch: 0, outcome: unfinished(2, secs(1)) });
    assert_eq!((sim.count("task.waiting"), sim.count("job.refused")), (0, 1));
    sim.reply("step", unfinished(2, secs(5)));
    // The first worker and its successor report once more while the operation continues.
    for lease_epoch in [0, 1] {
        sim.tick(TickKind::StepResult { job: 0, lease_epoch, outcome: unfinished(9, secs(1)) });
        sim.tick(TickKind::LeaseLost { job: 0, lease_epoch });
    }
    sim.advance(secs(5));
    assert_eq!((sim.dispatched.len(), sim.count("task.waiting")), (3, 1));
    assert_eq!(sim.flights[0].job.input, int(2));
}

#[test]
fn a_lost_later_call_is_repeated_unchanged() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(1))).advance(secs(1));
    let job = sim.flights[0].job.clone();
    sim.tick(TickKind::LeaseLost { job: job.job, lease_epoch: job.lease_epoch });
    sim.restart();
    let calls: Vec<_> = sim.dispatched[1..].iter().map(|job| (job.key.clone(), job.input.clone())).collect();
    assert_eq!(calls, vec![(job.key, job.input); 3]);
    sim.succeed("step", "done");
    assert_eq!(sim.status(), Status::Succeeded);
}

#[test]
fn a_restart_while_waiting_keeps_the_timer() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(60))).advance(secs(30)).restart();
    sim.advance(secs(29));
    assert_eq!(sim.dispatched.len(), 1);
    sim.advance(secs(1));
    assert_eq!(sent(&sim)[1], (int(2), 1, 0, 1));
}

#[test]
fn a_pause_holds_the_next_call_back() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(1))).tick(TickKind::Pause { request: None }).advance(secs(60));
    assert_eq!(sim.dispatched.len(), 1);
    sim.tick(TickKind::Resume { request: None });
    assert_eq!(sim.dispatched.len(), 2);
}

#[test]
fn cancellation_and_timeout_end_the_wait() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(60))).cancel();
    assert_eq!(sim.status(), Status::Cancelled);

    let mut b = Builder::new();
    let step = b.effect(None, "step", "1");
    b.node_mut(step).timeout = Some(NodeTimeout { after: Amount::Fixed(secs(90)), status: Status::TimedOut });
    let program = b.load();
    let mut sim = begun(&program);
    sim.reply("step", unfinished(2, secs(60)))
        .advance(secs(60))
        .reply("step", unfinished(3, secs(60)))
        .advance(secs(60));
    assert_eq!((sim.status(), sim.dispatched.len()), (Status::TimedOut, 2));
}

#[test]
fn an_endless_operation_reaches_the_limit() {
    let mut b = Builder::new();
    b.effect(None, "step", "1");
    let program = b.load_with(Limits { max_pipeline_task_runs: 5, ..Limits::default() });
    let mut sim = Sim::new(&program, Box::new(|_, _, _| Reply::After(Duration::ZERO, unfinished(2, Duration::ZERO))));
    sim.start().run();
    assert_eq!((sim.status(), error(&sim).0.as_str()), (Status::Failed, "TaskRunsExceeded"));
    assert_eq!(sim.dispatched.len(), 5);
}

#[test]
fn a_large_input_of_a_later_call_is_stored_outside_the_state() {
    let mut b = Builder::new();
    b.effect(None, "step", "1");
    let program = b.load_with(Limits { max_inline_bytes: 100, ..Limits::default() });
    let mut sim = begun(&program);
    sim.reply("step", TaskOutcome::call_again("x".repeat(1_000), secs(1))).advance(secs(1));
    assert!(matches!(sim.flights[0].job.input, Value::Stored(_)));
}

// Rules that set a step's failure.

#[test]
fn a_rule_sets_the_error_of_the_step() {
    let error_of_it = r#"{"code": "Quota", "message": {"$get": [{"$var": "outcome"}, "result"]}}"#;
    let cases = [
        (Status::Failed, Some(error_of_it), "Quota", "too much"),
        (Status::TimedOut, Some(error_of_it), "Quota", "too much"),
        (Status::Cancelled, Some(r#"{"code": "Stop"}"#), "Stop", "a rule fails the step"),
        (Status::TimedOut, None, "RuleFailed", "a rule fails the step"),
    ];
    for (status, expression, code, message) in cases {
        let program = single_task(|b| {
            let error = expression.map(|text| b.expr(text));
            Task { rules: vec![rule(None, Directive::Fail { status, error })], ..Task::new(b.action("1")) }
        });
        let mut sim = begun(&program);
        sim.succeed("step", "too much");
        assert_eq!(sim.status(), status);
        assert_eq!(error(&sim), (code.to_owned(), "rule".to_owned(), message.to_owned()));
    }
}

#[test]
fn a_rule_without_an_error_keeps_the_tasks_error() {
    let program = single_task(|b| {
        let directive = Directive::Fail { status: Status::TimedOut, error: None };
        Task { rules: vec![rule(None, directive)], ..Task::new(b.action("1")) }
    });
    let mut sim = begun(&program);
    sim.fail("step");
    assert_eq!((sim.status(), error(&sim).0.as_str()), (Status::TimedOut, "500"));
}

#[test]
fn a_rule_cannot_fail_a_step_with_success() {
    let mut b = Builder::new();
    b.node(None, "step", |b, _| {
        let directive = Directive::Fail { status: Status::Succeeded, error: None };
        let task = Task { rules: vec![rule(None, directive)], ..Task::new(b.action("1")) };
        NodeKind::Pipeline(Pipeline { tasks: vec![task] })
    });
    let problem = Program::load(b.plan, &[&language::TestLanguage], Limits::default()).err().expect("refused");
    assert!(problem.to_string().contains("`step`"), "{problem}");
}

// Replies.

fn replying(success: Option<&str>, times: usize) -> Program {
    let mut b = Builder::new();
    b.sequence(None, "all", |b, parent| {
        let reply = |b: &mut Builder, number: usize| {
            let action =
                Action::Reply { value: b.expr(r#"{"n": 1}"#), success: success.map(|text| b.condition(json(text))) };
            b.node(parent, &format!("reply{number}"), |_, _| NodeKind::single_task(action))
        };
        let mut nodes: Vec<_> = (0..times).map(|number| reply(b, number)).collect();
        nodes.push(b.effect(parent, "after", "2"));
        nodes
    });
    b.load()
}

#[test]
fn a_reply_is_published_and_the_run_continues() {
    for (success, is_published) in [(None, true), (Some("true"), true), (Some("false"), false)] {
        let program = replying(success, 1);
        let mut sim = begun(&program);
        assert_eq!(sim.state.phase, Phase::Running);
        assert_eq!(sim.end_of("all.reply0"), Some(("succeeded".into(), json(r#"{"n": 1}"#))));
        let event = sim.events_of("run.replied")[0];
        assert_eq!(event.data, Value::object([("reply", json(r#"{"n": 1}"#)), ("success", Value::Bool(is_published))]));
        sim.succeed("all.after", 3i64);
        let reply = sim.result().reply.clone().expect("the end knows of it");
        assert_eq!((reply.value, reply.success), (json(r#"{"n": 1}"#), is_published));
    }
}

#[test]
fn a_second_reply_fails_its_task() {
    let program = replying(None, 2);
    let mut sim = begun(&program);
    assert_eq!(sim.count("run.replied"), 1);
    let failed = sim.events_of("step.failed")[0];
    assert_eq!(failed.data.get("error").and_then(|error| error.get("code")), Some(&"AlreadyReplied".into()));
    assert!(failed.data.get("error").and_then(|error| error.get("hint")).is_some());
    sim.succeed("all.after", 3i64);
    assert!(sim.result().reply.is_some());
}

#[test]
fn a_null_condition_gives_no_reply() {
    let program = replying(Some("7"), 1);
    let sim = begun(&program);
    assert_eq!((sim.count("run.replied"), sim.state.reply.is_none()), (0, true));
    assert_eq!(sim.paths("step.failed"), ["all.reply0"]);
}

#[test]
fn a_run_without_a_reply_has_none() {
    let program = effect(1);
    let mut sim = begun(&program);
    sim.succeed("step", 1i64);
    assert_eq!(sim.result().reply, None);
}

#[test]
fn the_caller_cancels_only_runs_that_have_not_replied() {
    for (replies, by_caller, ended) in [(0, true, true), (1, true, false), (1, false, true)] {
        let program = replying(None, replies);
        let mut sim = begun(&program);
        sim.tick(TickKind::CancelRun { reason: "enough".into(), request: None, by_caller });
        assert_eq!(sim.state.decided_end.is_some(), ended, "{replies} replies, by caller: {by_caller}");
    }
}

#[test]
fn a_bad_reply_is_a_failed_call() {
    let reply = |success| windlass_core::RunReply { value: "no".into(), success };
    let (status, outcome) = reply(true).call_result();
    assert_eq!((status, outcome), (Status::Succeeded, TaskOutcome::success("no")));
    let (status, outcome) = reply(false).call_result();
    let error = outcome.error.expect("an error");
    assert_eq!((status, &*error.code, outcome.output), (Status::Failed, "ChildReplied", "no".into()));
    assert!(error.message.contains("\"no\""), "{}", error.message);
}
