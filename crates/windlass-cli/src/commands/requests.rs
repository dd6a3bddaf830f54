//! `windlass pause`, `cancel` and `signal`: messages to whoever runs the run, now or later.

use std::sync::Arc;

use windlass_core::hearing;
use windlass_runtime::show::undelivered_signal_note;
use windlass_runtime::{Answer, Request, new_run_id, request};
use windlass_store::{RunRow, RunStatus, Store};
use windlass_tools::approval;
use windlass_value::Value;

use super::approvals;
use crate::args::{self, Global};
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::{host, image, inputs, out, stores};

pub(crate) fn pause(global: &Global, args: &args::Ask) -> Result<Exit, Failure> {
    let row = stores::find(&*stores::open(global)?, &args.run)?;
    if row.status == RunStatus::Pending {
        let run = row.run;
        let failure = Failure::usage(format!("the run `{run}` waits for its turn: there is nothing to pause"));
        return Err(failure.hint(format!("`windlass cancel {run}` calls it off; it can be paused when it has begun")));
    }
    ask(global, &args.run, args.request_id.as_deref(), "pause", Request::Pause)
}

pub(crate) fn cancel(global: &Global, args: &args::Cancel) -> Result<Exit, Failure> {
    let wish = Request::Cancel { reason: args.reason.clone() };
    ask(global, &args.ask.run, args.ask.request_id.as_deref(), "cancel", wish)
}

pub(crate) fn signal(global: &Global, args: &args::Signal) -> Result<Exit, Failure> {
    let given = args.data.as_deref().map(|data| payload(Some(data))).transpose()?;
    let store = stores::open(global)?;
    let run = stores::find(&*store, &args.run)?.run;
    let check = approval::check_signal(&*store, &run, &args.name, None, given.as_ref());
    host::runtime()?.block_on(check).map_err(|refused| {
        let hint = format!("`windlass approvals {run}` shows what it asks, `windlass approve {run}` answers");
        approvals::failure(refused).hint(hint)
    })?;
    let payload = given.unwrap_or_default();
    let unheard = undelivered_signal_note(global, &*store, &run, &args.name, &payload)?;
    let wish = Request::Signal { name: args.name.clone(), payload };
    let (row, id, answer) = asked(&*store, &run, args.request_id.as_deref(), "signal", wish)?;
    tell_with(global, &*store, &row, (&id, "signal"), &answer, undelivered_signal_note)
}

/// The answer to a signal that nothing waits for, as the run stands.
fn undelivered_signal_note(
    global: &Global,
    store: &dyn Store,
    run: &Arc<str>,
    name: &str,
    payload: &Value,
) -> Result<Option<(&'static str, String)>, Failure> {
    let row = stores::find(store, run)?;
    if row.status.is_final() || row.status == RunStatus::Quarantined {
        return Ok(None);
    }
    // One that cannot be read is told all the same.
    let seen = image::load(store, run, &Settings::load(global)?.limits).ok();
    let delivery = seen.map(|seen| predict_delivery(&seen.program, &seen.image.state, &name.into(), payload, None));
    Ok(delivery.and_then(|how| undelivered_signal_note(how, name, None)))
}

pub(crate) fn payload(data: Option<&str>) -> Result<Value, Failure> {
    match data.map(|data| (data, data.strip_prefix('@'))) {
        None => Ok(Value::Null),
        Some((_, Some(path))) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("could not read the data: {error}")).place(path))?;
            inputs::parsed(&text, path)
        }
        Some((data, None)) => {
            inputs::parsed(data, "--data").map_err(|failure| failure.hint("text needs quotes: '\"yes\"'"))
        }
    }
}

fn ask(global: &Global, run: &str, id: Option<&str>, what: &str, wish: Request) -> Result<Exit, Failure> {
    let store = stores::open(global)?;
    let (row, id, answer) = asked(&*store, run, id, what, wish)?;
    tell(global, &*store, &row, &id, what, &answer)
}

fn asked(
    store: &dyn Store,
    run: &str,
    id: Option<&str>,
    what: &str,
    wish: Request,
) -> Result<(RunRow, String, Answer), Failure> {
    let row = stores::find(store, run)?;
    let id = id.map_or_else(|| format!("{what}-{}", new_run_id()), str::to_owned);
    let answer = request(store, &row.run, &id, wish)?;
    Ok((row, id, answer))
}

pub(crate) fn tell(
    global: &Global,
    store: &dyn Store,
    row: &RunRow,
    id: &str,
    what: &str,
    answer: &Answer,
) -> Result<Exit, Failure> {
    tell_with(global, store, row, (id, what), answer, None)
}

/// With the word and the sentence for a signal that nothing waits for.
fn tell_with(
    global: &Global,
    store: &dyn Store,
    row: &RunRow,
    (id, what): (&str, &str),
    answer: &Answer,
    unheard: Option<(&'static str, String)>,
) -> Result<Exit, Failure> {
    let run = &row.run;
    let resume = stores::way_on(global, store, row)?;
    let server = match answer {
        Answer::Queued => stores::server_for(global, row),
        _ => None,
    };
    let (word, sentence) = match answer {
        Answer::Queued if server.is_some() => {
            let address = server.as_deref().unwrap_or_default();
            ("kept", format!("{what}: kept; the server on {address} takes it up"))
        }
        Answer::Delivered if what == "pause" => {
            ("delivered", format!("pause: delivered to the process that runs {run}; it goes on with\n  {resume}"))
        }
        Answer::Delivered => ("delivered", format!("{what}: delivered to the process that runs {run}")),
        Answer::Queued if what == "pause" => {
            let sentence =
                format!("pause: kept; nobody runs {run} now, so it stands still already, and goes on with\n  {resume}");
            ("kept", sentence)
        }
        Answer::Queued => ("kept", format!("{what}: kept; nobody runs {run} now, it takes effect with\n  {resume}")),
        Answer::Duplicate => ("repeated", format!("{what}: the request `{id}` was made before; once is enough")),
        Answer::Ended => ("ended", format!("{what}: {run} has ended already; nothing was done")),
    };
    let unheard = undelivered_signal_note.filter(|_| matches!(answer, Answer::Delivered | Answer::Queued));
    let word = undelivered_signal_note.as_ref().map_or(word, |(word, _)| word);
    let note = undelivered_signal_note.map(|(_, note)| note);
    match (global.json, &note) {
        (true, _) => {
            let facts =
                [("run", Value::from(run.clone())), ("request", Value::from(id)), ("answer", Value::from(word))];
            let note = note.map(|note| ("note", Value::from(note)));
            out::print_json(&Value::object(facts.into_iter().chain(note)))?;
        }
        (false, None) => out::print(&sentence)?,
        (false, Some(note)) => out::print(&format!("{sentence}\n{note}"))?,
    }
    Ok(if *answer == Answer::Ended { Exit::Otherwise } else { Exit::Good })
}
