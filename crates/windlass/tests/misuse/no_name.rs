use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Steps;

#[windlass::workflow]
impl Steps {
    #[step]
    async fn only(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }
}

#[derive(Event, Serialize, Deserialize)]
struct OrderPlaced;

fn main() {}
