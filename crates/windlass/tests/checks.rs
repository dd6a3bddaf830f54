//! Checks of the build: all problems are reported together, each with its code, a message and a hint.

use serde::{Deserialize, Serialize};
use windlass::{
    All, BuildError, Check, Collect, Context, Event, Events, Res, StepError, StepFailed, Surplus, Workflow,
    WorkflowBuilder,
};

macro_rules! events {
    ($($type:ident = $name:literal $(, $kind:ident)?;)+) => {
        $(#[derive(Event, Serialize, Deserialize)]
        #[event(name = $name $(, $kind)?)]
        struct $type;)+
    };
}

events! {
    Begin = "begin", start;
    Other = "other", start;
    A = "a";
    B = "b";
    C = "c";
    Again = "a";
    Own = "step.done";
    Asked = "asked", input_required;
    Answered = "answered", human_response;
    Done = "done", stop;
    Ended = "ended", stop;
}

#[derive(Events)]
enum Either {
    A(A),
    Done(Done),
}

#[derive(Default, Serialize, Deserialize)]
struct One {
    n: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Two {
    n: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Bare(u64);

macro_rules! step {
    ($accepted:ty => $given:ty) => {
        |_: $accepted| async { Err::<$given, _>(StepError::new("Never", "not run here")) }
    };
}

fn named(name: &str) -> WorkflowBuilder {
    Workflow::builder(name)
}

/// A complete workflow, from the start to the stop event.
fn complete() -> WorkflowBuilder {
    named("w").step("whole", step!(Begin => Done)).workflow()
}

fn problems(built: Result<Workflow, BuildError>) -> Vec<(&'static str, String)> {
    let error = match built {
        Ok(_) => return Vec::new(),
        Err(error) => error,
    };
    for problem in &error.problems {
        assert!(!problem.hint.is_empty(), "{problem}");
    }
    error.problems.into_iter().map(|problem| (problem.code, problem.message)).collect()
}

/// One case per line: the workflow, and the code and the message of each problem.
#[test]
fn each_problem_has_a_code_and_a_sentence() {
    let table: Vec<(WorkflowBuilder, Vec<(&str, &str)>)> = vec![
        (complete(), vec![]),
        (named("w"), vec![("no_steps", "it has no steps")]),
        (
            named("a b").step("x", step!(Begin => Done)).workflow(),
            vec![("name", "`a b` cannot be the name of a workflow")],
        ),
        (named("w").step("x/y", step!(Begin => Done)).workflow(), vec![("name", "`x/y` cannot be the name of a step")]),
        (
            complete().step("whole", step!(Begin => Done)).workflow(),
            vec![("duplicate_step", "two steps are called `whole`")],
        ),
        (named("w").step("x", step!(Answered => Done)).workflow(), vec![("no_start", "no step accepts a start event")]),
        (
            complete().step("x", step!(Other => Done)).workflow(),
            vec![("many_starts", "there is more than one start event, accepted: `begin`, `other`")],
        ),
        (
            named("w").step("x", step!(Begin => Asked)).workflow(),
            vec![("no_stop", "no step returns or sends a stop event")],
        ),
        (
            complete().step("x", step!(Begin => Ended)).workflow(),
            vec![("many_stops", "there is more than one stop event, produced: `done`, `ended`")],
        ),
        (
            complete().step("x", step!(Done => Done)).workflow(),
            vec![("accepts_stop", "the step `x` accepts the stop event `done`")],
        ),
        (
            complete().step("x", step!(A => Done)).workflow(),
            vec![("never_produced", "the step `x` accepts `a`, which no step produces")],
        ),
        (
            named("w").step("x", step!(Begin => Option<Done>)).sends::<A>().workflow(),
            vec![("never_consumed", "the step `x` produces `a`, which no step accepts")],
        ),
        // A step that waits for an event consumes it; a question and its answer need no step inside.
        (
            named("w")
                .step("x", step!(Begin => Done))
                .sends::<A>()
                .step("y", step!(Begin => Done))
                .waits::<A>()
                .workflow(),
            vec![],
        ),
        (named("w").step("x", step!(Begin => Asked)).step("y", step!(Answered => Done)).workflow(), vec![]),
        (named("w").step("x", step!(Begin => A)).step("y", step!(Begin => Done)).waits::<A>().workflow(), vec![]),
        (
            complete().step("x", step!(A => B)).step("y", step!(B => Either)).workflow(),
            vec![
                ("unreachable", "the step `x` can never run: nothing leads to it from the start"),
                ("unreachable", "the step `y` can never run: nothing leads to it from the start"),
            ],
        ),
        (
            named("w").step("x", step!(Begin => Either)).step("y", step!(A => B)).step("z", step!(B => A)).workflow(),
            vec![
                ("dead_end", "the step `y` is a dead end: nothing that it produces leads to the run's end"),
                ("dead_end", "the step `z` is a dead end: nothing that it produces leads to the run's end"),
            ],
        ),
        (
            named("w").step("x", step!(Begin => A)).step("y", step!(All<A> => Done)).workflow(),
            vec![("join", "the step `y` waits for all: `a` of a fan-out, and none leads there")],
        ),
        (
            named("w")
                .step("x", step!(Begin => Vec<A>))
                .step("y", step!(A => B))
                .step("z", step!(All<B> => Done))
                .workflow(),
            vec![],
        ),
        (
            complete().step("x", step!(Begin => A)).step("y", step!(Collect<(A, B)> => Done)).workflow(),
            vec![("join", "the step `y` collects `b`, which no step produces, so the join can never be complete")],
        ),
        (
            named("w")
                .step("x", step!(Begin => Either))
                .step("y", step!(A => Done))
                .key("n")
                .surplus(Surplus::Drop)
                .workflow(),
            vec![("options", "the step `y` has a `key` or a `surplus` and collects nothing")],
        ),
        (
            named("w").step("x", step!(Begin => Done)).workers(0).workflow(),
            vec![("workers", "the step `x` has no workers: it would never run")],
        ),
        (
            named("w").step("x", |_: Begin, _: Answered| async { Ok(Done) }).workflow(),
            vec![("parameters", "the step `x` has 2 event parameters")],
        ),
        (
            named("w").step("x", |_: Context| async { Ok(Done) }).workflow(),
            vec![("parameters", "the step `x` has 0 event parameters"), ("no_start", "no step accepts a start event")],
        ),
        (
            named("w").step("x", step!(Begin => A)).step("y", step!(Again => Done)).workflow(),
            vec![(
                "duplicate_event",
                "two types have the event name `a`: `suite::checks::A` and `suite::checks::Again`",
            )],
        ),
        (
            named("w").step("x", step!(Begin => Own)).step("y", step!(Own => Done)).workflow(),
            vec![("reserved_event", "the event name `step.done` is reserved by the engine")],
        ),
        (
            named("w").step("x", |_: Begin, _: Res<One>| async { Ok(Done) }).resource(Two::default()),
            vec![(
                "missing_resource",
                "the step `x` takes the resource `suite::checks::One`, which the workflow does not have",
            )],
        ),
        (
            named("w")
                .step("x", |_: Begin, _: Context<One>| async { Ok(A) })
                .step("y", |_: A, _: Context<Two>| async { Ok(Done) })
                .workflow(),
            vec![("state", "`x` has the state `suite::checks::One`, and `y` has `suite::checks::Two`")],
        ),
        (
            named("w").step("x", |_: Begin, _: Context<Bare>| async { Ok(Done) }).workflow(),
            vec![(
                "state",
                "StateNotAnObject: the state `suite::checks::Bare` is serialized as integer, not as an object (make it a struct with named fields)",
            )],
        ),
    ];
    for (number, (builder, expected)) in table.into_iter().enumerate() {
        let found = problems(builder.build());
        let found: Vec<(&str, &str)> = found.iter().map(|(code, message)| (*code, message.as_str())).collect();
        assert_eq!(found, expected, "case {number}");
    }
}

#[test]
fn handlers_have_rules() {
    let failure = || step!(StepFailed => Done);
    let table: Vec<(WorkflowBuilder, Vec<&str>)> = vec![
        (complete().on_failure("h", failure()).times(2).workflow(), vec![]),
        (
            complete().on_failure("h", failure()).for_steps(["whole"]).on_failure("rest", failure()).workflow(),
            vec!["the error handler `rest` handles no step that can run"],
        ),
        (
            complete().on_failure("h", failure()).on_failure("g", failure()).workflow(),
            vec!["`h` and `g` both handle all steps", "the error handler `g` handles no step that can run"],
        ),
        (
            complete().on_failure("h", failure()).for_steps(["whale"]).workflow(),
            vec![
                "the error handler `h` handles `whale`, which is not a step",
                "the error handler `h` handles no step that can run",
            ],
        ),
        (
            complete().on_failure("h", failure()).on_failure("g", failure()).for_steps(["h"]).workflow(),
            vec![
                "the error handler `g` handles `h`, which is a handler itself",
                "the error handler `g` handles no step that can run",
            ],
        ),
        (
            complete()
                .on_failure("h", failure())
                .for_steps(["whole"])
                .on_failure("g", failure())
                .for_steps(["whole"])
                .workflow(),
            vec!["`h` and `g` both handle `whole`", "the error handler `g` handles no step that can run"],
        ),
        (complete().on_failure("h", failure()).times(0).workflow(), vec!["the error handler `h` may never run"]),
        (
            complete().on_failure("h", step!(Begin => Done)).workflow(),
            vec!["the error handler `h` does not take a failure"],
        ),
        (
            complete().step("h", failure()).workflow(),
            vec![
                "the step `h` takes failures but is not an error handler",
                "the step `h` can never run: nothing leads to it from the start",
            ],
        ),
    ];
    for (number, (builder, expected)) in table.into_iter().enumerate() {
        let found: Vec<String> = problems(builder.build()).into_iter().map(|(_, message)| message).collect();
        assert_eq!(found, expected, "case {number}");
    }
}

#[test]
fn all_problems_are_reported_together_and_some_can_be_allowed() {
    let several = || named("w").step("x", step!(Begin => Either)).step("y", step!(A => ())).step("z", step!(B => C));
    let error = several().build().unwrap_err();
    let codes: Vec<&str> = error.problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["never_produced", "never_consumed", "dead_end"]);
    let text = error.to_string();
    assert!(
        text.starts_with("the workflow `w` cannot be built, for 3 reasons:\n  never_produced [WND-1422]: the step `z`"),
        "{text}"
    );
    assert!(text.contains("if this is intended, allow it: `allow = [\"dead_end\"]`"), "{text}");
    let fewer = several().allow(Check::NeverProduced).allow(Check::NeverConsumed).build().unwrap_err();
    assert_eq!(fewer.problems.len(), 1);
    let checks = [Check::NeverProduced, Check::NeverConsumed, Check::DeadEnd];
    let all = checks.into_iter().fold(several().workflow(), WorkflowBuilder::allow);
    assert!(all.build().is_ok());
}

struct Macros;

#[windlass::workflow(name = "macros", allow = ["unreachable"])]
impl Macros {
    #[step(sends = [A], allow = ["never_consumed"])]
    async fn begin(&self, _begin: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(waits(Answered))]
    async fn never(_b: B) -> Result<B, StepError> {
        Ok(B)
    }

    #[on_failure(of = [begin], times = 3)]
    async fn rescue(&self, _failed: StepFailed) -> Result<Option<Done>, StepError> {
        Ok(None)
    }
}

#[test]
fn macros_match_the_builder() {
    let workflow = Macros.into_workflow().build().unwrap();
    let text = "workflow macros\n\
                begin(begin) -> done  workers 4  sends a\n\
                never(b) -> b  workers 4  waits answered\n\
                rescue(failure of begin) -> done  workers 4  times 3\n";
    assert_eq!(workflow.text(), text);
}
