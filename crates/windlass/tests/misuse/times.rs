use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Steps;

#[windlass::workflow(name = "w", timeout = "5 minutes")]
impl Steps {
    #[step(timeout = "30")]
    async fn no_unit(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(timeout = 30)]
    async fn no_text(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(retry(exponential, every = "1s"))]
    async fn other_retry(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step(retry(fixed, attemps = 3))]
    async fn nearly_retry(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }
}

fn main() {}
