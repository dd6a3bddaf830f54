use serde::{Deserialize, Serialize};
use windlass::Event;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

use windlass::Events;

#[derive(Events)]
enum Shapes {
    Empty,
    Named { begin: Begin },
    Two(Begin, Done),
}

#[derive(Events)]
enum Twice {
    One(Begin),
    Other(Begin),
}

#[derive(Events)]
struct Single(Begin);

fn main() {}
