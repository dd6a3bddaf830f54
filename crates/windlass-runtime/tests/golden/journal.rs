//! The text of a golden journal: a JSON object per line.
//!
//! Ticks are written in their serde form, so that they can be read back. Commands are only compared: an event is one
//! flat object without its time, which is the time of the tick.

use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use windlass_core::{Command, Tick, TickOutput};
use windlass_value::Value;

pub(crate) struct Journal {
    pub entries: Vec<Entry>,
    pub end: End,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub tick: Tick,
    pub commands: Vec<Json>,
    /// Iterations that ended, for the loops' histories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Json>,
}

/// The last line.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub(crate) struct End {
    /// Null for a run that waits for external input.
    pub result: Json,
    /// The hash of the state as a snapshot would contain it.
    pub state: String,
}

impl Entry {
    pub(crate) fn new(tick: &Tick, output: &TickOutput) -> Entry {
        let history = output.iterations.iter().map(|iteration| json!(iteration)).collect();
        Entry { tick: tick.clone(), commands: commands(tick, output), history }
    }
}

pub(crate) fn commands(tick: &Tick, output: &TickOutput) -> Vec<Json> {
    output.commands.iter().map(|command| render_command(tick, command)).collect()
}

fn render_command(tick: &Tick, command: &Command) -> Json {
    match command {
        Command::PublishEvent(event) => {
            assert_eq!(event.at, tick.at, "an event has the time of its tick");
            json!({ "event": event.type_name(), "seq": event.seq, "path": event.path, "data": Value::map(event.fields()) })
        }
        other => json!(other),
    }
}

impl Journal {
    pub(crate) fn render(&self) -> String {
        let entries = self.entries.iter().map(|entry| json!(entry).to_string() + "\n");
        entries.chain([json!(self.end).to_string() + "\n"]).collect()
    }

    pub(crate) fn parse(name: &str, text: &str) -> Journal {
        let (entries, end) = text.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{name}: too short"));
        let entry = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}"));
        let entries = entries.lines().map(entry).collect();
        Journal { entries, end: serde_json::from_str(end).unwrap_or_else(|error| panic!("{name}: {error}")) }
    }
}

/// Returns the first line that differs, from both texts.
pub(crate) fn first_difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let (mut expected, mut actual) = (expected.lines(), actual.lines());
    for number in 1.. {
        match (expected.next(), actual.next()) {
            (None, None) => break,
            (one, other) if one == other => {}
            (one, other) => {
                let (one, other) = (one.unwrap_or("(nothing)"), other.unwrap_or("(nothing)"));
                return Some(format!("line {number} differs\n--- committed\n{one}\n--- now\n{other}"));
            }
        }
    }
    Some("only line ends differ".to_owned())
}
