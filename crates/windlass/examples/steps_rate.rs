//! Measures steps per second: a loop of empty steps in memory, and a fan-out with a join.
//! `cargo run --release -p windlass --example steps_rate -- 300000`

use std::time::Instant;

use serde::{Deserialize, Serialize};
use windlass::{All, Event, Events, StepError, Workflow};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin {
    iterations: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "iteration")]
struct Iteration {
    left: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "item")]
struct Item {
    number: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "worked")]
struct Worked {
    number: u64,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done {
    sum: u64,
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
        Ok(Iteration { left: begin.iterations })
    }

    #[step]
    async fn iterate(&self, iteration: Iteration) -> Result<Next, StepError> {
        Ok(match iteration.left {
            0 => Done { sum: 0 }.into(),
            left => Iteration { left: left - 1 }.into(),
        })
    }
}

struct Fanning;

#[windlass::workflow(name = "fanning")]
impl Fanning {
    #[step]
    async fn split(&self, begin: Begin) -> Result<Vec<Item>, StepError> {
        Ok((0..begin.iterations).map(|number| Item { number }).collect())
    }

    #[step(workers = 100)]
    async fn work(&self, item: Item) -> Result<Worked, StepError> {
        Ok(Worked { number: item.number })
    }

    #[step]
    async fn join(&self, all: All<Worked>) -> Result<Done, StepError> {
        Ok(Done { sum: all.iter().map(|worked| worked.number).sum() })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let iterations: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let looping: Workflow = Looping.into_workflow().build()?;
    for iterations in [iterations / 10, iterations, iterations] {
        let begun = Instant::now();
        looping.run::<Done>(Begin { iterations }).await?;
        let took = begun.elapsed();
        println!("loop of {iterations}: {:?}, {:.0} steps/s", took, iterations as f64 / took.as_secs_f64());
    }
    let fanning = Fanning.into_workflow().build()?;
    for _ in 0..5 {
        let begun = Instant::now();
        let done: Done = fanning.run(Begin { iterations: 1_000 }).await?;
        println!("fan-out of 1000 over 100 workers: {:?} (sum {})", begun.elapsed(), done.sum);
    }
    Ok(())
}
