use serde::{Deserialize, Serialize};
use windlass::Event;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

#[derive(windlass::Events)]
enum Unfit {
    Begin(Begin),
    Text(String),
}

fn main() {}
