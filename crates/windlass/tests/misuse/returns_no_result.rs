use serde::{Deserialize, Serialize};
use windlass::Event;

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
    async fn plain(&self, _event: Begin) -> Done {
        Done
    }
}

fn main() {}
