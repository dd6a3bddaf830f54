//! What a server says on standard error: one line for each thing that somebody who looks after it wants to know. Names,
//! counts and reasons, never values.

use std::fmt::Write as _;

use windlass_runtime::{Notice, real_now};
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
    fn one_line_for_each_thing_in_both_forms() {
        let fields = [("run", Value::from("r1")), ("why", Value::from("a\nb c")), ("runs", Value::from(3_i64))];
        let human = Log::new(LogFormat::Human).line("quarantined", &fields, "T");
        assert_eq!(human, "T quarantined run=r1 why=\"a\\nb c\" runs=3");
        let json = Log::new(LogFormat::Json).line("quarantined", &fields, "T");
        assert_eq!(json, r#"{"at":"T","event":"quarantined","run":"r1","why":"a\nb c","runs":3}"#);
    }
}
