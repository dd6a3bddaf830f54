use serde::{Deserialize, Serialize};
use windlass::Event;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

fn built() {
    let _ = windlass::Workflow::builder("w").step("number", |_event: Begin| async { Ok(1) });
}

fn main() {}
