//! The log: events that libraries and this program emit through `tracing`, one line each on standard error. Lines
//! hold names, counts and reasons, never values; secrets that the settings know are redacted from every line all the
//! same.
//!
//! The message of an event is a word or two, and its fields say which and how many: `recovered runs=3`. An event with a
//! field `event` is a sentence for people: programs get that field as the event and the sentence as its message. Fields
//! of the spans around an event follow its own.
//!
//! The lines are formatted here rather than by the formatters of `tracing-subscriber`: both forms are documented, are
//! redacted field by field, and bring no further dependency.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use windlass_runtime::real_now;
use windlass_tools::{KnownSecrets, Redactor};
use windlass_value::{Map, Value, to_json};

use crate::args::{CliCommand, LogFormat};
use crate::failure::CliFailure;
use crate::out;

/// The variable that sets the log level.
pub(crate) const LEVEL_VARIABLE: &str = "WINDLASS_LOG";

/// The prefix of crates whose events are logged. Events of other crates may hold anything, such as headers and
/// protocol messages.
const CRATE_PREFIX: &str = "windlass";

static REDACTION: OnceLock<KnownSecrets> = OnceLock::new();

/// Sets the secrets to redact from every line from now on. Only the first call counts.
pub(crate) fn redact(secrets: &KnownSecrets) {
    let _ = REDACTION.set(secrets.clone());
}

/// Installs the log for the rest of the process. A server logs by its own options, any other command only warnings
/// unless the environment sets another level.
pub(crate) fn install(command: &CliCommand) -> Result<(), CliFailure> {
    let (form, level) = match command {
        CliCommand::Serve(args) => (LineFormat::from_log_format(args.log), args.log_level.clone()),
        CliCommand::Dev(args) => (LineFormat::from_log_format(args.log), args.log_level.clone()),
        _ => (LineFormat::Sentences, crate::tools::variable(LEVEL_VARIABLE).unwrap_or_else(|| "warn".to_owned())),
    };
    let lines = LineLayer { form }.with_filter(filter("--log-level", &level)?);
    let log = Registry::default().with(lines).with(crate::service::engine_spans(command)?);
    // Fails only if a test of this crate has already installed a subscriber.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// Parses a filter such as `debug` or `info,windlass_server=trace`: a level for all crates of this program, and
/// others for some of them.
pub(crate) fn filter(option: &str, text: &str) -> Result<Targets, CliFailure> {
    let wrong = |why: String| {
        CliFailure::usage(format!("{option} {text}: {why}"))
            .hint("a level is off, error, warn, info, debug or trace; windlass_server=debug sets that of one crate")
    };
    let parsed: Targets = text.parse().map_err(|error| wrong(format!("{error}")))?;
    if let Some((target, _)) = parsed.iter().find(|(target, _)| !target.starts_with(CRATE_PREFIX)) {
        return Err(wrong(format!("`{target}` is not a crate of this program")));
    }
    let all = parsed.default_level().unwrap_or(LevelFilter::OFF);
    Ok(Targets::new().with_target(CRATE_PREFIX, all).with_targets(parsed))
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineFormat {
    /// The format of commands: `warning: …`.
    Sentences,
    /// The format of servers: time, level, event and fields; sentences verbatim.
    Human,
    /// The same fields as one JSON object per line.
    Json,
}

impl LineFormat {
    fn from_log_format(format: LogFormat) -> LineFormat {
        match format {
            LogFormat::Human => LineFormat::Human,
            LogFormat::Json => LineFormat::Json,
        }
    }

    fn line(self, level: Level, fields: &Fields, at: &str, redaction: &Redactor) -> String {
        let (event, sentence) = match (fields.text("event"), fields.text("message")) {
            (Some(event), sentence) => (event, sentence),
            (None, event) => (event.unwrap_or_default(), None),
        };
        let rest = fields.0.iter().filter(|(name, _)| !["event", "message"].contains(name));
        if self == LineFormat::Json {
            let mut map = Map::new();
            map.insert("at", at);
            map.insert("level", level.as_str().to_ascii_lowercase());
            map.insert("event", event);
            if let Some(sentence) = sentence {
                map.insert("message", sentence);
            }
            rest.for_each(|(name, value)| drop(map.insert(*name, value.clone())));
            return to_json(&redaction.redact_value(&Value::map(map)));
        }
        let plain = if level == Level::ERROR { "error: " } else { "warning: " };
        let plain = if level <= Level::WARN { plain } else { "" };
        let mut line = match (sentence, self) {
            (Some(sentence), _) => return redaction.redact_text(&format!("{plain}{sentence}")),
            (None, LineFormat::Sentences) => format!("{plain}{event}"),
            (None, _) => format!("{at} {level:>5} {event}"),
        };
        for (name, value) in rest {
            // Writing to a string cannot fail.
            let _ = match value.as_str() {
                Some(text) => write!(line, " {name}={}", one_line(text)),
                None => write!(line, " {name}={}", to_json(value)),
            };
        }
        redaction.redact_text(&line)
    }
}

fn one_line(text: &str) -> String {
    match text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        true => format!("{text:?}"),
        false => text.to_owned(),
    }
}

/// Fields of an event or a span, in their order.
#[derive(Clone, Default, Debug)]
struct Fields(Vec<(&'static str, Value)>);

impl Fields {
    fn put(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.as_str())
    }

    /// Adds the fields of an enclosing span, except names that are already present.
    fn inherit(&mut self, span: &Fields) {
        for (name, value) in &span.0 {
            if !self.0.iter().any(|(known, _)| known == name) {
                self.0.push((name, value.clone()));
            }
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), Value::from(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), Value::from(value));
    }
}

/// Writes events as lines.
struct LineLayer {
    form: LineFormat,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LineLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Fields>() {
                fields.inherit(around);
            }
        }
        let redaction = REDACTION.get().map(KnownSecrets::redactor).unwrap_or_default();
        out::note(&self.form.line(*event.metadata().level(), &fields, &real_now().to_string(), &redaction));
    }
}

