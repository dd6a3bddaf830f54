//! The world outside of the agent: a model and three tools, scripted, so that everyone can run the example.
//!
//! They behave like good services: each call has an idempotency key, and a repeated key gets the same answer without
//! repeating the work. All calls are logged to a file, one line when a call arrives and one when it is done.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Observation;

/// Free gigabytes at the beginning.
const FREE: u64 = 10;

pub(crate) struct World(Arc<Calls>);

struct Calls {
    file: PathBuf,
    /// The duration of a call.
    pace: Duration,
}

impl World {
    pub(crate) fn new(file: PathBuf, pace: Duration) -> World {
        World(Arc::new(Calls { file, pace }))
    }

    pub(crate) fn model(&self) -> Model {
        Model(self.0.clone())
    }

    pub(crate) fn tools(&self) -> Tools {
        Tools(self.0.clone())
    }
}

/// Decides what to try next, and when the goal is reached.
pub(crate) struct Model(Arc<Calls>);

impl Model {
    pub(crate) async fn plan(&self, key: &str, history: &[Observation]) -> io::Result<(String, String)> {
        let (tool, on) = match history.len() {
            0 => ("look", "around"),
            1 => ("compress", "logs"),
            2 => ("delete", "backups"),
            3 => ("compress", "photos"),
            _ => ("look", "again"),
        };
        let answer = self.0.call(key, "plan", |_| format!("{tool} {on}")).await?;
        let (tool, on) = answer.split_once(' ').unwrap_or((&answer, ""));
        Ok((tool.to_owned(), on.to_owned()))
    }

    pub(crate) async fn judge(&self, key: &str, goal: u64, free: u64) -> io::Result<bool> {
        let answer = self.0.call(key, "judge", |_| if free >= goal { "good" } else { "more" }.to_owned()).await?;
        Ok(answer == "good")
    }
}

/// Tools to look, compress and delete.
pub(crate) struct Tools(Arc<Calls>);

impl Tools {
    pub(crate) fn is_dangerous(&self, tool: &str) -> bool {
        tool == "delete"
    }

    /// Calls a tool and returns the free space afterwards.
    pub(crate) async fn call(&self, key: &str, tool: &str, on: &str) -> io::Result<u64> {
        let what = format!("{tool} {on}");
        let gains = match what.as_str() {
            "compress logs" => 12,
            "compress photos" => 20,
            "delete backups" => 30,
            _ => 0,
        };
        let free = |last: Option<u64>| (last.unwrap_or(FREE) + gains).to_string();
        self.0.call(key, &what, free).await?.parse().map_err(io::Error::other)
    }
}

impl Calls {
    /// Performs the work once per key. `answer` gets the last numeric answer.
    async fn call(&self, key: &str, what: &str, answer: impl Fn(Option<u64>) -> String) -> io::Result<String> {
        println!("{what} …");
        self.note(&["asked", key, what])?;
        tokio::time::sleep(self.pace).await;
        let done = fs::read_to_string(&self.file)?;
        let done: Vec<(&str, &str)> = done.lines().filter_map(answered).collect();
        if let Some((_, answer)) = done.iter().find(|(before, _)| *before == key) {
            println!("{what}: {answer} (done before)");
            return Ok((*answer).to_owned());
        }
        let answer = answer(done.iter().rev().find_map(|(_, answer)| answer.parse().ok()));
        self.note(&["done", key, what, &answer])?;
        println!("{what}: {answer}");
        Ok(answer)
    }

    fn note(&self, words: &[&str]) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        file.write_all(format!("{}\n", words.join("\t")).as_bytes())
    }
}

/// Returns the key and the answer of a line of a finished call.
fn answered(line: &str) -> Option<(&str, &str)> {
    let mut words = line.strip_prefix("done\t")?.split('\t');
    Some((words.next()?, words.nth(1)?))
}
