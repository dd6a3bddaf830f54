use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Steps;

#[windlass::workflow(name = "w", timeuot = "5m")]
impl Steps {
    #[step(worker = 4)]
    async fn nearly(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(workers = 0)]
    async fn idle(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(times = 2)]
    async fn handler(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(surplus = "kep")]
    async fn surplus(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(allow = ["dead_ends"])]
    async fn allowed(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }
}

fn main() {}
