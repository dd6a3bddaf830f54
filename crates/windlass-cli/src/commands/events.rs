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
use crate::runs::follow::{EventFollower, FollowMessage};
use crate::runs::{Runs, ServerRuns, decode};
use crate::{stores, text};

pub(crate) fn events(global: &GlobalArgs, args: &args::EventsArgs) -> Result<CliExit, CliFailure> {
    let store = match Runs::open(global)? {
        Runs::Store(store) => store,
        Runs::Server(server) => return server_events(global, &server, args),
    };
    let run = stores::find(&*store, &args.run)?.run;
    let mut reader = StoredEvents::new(run.clone(), args.from);
    if !args.follow {
        while print_batch(global, &run, &reader.read(&*store)?)? {}
        return Ok(CliExit::Success);
    }
    follow(global, &*store, &run, &mut reader)
}

/// Prints the events of a run of a server.
fn server_events(global: &GlobalArgs, server: &ServerRuns, args: &args::EventsArgs) -> Result<CliExit, CliFailure> {
    let (_, row) = decode::listed_run(&server.find(&args.run)?)?;
    if args.follow {
        let mut follower = EventFollower::new(server, &row.run, args.from);
        return server.block_on(follow_server(global, &mut follower, &row.run));
    }
    let mut after = args.from;
    loop {
        let pieces = server.events(&row.run, after)?;
        after = pieces.last().map_or(after, StoredEvent::seq);
        if !print_batch(global, &row.run, &pieces)? {
            return Ok(CliExit::Success);
        }
    }
}

async fn follow_server(
    global: &GlobalArgs,
    follower: &mut EventFollower<'_>,
    run: &str,
) -> Result<CliExit, CliFailure> {
    loop {
        match follower.next().await {
            Ok(FollowMessage::Event(event)) => print_batch(global, run, &[event])?,
            Ok(FollowMessage::Ended) => return Ok(CliExit::Success),
            Err(error) => {
                let again = format!("events {run} --from {} --follow", follower.last_seq());
                return Err(follower.failure(global, error, &again));
            }
        };
    }
}

/// Prints events until the run has ended and all of its events are printed.
fn follow(
    global: &GlobalArgs,
    store: &dyn Store,
    run: &Arc<str>,
    reader: &mut StoredEvents,
) -> Result<CliExit, CliFailure> {
    let mut changes = ChangePoller::default();
    let mut warned = false;
    loop {
        if changes.has_changed(store)? {
            // Read before the events: the store then holds all events of an ended run.
            let row = stores::find(store, run)?;
            while print_batch(global, run, &reader.read(store)?)? {}
            if row.status.is_final() {
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

/// Prints a batch. Returns false if there was nothing to print.
fn print_batch(global: &GlobalArgs, run: &str, pieces: &[StoredEvent]) -> Result<bool, CliFailure> {
    let line = |piece: &StoredEvent| if global.json { to_json(&event_value(run, piece)) } else { format_entry(piece) };
    if !pieces.is_empty() {
        out::print(&pieces.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(!pieces.is_empty())
}

fn format_entry(piece: &StoredEvent) -> String {
    match piece {
        StoredEvent::Event(event) => format_event(event),
        StoredEvent::Trimmed { from, to } => format!("{to:>6}  events {from} to {to} are no longer stored"),
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

fn format_event(event: &Event) -> String {
    let time = event.at.to_string();
    let clock = time.get(11..23).unwrap_or(&time);
    let event_fields = event.fields();
    let mut fields: Vec<String> = format_error(&event_fields).into_iter().collect();
    let field = |(key, value): (&Arc<str>, &Value)| format!("{key}={}", text::format_value(value, 60));
    fields.extend(event_fields.iter().filter(|(key, value)| !value.is_null() && &***key != ERROR_FIELD).map(field));
    let line =
        format!("{:>6}  {clock}  {:<22}  {:<24}  {}", event.seq, event.type_name(), event.path, fields.join(" "));
    line.trim_end().to_owned()
}
