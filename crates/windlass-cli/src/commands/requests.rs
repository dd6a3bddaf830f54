//! `windlass pause`, `cancel` and `signal`: requests to the process that runs the run, now or later.

use std::sync::Arc;

use windlass_core::predict_delivery;
use windlass_runtime::inspect::undelivered_signal_note;
use windlass_runtime::{RequestOutcome, RunRequest, new_run_id, request};
use windlass_store::{RunRow, RunStatus, Store};
use windlass_tools::approval;
use windlass_value::Value;

use super::approvals;
use crate::args::{self, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::runs::server::RequestReply;
use crate::runs::{Runs, decode};
use crate::{host, image, inputs, out, stores};

pub(crate) fn pause(global: &GlobalArgs, args: &args::RunRequestArgs) -> Result<CliExit, CliFailure> {
    let runs = Runs::open(global)?;
    let row = find(&runs, &args.run)?;
    if row.status == RunStatus::Pending {
        let run = row.run;
        let failure = CliFailure::usage(format!("run `{run}` is queued and has not started; it cannot be paused"));
        return Err(failure.hint(format!("`windlass cancel {run}` cancels it; it can be paused once it has started")));
    }
    submit_and_print(global, &runs, &row, args.request_id.as_deref(), "pause", RunRequest::Pause)
}

pub(crate) fn cancel(global: &GlobalArgs, args: &args::CancelArgs) -> Result<CliExit, CliFailure> {
    let runs = Runs::open(global)?;
    let row = find(&runs, &args.request.run)?;
    let run_request = RunRequest::Cancel { reason: args.reason.clone() };
    submit_and_print(global, &runs, &row, args.request.request_id.as_deref(), "cancel", run_request)
}

pub(crate) fn signal(global: &GlobalArgs, args: &args::SignalArgs) -> Result<CliExit, CliFailure> {
    let given = args.data.as_deref().map(|data| parse_payload(Some(data))).transpose()?;
    let runs = Runs::open(global)?;
    let row = find(&runs, &args.run)?;
    let run = &row.run;
    let open = approvals::open_approvals(&runs, Some(run))?;
    let check = approval::check_answers(open, &args.name, None, given.as_ref());
    host::runtime()?.block_on(check).map_err(|refused| {
        let hint = format!("`windlass approvals {run}` shows its open requests, `windlass approve {run}` answers them");
        approvals::failure(refused, run).hint(hint)
    })?;
    let payload = given.unwrap_or_default();
    let undelivered = match &runs {
        Runs::Store(store) => find_undelivered_note(global, &**store, run, &args.name, &payload)?,
        // The server reports it with its reply.
        Runs::Server(_) => None,
    };
    let run_request = RunRequest::Signal { name: args.name.clone(), payload };
    let (id, reply) = submit(&runs, &row, args.request_id.as_deref(), "signal", run_request)?;
    let reply = RequestReply { undelivered: reply.undelivered.or(undelivered), ..reply };
    print_reply(global, &runs, &row, (&id, "signal"), reply)
}

/// Finds the run that a request is for.
pub(crate) fn find(runs: &Runs, run_ref: &str) -> Result<RunRow, CliFailure> {
    match runs {
        Runs::Store(store) => stores::find(&**store, run_ref),
        Runs::Server(server) => Ok(decode::listed_run(&server.find(run_ref)?)?.1),
    }
}

/// Returns the word and the note for a signal that no node waits for in the current state.
fn find_undelivered_note(
    global: &GlobalArgs,
    store: &dyn Store,
    run: &Arc<str>,
    name: &str,
    payload: &Value,
) -> Result<Option<(&'static str, String)>, CliFailure> {
    let row = stores::find(store, run)?;
    if row.status.is_final() || row.status == RunStatus::Quarantined {
        return Ok(None);
    }
    // A run whose state cannot be read still gets the signal.
    let seen = image::load(store, run, &CliSettings::load(global)?.limits).ok();
    Ok(seen.and_then(|seen| {
        let state = &seen.image.state;
        let delivery = predict_delivery(&seen.program, state, &name.into(), payload, None);
        undelivered_signal_note(delivery, name, None, state.waits.keys())
    }))
}

pub(crate) fn parse_payload(data: Option<&str>) -> Result<Value, CliFailure> {
    match data.map(|data| (data, data.strip_prefix('@'))) {
        None => Ok(Value::Null),
        Some((_, Some(path))) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| CliFailure::input(format!("could not read the data: {error}")).location(path))?;
            inputs::parse_input(&text, path)
        }
        Some((data, None)) => {
            inputs::parse_input(data, "--data").map_err(|failure| failure.hint("text needs quotes: '\"yes\"'"))
        }
    }
}

