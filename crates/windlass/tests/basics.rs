//! The parts of a workflow, one by one, over the engine in memory.

use serde::{Deserialize, Serialize};
use windlass::{Context, Event, Events, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    turns: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "turn")]
struct Turn {
    left: u64,
    done: u64,
}

#[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    turns: u64,
}

#[derive(Events)]
enum Next {
    Turn(Turn),
    Done(Done),
}

struct Looping;

#[windlass::workflow(name = "looping")]
impl Looping {
    #[step]
    async fn begin(&self, begin: Begin) -> Result<Turn, StepError> {
        Ok(Turn { left: begin.turns, done: 0 })
    }

    #[step(workers = 1)]
    async fn turn(&self, _ctx: Context, turn: Turn) -> Result<Next, std::num::ParseIntError> {
        Ok(match turn.left {
            0 => Done { turns: turn.done }.into(),
            left => Turn { left: left - 1, done: turn.done + 1 }.into(),
        })
    }
}

#[tokio::test]
async fn a_loop() {
    let workflow = Looping.into_workflow().build().unwrap();
    assert_eq!(
        workflow.text(),
        "workflow looping\nbegin(begin) -> turn  workers 4\nturn(turn) -> turn | done  workers 1\n"
    );
    assert_eq!(workflow.run::<Done>(Begin { turns: 100 }).await.unwrap(), Done { turns: 100 });
}

#[tokio::test]
async fn the_same_by_hand() {
    let workflow = Workflow::builder("looping")
        .step("begin", |begin: Begin| async move { Ok(Turn { left: begin.turns, done: 0 }) })
        .step("turn", |turn: Turn| async move {
            Ok(match turn.left {
                0 => Next::Done(Done { turns: turn.done }),
                left => Next::Turn(Turn { left: left - 1, done: turn.done + 1 }),
            })
        })
        .workers(1)
        .build()
        .unwrap();
    assert_eq!(workflow.run::<Done>(Begin { turns: 3 }).await.unwrap(), Done { turns: 3 });
    let error = workflow.run::<Done>(Turn { left: 1, done: 1 }).await.unwrap_err();
    assert_eq!(error.to_string(), "`looping` starts with `begin`, not with `turn`");
}
