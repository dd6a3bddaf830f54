use serde::{Deserialize, Serialize};
use windlass::{Context, Event, StepError};

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
    async fn text(&self, _ctx: Context, _event: String) -> Result<Done, StepError> {
        Ok(Done)
    }
}

fn main() {}
