//! Workflows in Rust for golden journals, by name. Their steps are never called: the script provides their results.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::{All, BuildError, Collect, Context, Event, RetryPolicy, StepError, StepFailed, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "item")]
struct Item {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "worked")]
struct Worked {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "price")]
struct Price {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "question", input_required)]
struct Question {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "answer", human_response)]
struct Answer {
    n: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    n: u64,
}

pub(crate) fn build(name: &str) -> Workflow {
    let workflow = match name {
        "collect" => collect(),
        "fan_out" => fan_out(),
        "handler" => handler(),
        "questions" => questions(),
        other => panic!("no workflow is called {other}"),
    };
    workflow.unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// One event becomes several, each is processed with retries, and all of them are joined.
fn fan_out() -> Result<Workflow, BuildError> {
    Workflow::builder("fan_out")
        .step("split", |_: Begin| async { Ok::<_, StepError>(vec![Item { n: 1 }]) })
        .step("work", |item: Item| async move { Ok::<_, StepError>(Worked { n: item.n }) })
        .workers(2)
        .retry(RetryPolicy::fixed(Duration::from_secs(1)).attempts(3))
        .step("gather", |all: All<Worked>| async move { Ok::<_, StepError>(Done { n: all.len() as u64 }) })
        .build()
}

/// Two kinds of events are joined by a field.
fn collect() -> Result<Workflow, BuildError> {
    Workflow::builder("collect")
        .step("split", |_: Begin| async { Ok::<_, StepError>(vec![Item { n: 1 }]) })
        .step("work", |item: Item| async move { Ok::<_, StepError>(Worked { n: item.n }) })
        .step("price", |item: Item| async move { Ok::<_, StepError>(Price { n: item.n }) })
        .step("pair", |both: Collect<(Worked, Price)>| async move {
            let (worked, price) = both.0;
            Ok::<_, StepError>((worked.n + price.n > 5).then_some(Done { n: 1 }))
        })
        .key("n")
        .build()
}

/// A step that has exhausted its retries hands its failure to another step.
fn handler() -> Result<Workflow, BuildError> {
    Workflow::builder("handler")
        .timeout(Duration::from_secs(3600))
        .step("work", |begin: Begin| async move { Ok::<_, StepError>(Done { n: begin.n }) })
        .timeout(Duration::from_secs(5))
        .retry(RetryPolicy::fixed(Duration::from_secs(10)).attempts(2))
        .on_failure("rescue", |_: StepFailed| async { Ok::<_, StepError>(Done { n: 0 }) })
        .build()
}

/// A step that asks a person, sleeps, and calls a child.
fn questions() -> Result<Workflow, BuildError> {
    Workflow::builder("questions")
        .timeout(Duration::from_secs(60))
        .step("ask", |ctx: Context, begin: Begin| async move {
            let answer = ctx.wait_for::<Answer>().asking(Question { n: begin.n }).await?;
            Ok::<_, StepError>(Done { n: answer.n })
        })
        .build()
}
