use serde::{Deserialize, Serialize};
use windlass::{Event, StepError};

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

struct Steps;

use windlass::StepFailed;

#[windlass::workflow(name = "w")]
impl Steps {
    #[step]
    async fn charge(&self, _event: Begin) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[on_failure(of = [chrage])]
    async fn heal(&self, _failed: StepFailed) -> Result<Done, StepError> {
        Ok(Done)
    }

    #[on_failure(of = [heal])]
    async fn heal_again(&self, _failed: StepFailed) -> Result<Done, StepError> {
        Ok(Done)
    }
}

fn main() {}
