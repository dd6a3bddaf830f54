use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

#[windlass::step]
async fn charge(_event: Begin) -> Result<Done, StepError> {
    Ok(Done)
}

fn main() {}
