//! What a server says on standard error: one line for each thing that somebody who looks after it wants to know. Names,
//! counts and reasons, never values.

use std::fmt::Write as _;

use windlass_runtime::{Notice, real_now};
use windlass_server::triggers::{Told, What};
use windlass_value::{Map, Value, to_json};

use crate::args::LogFormat;
use crate::out;

#[derive(Clone, Copy)]
pub struct Log {
    format: LogFormat,
}

impl Log {
    pub fn new(format: LogFormat) -> Log {
        Log { format }
    }

    /// `event` is a word for programs; `fields` say which and how many.
    pub fn say(&self, event: &str, fields: &[(&str, Value)]) {
        out::note(&self.line(event, fields, &real_now().to_string()));
    }

    /// A sentence for people; programs get it as a line of the event.
    pub fn tell(&self, event: &str, sentence: &str) {
        match self.format {
            LogFormat::Human => out::note(sentence),
            LogFormat::Json => self.say(event, &[("message", Value::from(sentence))]),
        }
    }

    fn line(self, event: &str, fields: &[(&str, Value)], at: &str) -> String {
        match self.format {
            LogFormat::Json => {
                let mut map = Map::new();
                map.insert("at", at);
                map.insert("event", event);
                fields.iter().for_each(|(name, value)| drop(map.insert(*name, value.clone())));
                to_json(&Value::map(map))
            }
            LogFormat::Human => {
                let mut line = format!("{at} {event}");
                for (name, value) in fields {
                    // Writing to a text cannot fail.
                    let _ = match value.as_str() {
                        Some(text) => write!(line, " {name}={}", one_line(text)),
                        None => write!(line, " {name}={}", to_json(value)),
                    };
                }
                line
            }
        }
    }

    /// What a trigger has done: `trigger fired`, `trigger skipped` and so on.
    pub fn trigger(&self, told: &Told) {
        let (event, fields) = of_trigger(told);
        self.say(&event, &fields);
    }

    pub fn notice(&self, notice: &Notice) {
        let ms = |took: &std::time::Duration| Value::from(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        match notice {
            Notice::Recovering { runs } => self.say("recovering", &[("runs", Value::from(*runs))]),
            Notice::Recovered { runs, set_aside, postponed, took } => self.say(
                "recovered",
                &[
                    ("runs", Value::from(*runs)),
                    ("set_aside", Value::from(*set_aside)),
                    ("postponed", Value::from(*postponed)),
                    ("took_ms", ms(took)),
                ],
            ),
            Notice::SetAside { run, why } => {
                self.say("quarantined", &[("run", Value::from(run.clone())), ("why", Value::from(why.as_str()))]);
            }
            Notice::Postponed { run, why } => {
                self.say("postponed", &[("run", Value::from(run.clone())), ("why", Value::from(why.as_str()))]);
            }
            Notice::Suspects { runs } => self.say("suspects", &[("runs", Value::from(*runs))]),
            Notice::Trouble { why } => self.say("trouble", &[("why", Value::from(why.as_str()))]),
        }
    }
}

fn of_trigger(told: &Told) -> (String, Vec<(&'static str, Value)>) {
    let count = |number: usize| Value::from(u64::try_from(number).unwrap_or(u64::MAX));
    let named = [("definition", &told.definition), ("trigger", &told.trigger), ("kind", &told.kind)];
    let named = named.into_iter().filter(|(_, text)| !text.is_empty());
    let mut fields: Vec<(&'static str, Value)> = named.map(|(name, text)| (name, Value::from(text.as_str()))).collect();
    fields.extend(told.due.map(|due| ("due", Value::from(due.to_string()))));
    match &told.what {
        What::Fired { runs, waiting } => {
            fields.extend(runs.first().map(|run| ("run", Value::from(run.as_str()))));
            fields.push(("runs", count(runs.len())));
            fields.extend((*waiting > 0).then(|| ("waiting", count(*waiting))));
        }
        What::Repeated { run } => fields.push(("run", Value::from(run.as_str()))),
        What::Missed { times } => fields.push(("times", count(*times))),
        What::Skipped { why } | What::Failed { why } => fields.push(("why", Value::from(why.as_str()))),
    }
    (format!("trigger {}", told.what.word()), fields)
}

fn one_line(text: &str) -> String {
    match text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        true => format!("{text:?}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_say_what_they_do() {
        let told = |kind: &str, due: Option<i64>, what| {
            let told = Told {
                definition: "tidy".to_owned(),
                trigger: "tick".to_owned(),
                kind: kind.to_owned(),
                what,
                due: due.map(windlass_value::Timestamp),
            };
            let (event, fields) = of_trigger(&told);
            Log::new(LogFormat::Human).line(&event, &fields, "T")
        };
        let runs = vec!["t1-0".to_owned(), "t1-1".to_owned()];
        for (line, expected) in [
            (
                told("recurrence", Some(0), What::Fired { runs: runs.clone(), waiting: 1 }),
                "T trigger fired definition=tidy trigger=tick kind=recurrence due=1970-01-01T00:00:00.000Z run=t1-0 runs=2 waiting=1",
            ),
            (
                told("request", None, What::Fired { runs, waiting: 0 }),
                "T trigger fired definition=tidy trigger=tick kind=request run=t1-0 runs=2",
            ),
            (
                told("schedule", None, What::Skipped { why: "it is full".to_owned() }),
                "T trigger skipped definition=tidy trigger=tick kind=schedule why=\"it is full\"",
            ),
            (
                told("schedule", None, What::Missed { times: 3 }),
                "T trigger missed definition=tidy trigger=tick kind=schedule times=3",
            ),
        ] {
            assert_eq!(line, expected);
        }
    }

    #[test]
    fn one_line_for_each_thing_in_both_forms() {
        let fields = [("run", Value::from("r1")), ("why", Value::from("a\nb c")), ("runs", Value::from(3_i64))];
        let human = Log::new(LogFormat::Human).line("quarantined", &fields, "T");
        assert_eq!(human, "T quarantined run=r1 why=\"a\\nb c\" runs=3");
        let json = Log::new(LogFormat::Json).line("quarantined", &fields, "T");
        assert_eq!(json, r#"{"at":"T","event":"quarantined","run":"r1","why":"a\nb c","runs":3}"#);
    }
}
