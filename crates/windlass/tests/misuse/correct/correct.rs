use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

async fn finish(_event: Begin) -> Result<Done, StepError> {
    Ok(Done)
}

fn main() {
    let _ = windlass::Workflow::builder("correct").step("finish", finish);
}
