//! `windlass events RUN`

use std::sync::Arc;

use windlass_core::Event;
use windlass_runtime::inspect::{StoredEvent, StoredEvents, event_value, live_owner};
use windlass_store::Store;
use windlass_value::{Map, Value, to_json};

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::follow::{ChangePoller, POLL_INTERVAL};
use crate::out;
use crate::runs::follow::{EventFollower, FollowMessage, explain_server_away};
use crate::runs::{Runs, ServerRuns, decode};
use crate::{stores, text};

pub(crate) fn events(global: &GlobalArgs, args: &args::EventsArgs) -> Result<CliExit, CliFailure> {
    let store = match Runs::open(global)? {
        Runs::Store(store) => store,
        Runs::Server(server) => return server_events(global, &server, args),
    };
    let run = stores::find(&*store, &args.run)?.run;
    let mut printer = EventPrinter::new(global, args, &run);
    let mut reader = StoredEvents::new(run, args.after);
    if !args.follow {
        while printer.left > 0 && printer.print_batch(&reader.read(&*store)?)? {}
        return Ok(CliExit::Success);
    }
    follow(global, &*store, &mut printer, &mut reader)
}

/// Prints the events of a run of a server.
fn server_events(global: &GlobalArgs, server: &ServerRuns, args: &args::EventsArgs) -> Result<CliExit, CliFailure> {
    let (_, row) = decode::listed_run(&server.find(&args.run)?)?;
    let mut printer = EventPrinter::new(global, args, &row.run);
    if args.follow {
        let mut follower = EventFollower::new(server, &row.run, args.after);
        return server.block_on(follow_server(global, &mut follower, &mut printer));
    }
    let mut after = args.after;
    while printer.left > 0 {
        let events = server.events(&row.run, after)?;
        after = events.last().map_or(after, StoredEvent::seq);
        if !printer.print_batch(&events)? {
            break;
        }
    }
    Ok(CliExit::Success)
}

async fn follow_server(
    global: &GlobalArgs,
    follower: &mut EventFollower<'_>,
    printer: &mut EventPrinter,
) -> Result<CliExit, CliFailure> {
    while printer.left > 0 {
        match follower.next().await {
            Ok(FollowMessage::Event(event)) => printer.print_batch(&[event])?,
            Ok(FollowMessage::Ended) => break,
            Err(error) => {
                let again = format!("events {} --after {} --follow", printer.run, follower.last_seq());
                return Err(explain_server_away(global, follower.failure(error), &again));
            }
        };
    }
    Ok(CliExit::Success)
}

/// Prints events until the run has ended and all of its events are printed.
fn follow(
    global: &GlobalArgs,
    store: &dyn Store,
    printer: &mut EventPrinter,
    reader: &mut StoredEvents,
) -> Result<CliExit, CliFailure> {
    let mut changes = ChangePoller::default();
    let mut warned = false;
    loop {
        if changes.has_changed(store)? {
            // Read before the events: the store then holds all events of an ended run.
            let row = stores::find(store, &printer.run)?;
            while printer.left > 0 && printer.print_batch(&reader.read(store)?)? {}
            if row.status.is_final() || printer.left == 0 {
                return Ok(CliExit::Success);
            }
            if !warned && live_owner(store, &row)?.is_none() {
                warned = true;
                out::note(&match stores::server_address(global, &row) {
                    Some(address) => format!("no process owns the run now; the server at {address} takes it over"),
                    None => format!("no process runs it: {}", stores::resume_hint(global, store, &row)?),
                });
            }
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Prints events, at most `left` of them.
struct EventPrinter {
    json: bool,
    /// Prints the complete time of each event instead of a line for each date.
    full_times: bool,
    run: Arc<str>,
    /// The date of the last printed event.
    date: String,
    left: usize,
}

impl EventPrinter {
    fn new(global: &GlobalArgs, args: &args::EventsArgs, run: &Arc<str>) -> EventPrinter {
        EventPrinter {
            json: global.json,
            full_times: args.utc,
            run: run.clone(),
            date: String::new(),
            left: args.limit.unwrap_or(usize::MAX),
        }
    }

    /// Prints a batch. Returns false if there was nothing to print.
    fn print_batch(&mut self, events: &[StoredEvent]) -> Result<bool, CliFailure> {
        let shown = &events[..events.len().min(self.left)];
        self.left -= shown.len();
        let lines: Vec<String> = shown.iter().flat_map(|event| self.lines(event)).collect();
        if !lines.is_empty() {
            out::print(&lines.join("\n"))?;
        }
        Ok(!events.is_empty())
    }

    /// Returns the line of an event, and before it the date if that has changed.
    fn lines(&mut self, stored: &StoredEvent) -> Vec<String> {
        if self.json {
            return vec![to_json(&event_value(&self.run, stored))];
        }
        let event = match stored {
            StoredEvent::Event(event) => event,
            StoredEvent::Trimmed { from, to } => {
                return vec![format!("{to:>6}  events {from} to {to} are no longer stored")];
            }
        };
        let time = event.at.to_string();
        if self.full_times {
            return vec![format_event(event, &time)];
        }
        let (date, clock) = time.split_at_checked(10).unwrap_or((&time, ""));
        let clock = clock.get(1..13).unwrap_or(&time);
        let heading = (self.date != date).then(|| format!("{date} (UTC)"));
        self.date = date.to_owned();
        heading.into_iter().chain([format_event(event, clock)]).collect()
    }
}

/// The event field that holds an error.
const ERROR_FIELD: &str = "error";

/// Maximum number of characters of an error to print: its message matters more than the rest of the event.
const MAX_ERROR_CHARS: usize = 200;

/// Formats an event's error, also one inside an outcome: `error=42P01: relation "x" does not exist`.
fn format_error(fields: &Map) -> Option<String> {
    let inside = || fields.get("outcome")?.get(ERROR_FIELD);
    let error = fields.get(ERROR_FIELD).or_else(inside).filter(|error| !error.is_null())?;
    let text = |key: &str| error.get(key).and_then(Value::as_str);
    let description = match (text("code"), text("message")) {
        (Some(code), Some(message)) => format!("{code}: {}", text::one_line(message)),
        _ => text::format_value(error, MAX_ERROR_CHARS),
    };
    Some(format!("{ERROR_FIELD}={}", text::truncate(&description, MAX_ERROR_CHARS)))
}

fn format_event(event: &Event, time: &str) -> String {
    let event_fields = event.fields();
    let mut fields: Vec<String> = format_error(&event_fields).into_iter().collect();
    let field = |(key, value): (&Arc<str>, &Value)| format!("{key}={}", text::format_value(value, 60));
    fields.extend(event_fields.iter().filter(|(key, value)| !value.is_null() && &***key != ERROR_FIELD).map(field));
    let line = format!("{:>6}  {time}  {:<22}  {:<24}  {}", event.seq, event.type_name(), event.path, fields.join(" "));
    line.trim_end().to_owned()
}
