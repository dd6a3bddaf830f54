use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Steps;

#[windlass::workflow(name = "w")]
impl Steps {
    #[step]
    fn not_async(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step]
    async fn changes(&mut self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[step]
    async fn says_nothing(&self, _event: Begin) {}
}

fn main() {}