#[cfg(test)]
mod tests {
    use windlass_tools::Secret;

    use super::*;

    fn fields(given: &[(&'static str, Value)]) -> Fields {
        Fields(given.to_vec())
    }

    #[test]
    fn one_line_for_each_event_in_all_forms() {
        let mut event = fields(&[
            ("message", Value::from("quarantined")),
            ("run", Value::from("r1")),
            ("reason", Value::from("a\nb c")),
            ("runs", Value::from(3_i64)),
        ]);
        event.inherit(&fields(&[("run", Value::from("other")), ("route", Value::from("/runs"))]));
        let line = |form: LineFormat| form.line(Level::ERROR, &event, "T", &Redactor::default());
        assert_eq!(line(LineFormat::Human), "T ERROR quarantined run=r1 reason=\"a\\nb c\" runs=3 route=/runs");
        assert_eq!(line(LineFormat::Sentences), "error: quarantined run=r1 reason=\"a\\nb c\" runs=3 route=/runs");
        assert_eq!(
            line(LineFormat::Json),
            r#"{"at":"T","level":"error","event":"quarantined","run":"r1","reason":"a\nb c","runs":3,"route":"/runs"}"#
        );
    }

    #[test]
    fn sentences_are_printed_verbatim() {
        let event = |level: Level, form: LineFormat| {
            let fields = fields(&[
                ("event", Value::from("ready")),
                ("server", Value::from("small")),
                ("message", Value::from("Ctrl-C stops it")),
            ]);
            form.line(level, &fields, "T", &Redactor::default())
        };
        assert_eq!(event(Level::INFO, LineFormat::Human), "Ctrl-C stops it");
        assert_eq!(event(Level::WARN, LineFormat::Human), "warning: Ctrl-C stops it");
        assert_eq!(event(Level::WARN, LineFormat::Sentences), "warning: Ctrl-C stops it");
        assert_eq!(
            event(Level::INFO, LineFormat::Json),
            r#"{"at":"T","level":"info","event":"ready","message":"Ctrl-C stops it","server":"small"}"#
        );
    }

    #[test]
    fn secrets_are_redacted_from_every_line() {
        let redaction = Redactor::from_secrets(&[Secret::new("sk-canary\"0123"), Secret::new("12345678")]);
        let sentence = [("event", Value::from("e")), ("message", Value::from("it is sk-canary\"0123"))];
        let event = [
            ("message", Value::from("x")),
            ("error", Value::from("a sk-canary\"0123 b")),
            ("n", Value::from(12_345_678_i64)),
        ];
        for form in [LineFormat::Human, LineFormat::Json, LineFormat::Sentences] {
            for fields in [fields(&sentence), fields(&event)] {
                let line = form.line(Level::WARN, &fields, "T", &redaction);
                assert!(!line.contains("canary") && !line.contains("12345678") && line.contains("***"), "{line}");
            }
        }
    }

    #[test]
    fn only_crates_of_this_program_are_logged() {
        let enabled = |text: &str, target: &str, level: Level| {
            filter("--log-level", text).ok().map(|filter| filter.would_enable(target, &level))
        };
        assert_eq!(enabled("debug", "windlass_server::edge", Level::DEBUG), Some(true));
        assert_eq!(enabled("debug", "windlass_server::edge", Level::TRACE), Some(false));
        assert_eq!(enabled("trace", "rmcp::service", Level::ERROR), Some(false));
        assert_eq!(enabled("warn,windlass_store=trace", "windlass_store::writer", Level::TRACE), Some(true));
        assert_eq!(enabled("warn,windlass_store=trace", "windlass_runtime", Level::INFO), Some(false));
        assert_eq!(enabled("windlass=info", "windlass_runtime", Level::INFO), Some(true));
        assert_eq!(enabled("hyper=trace", "hyper", Level::INFO), None);
        assert_eq!(enabled("loud", "windlass", Level::INFO), None);
    }
}
