use serde::{Deserialize, Serialize};
use windlass::Event;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "begin", start)]
struct Begin;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "done", stop)]
struct Done;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "a", start, stop)]
struct Both;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "b", strat)]
struct Nearly;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "two words")]
struct Words;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "c", upgrade = older)]
struct First;

#[derive(Event, Serialize, Deserialize)]
#[event(name = "d")]
enum Several {
    One,
}

#[derive(Event, Serialize, Deserialize)]
#[event(name = "e")]
struct Generic<T>(T);

fn main() {}
