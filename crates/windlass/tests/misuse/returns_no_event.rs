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
    async fn number(&self, _event: Begin) -> Result<u64, StepError> {
        Ok(1)
    }
}

fn main() {}
