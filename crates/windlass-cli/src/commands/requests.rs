//! `windlass pause`, `cancel` and `signal`: messages to whoever runs the run, now or later.

use windlass_runtime::{Answer, Request, new_run_id, request};
use windlass_store::{RunRow, Store};
use windlass_tools::approval;
use windlass_value::Value;

use super::approvals;
use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{host, inputs, out, stores};

pub fn pause(global: &Global, args: &args::Ask) -> Result<Exit, Failure> {
    ask(global, &args.run, args.request_id.as_deref(), "pause", Request::Pause)
}

pub fn cancel(global: &Global, args: &args::Cancel) -> Result<Exit, Failure> {
    let wish = Request::Cancel { reason: args.reason.clone() };
    ask(global, &args.ask.run, args.ask.request_id.as_deref(), "cancel", wish)
}

pub fn signal(global: &Global, args: &args::Signal) -> Result<Exit, Failure> {
    let given = args.data.as_deref().map(|data| payload(Some(data))).transpose()?;
    let store = stores::open(global)?;
    let run = stores::find(&*store, &args.run)?.run;
    let check = approval::check_signal(&*store, &run, &args.name, None, given.as_ref());
    host::runtime()?.block_on(check).map_err(|refused| {
        let hint = format!("`windlass approvals {run}` shows what it asks, `windlass approve {run}` answers");
        approvals::failure(refused).hint(hint)
    })?;
    let wish = Request::Signal { name: args.name.clone(), payload: given.unwrap_or_default() };
    ask(global, &args.run, args.request_id.as_deref(), "signal", wish)
}

pub fn payload(data: Option<&str>) -> Result<Value, Failure> {
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
    let row = stores::find(&*store, run)?;
    let run = row.run.clone();
    let id = id.map_or_else(|| format!("{what}-{}", new_run_id()), str::to_owned);
    let answer = request(&*store, &run, &id, wish)?;
    tell(global, &*store, &row, &id, what, &answer)
}

pub fn tell(
    global: &Global,
    store: &dyn Store,
    row: &RunRow,
    id: &str,
    what: &str,
    answer: &Answer,
) -> Result<Exit, Failure> {
    let run = &row.run;
    let resume = stores::way_on(global, store, row)?;
    let server = match answer {
        Answer::Kept => stores::server_for(global, row),
        _ => None,
    };
    let (word, sentence) = match answer {
        Answer::Kept if server.is_some() => {
            let address = server.as_deref().unwrap_or_default();
            ("kept", format!("{what}: kept; the server on {address} takes it up"))
        }
        Answer::Delivered if what == "pause" => {
            ("delivered", format!("pause: delivered to the process that runs {run}; it goes on with\n  {resume}"))
        }
        Answer::Delivered => ("delivered", format!("{what}: delivered to the process that runs {run}")),
        Answer::Kept if what == "pause" => {
            let sentence =
                format!("pause: kept; nobody runs {run} now, so it stands still already, and goes on with\n  {resume}");
            ("kept", sentence)
        }
        Answer::Kept => ("kept", format!("{what}: kept; nobody runs {run} now, it takes effect with\n  {resume}")),
        Answer::Repeated => ("repeated", format!("{what}: the request `{id}` was made before; once is enough")),
        Answer::Ended => ("ended", format!("{what}: {run} has ended already; nothing was done")),
    };
    match global.json {
        true => out::print_json(&Value::object([
            ("run", Value::from(run.clone())),
            ("request", Value::from(id)),
            ("answer", Value::from(word)),
        ]))?,
        false => out::print(&sentence)?,
    }
    Ok(if *answer == Answer::Ended { Exit::Otherwise } else { Exit::Good })
}
