//! `windlass events RUN`

use std::sync::Arc;

use windlass_core::Event;
use windlass_runtime::show::{StoredEvent, StoredEvents, event_value, live_owner};
use windlass_store::Store;
use windlass_value::{Map, Value, to_json};

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::follow::{Changes, POLL};
use crate::out;
use crate::{stores, text};

pub(crate) fn events(global: &Global, args: &args::Events) -> Result<Exit, Failure> {
    let store = stores::open(global)?;
    let run = stores::find(&*store, &args.run)?.run;
    let mut reader = StoredEvents::new(run.clone(), args.from);
    if !args.follow {
        while print_some(global, &run, &mut reader, &*store)? {}
        return Ok(Exit::Good);
    }
    follow(global, &*store, &run, &mut reader)
}

/// Until the run has ended and everything it said was shown.
fn follow(global: &Global, store: &dyn Store, run: &Arc<str>, reader: &mut StoredEvents) -> Result<Exit, Failure> {
    let mut changes = Changes::default();
    let mut warned = false;
    loop {
        if changes.any(store)? {
            // Asked before reading: what an ended run has said is all there.
            let row = stores::find(store, run)?;
            while print_some(global, run, reader, store)? {}
            if row.status.is_final() {
                return Ok(Exit::Good);
            }
            if !warned && live_owner(store, &row)?.is_none() {
                warned = true;
                out::note(&match stores::server_for(global, &row) {
                    Some(address) => format!("the server on {address} has it"),
                    None => format!("nobody runs it now: {}", stores::way_on(global, store, &row)?),
                });
            }
        }
        std::thread::sleep(POLL);
    }
}

/// False when there was nothing to print.
fn print_some(global: &Global, run: &str, reader: &mut StoredEvents, store: &dyn Store) -> Result<bool, Failure> {
    let pieces = reader.read(store)?;
    let line = |piece: &StoredEvent| if global.json { to_json(&event_value(run, piece)) } else { human(piece) };
    if !pieces.is_empty() {
        out::print(&pieces.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(!pieces.is_empty())
}

fn human(piece: &StoredEvent) -> String {
    match piece {
        StoredEvent::Event(event) => human_event(event),
        StoredEvent::Trimmed { from, to } => format!("{to:>6}  events {from} to {to} are no longer kept"),
    }
}

/// Where an event says what went wrong.
const ERRORS: [&str; 2] = ["error", "because"];

/// Letters of an error that are shown: its message matters more than anything else of the event.
const MAX_ERROR_CHARS: usize = 200;

/// `error=42P01: relation "x" does not exist`, also where it is inside an outcome.
fn error_of(fields: &Map) -> Option<String> {
    let own = ERRORS.iter().find_map(|name| Some((*name, fields.get(name)?)));
    let inside = || Some(("error", fields.get("outcome")?.get("error")?));
    let (name, error) = own.or_else(inside).filter(|(_, error)| !error.is_null())?;
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let told = match (text("code"), text("message")) {
        (Some(code), Some(message)) => format!("{code}: {}", text::one_line(message)),
        _ => text::short(error, MAX_ERROR_CHARS),
    };
    Some(format!("{name}={}", text::cut(&told, MAX_ERROR_CHARS)))
}

fn human_event(event: &Event) -> String {
    let time = event.at.to_string();
    let clock = time.get(11..23).unwrap_or(&time);
    let event_fields = event.fields();
    let mut fields: Vec<String> = error_of(&event_fields).into_iter().collect();
    let field = |(key, value): (&Arc<str>, &Value)| format!("{key}={}", text::short(value, 60));
    fields.extend(event_fields.iter().filter(|(key, value)| !value.is_null() && !ERRORS.contains(&&***key)).map(field));
    let line =
        format!("{:>6}  {clock}  {:<22}  {:<24}  {}", event.seq, event.type_name(), event.path, fields.join(" "));
    line.trim_end().to_owned()
}
