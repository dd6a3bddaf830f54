//! The parts of a workflow, executed by an in-memory engine.

use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Events, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    iterations: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "iteration")]
struct Iteration {
    left: u64,
    done: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    iterations: u64,
}

#[derive(Events)]
enum Next {
    Iteration(Iteration),
    Done(Done),
}

struct Looping;

#[windlass::workflow(name = "looping")]
impl Looping {
    #[step]
    async fn begin(&self, begin: Begin) -> Result<Iteration, StepError> {
        Ok(Iteration { left: begin.iterations, done: 0 })
    }

    #[step(workers = 1)]
    async fn iterate(&self, _ctx: Context, iteration: Iteration) -> Result<Next, std::num::ParseIntError> {
        Ok(match iteration.left {
            0 => Done { iterations: iteration.done }.into(),
            left => Iteration { left: left - 1, done: iteration.done + 1 }.into(),
        })
    }
}

#[tokio::test]
async fn a_loop() {
    let workflow = Looping.into_workflow().build().unwrap();
    assert_eq!(
        workflow.text(),
        "workflow looping\nbegin(begin) -> iteration  workers 4\niterate(iteration) -> iteration | done  workers 1\n"
    );
    assert_eq!(workflow.run::<Done>(Begin { iterations: 100 }).await.unwrap(), Done { iterations: 100 });
}

#[tokio::test]
async fn the_same_by_hand() {
    let workflow = Workflow::builder("looping")
        .step("begin", |begin: Begin| async move { Ok(Iteration { left: begin.iterations, done: 0 }) })
        .step("iterate", |iteration: Iteration| async move {
            Ok(match iteration.left {
                0 => Next::Done(Done { iterations: iteration.done }),
                left => Next::Iteration(Iteration { left: left - 1, done: iteration.done + 1 }),
            })
        })
        .workers(1)
        .build()
        .unwrap();
    assert_eq!(workflow.run::<Done>(Begin { iterations: 3 }).await.unwrap(), Done { iterations: 3 });
    let error = workflow.run::<Done>(Iteration { left: 1, done: 1 }).await.unwrap_err();
    assert_eq!(error.to_string(), "`looping` starts with `begin`, not with `iteration`");
}