fn submit_and_print(
    global: &GlobalArgs,
    runs: &Runs,
    row: &RunRow,
    id: Option<&str>,
    what: &str,
    run_request: RunRequest,
) -> Result<CliExit, CliFailure> {
    let (id, reply) = submit(runs, row, id, what, run_request)?;
    print_reply(global, runs, row, (&id, what), reply)
}

fn submit(
    runs: &Runs,
    row: &RunRow,
    id: Option<&str>,
    what: &str,
    run_request: RunRequest,
) -> Result<(String, RequestReply), CliFailure> {
    let id = id.map_or_else(|| format!("{what}-{}", new_run_id()), str::to_owned);
    let reply = match runs {
        Runs::Store(store) => {
            RequestReply { outcome: request(&**store, &row.run, &id, run_request)?, undelivered: None }
        }
        Runs::Server(server) => server.request(&row.run, what, &request_body(&id, run_request))?,
    };
    Ok((id, reply))
}

/// Returns the body of a request to a server.
fn request_body(id: &str, run_request: RunRequest) -> Value {
    let fields = match run_request {
        RunRequest::Cancel { reason } => vec![("reason", Value::from(reason))],
        RunRequest::Signal { name, payload } => vec![("name", Value::from(name)), ("data", payload)],
        _ => Vec::new(),
    };
    Value::object(fields.into_iter().chain([("request_id", Value::from(id))]))
}

/// Prints the reply, with the word and the note for a signal that no node waits for.
pub(crate) fn print_reply(
    global: &GlobalArgs,
    runs: &Runs,
    row: &RunRow,
    (id, what): (&str, &str),
    reply: RequestReply,
) -> Result<CliExit, CliFailure> {
    let RequestReply { outcome: answer, undelivered } = reply;
    let run = &row.run;
    let (resume, server) = match runs {
        Runs::Store(store) => {
            let server = Some(row).filter(|_| answer == RequestOutcome::Queued);
            (stores::resume_hint(global, &**store, row)?, server.and_then(|row| stores::server_address(global, row)))
        }
        Runs::Server(server) => (stores::command(global, &format!("resume {}", row.run)), Some(server.api.url.clone())),
    };
    let (word, sentence) = match answer {
        RequestOutcome::Queued if server.is_some() => {
            let address = server.as_deref().unwrap_or_default();
            ("buffered", format!("{what}: buffered; the server at {address} applies it"))
        }
        RequestOutcome::Delivered if what == "pause" => {
            ("delivered", format!("pause: delivered to the process that runs {run}; resume it with\n  {resume}"))
        }
        RequestOutcome::Delivered => ("delivered", format!("{what}: delivered to the process that runs {run}")),
        RequestOutcome::Queued if what == "pause" => {
            let sentence =
                format!("pause: buffered; no process runs {run}, so it is not running; resume it with\n  {resume}");
            ("buffered", sentence)
        }
        RequestOutcome::Queued => {
            ("buffered", format!("{what}: buffered; no process runs {run}; it takes effect with\n  {resume}"))
        }
        RequestOutcome::Duplicate => {
            ("repeated", format!("{what}: the request `{id}` was made before; nothing was done"))
        }
        RequestOutcome::Ended => ("ended", format!("{what}: {run} has ended already; nothing was done")),
    };
    let undelivered = undelivered.filter(|_| matches!(answer, RequestOutcome::Delivered | RequestOutcome::Queued));
    let word = undelivered.as_ref().map_or(word, |(word, _)| word);
    let note = undelivered.map(|(_, note)| note);
    match (global.json, &note) {
        (true, _) => {
            let facts =
                [("run", Value::from(run.clone())), ("request", Value::from(id)), ("delivery", Value::from(word))];
            let note = note.map(|note| ("note", Value::from(note)));
            out::print_json(&Value::object(facts.into_iter().chain(note)))?;
        }
        (false, None) => out::print(&sentence)?,
        (false, Some(note)) => out::print(&format!("{sentence}\n{note}"))?,
    }
    Ok(if answer == RequestOutcome::Ended { CliExit::Failed } else { CliExit::Success })
}
