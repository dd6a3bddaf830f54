//! `windlass list`

use windlass_runtime::inspect::{ListedStatus, OwnerProbe, filter_by_status, run_duration};
use windlass_store::{RunFilter, RunRow, Store};
use windlass_syntax::nearest;
use windlass_value::Value;

use crate::args::{self, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::runs::Runs;
use crate::{out, stores, text};

pub(crate) fn list(global: &GlobalArgs, args: &args::ListArgs) -> Result<CliExit, CliFailure> {
    let status = args.status.as_deref().map(parse_status).transpose()?;
    let runs = Runs::open(global)?;
    let max_rows = if args.all { usize::MAX } else { args.limit as usize };
    // Reads one row more than shown, to know whether there are more.
    let mut rows = match (&runs, max_rows.saturating_add(1)) {
        (_, 1) => Vec::new(),
        (Runs::Store(store), rows) => stored_rows(&**store, status, args.children, rows)?,
        (Runs::Server(server), rows) => server.list(status, args.children, rows)?,
    };
    let more = rows.len() > max_rows;
    rows.truncate(max_rows);
    if global.json {
        out::print_json(&Value::list(rows.iter().map(to_value).collect()))?;
        return Ok(CliExit::Success);
    }
    out::print(&show(&rows))?;
    let is_interrupted =
        |(status, row): &&ListedRun| *status == ListedStatus::Interrupted && row.check_format().is_ok();
    let interrupted = rows.iter().find(is_interrupted);
    if let Some((_, row)) = interrupted {
        let resume = match &runs {
            Runs::Store(store) => stores::resume_hint(global, &**store, row)?,
            Runs::Server(_) => stores::command(global, &format!("resume {}", row.run)),
        };
        out::note(&format!("no process runs an interrupted run; to resume {}: {resume}", row.run));
    }
    for (_, row) in &rows {
        if let Some(why) = windlass_runtime::quarantine_reason(row) {
            let look = crate::stores::command(global, &format!("replay {}", row.run));
            out::note(&format!("{} is quarantined: {}\n  hint: {look}", row.run, why.message));
        }
        if let Err(error) = row.check_format() {
            out::note(&format!("{}\n  hint: {}", error.message, error.hint.unwrap_or_default()));
        }
    }
    if more {
        out::note("there are more: --limit N or --all shows them");
    }
    Ok(CliExit::Success)
}

/// A run with the status under which it is listed.
type ListedRun = (ListedStatus, RunRow);

/// Reads up to `max_rows` runs of a store, newest first.
fn stored_rows(
    store: &dyn Store,
    status: Option<ListedStatus>,
    children: bool,
    max_rows: usize,
) -> Result<Vec<ListedRun>, CliFailure> {
    let filter = filter_by_status(store, RunFilter::default(), status.as_slice())?;
    let mut rows = Vec::new();
    stores::each_run(store, &filter, |row| {
        if children || row.parent.is_none() {
            rows.push(row);
        }
        rows.len() < max_rows
    })?;
    let mut probe = OwnerProbe::new(store);
    rows.into_iter().map(|row| Ok((probe.status(&row)?, row))).collect()
}

fn parse_status(word: &str) -> Result<ListedStatus, CliFailure> {
    ListedStatus::parse(&word.to_lowercase()).ok_or_else(|| {
        let words: Vec<&str> = ListedStatus::all().map(ListedStatus::as_str).collect();
        let failure = CliFailure::usage(format!("`{word}` is not a run status"));
        match nearest(word, words.iter().copied()) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint(words.join(", ")),
        }
    })
}

fn show(rows: &[ListedRun]) -> String {
    if rows.is_empty() {
        return "no runs".to_owned();
    }
    let head = ["RUN", "DEFINITION", "STATUS", "AGE", "DURATION", "TICKS"].map(str::to_owned).to_vec();
    let line = |(status, row): &ListedRun| {
        vec![
            row.run.to_string(),
            text::truncate(&text::one_line(&row.definition), 32),
            status.as_str().to_owned(),
            text::format_duration(windlass_runtime::real_now().since(row.created_at)),
            text::format_duration(run_duration(row)),
            row.ticks.to_string(),
        ]
    };
    text::table(&std::iter::once(head).chain(rows.iter().map(line)).collect::<Vec<_>>())
}

fn to_value((status, row): &ListedRun) -> Value {
    let mut value = Value::object([
        ("run", Value::from(row.run.clone())),
        ("definition", Value::from(row.definition.as_str())),
        ("dialect", Value::from(row.dialect.as_str())),
        ("status", Value::from(status.as_str())),
        ("created_at", Value::from(row.created_at.to_string())),
        ("changed_at", Value::from(row.changed_at.to_string())),
        ("duration_ms", Value::from(run_duration(row).as_ms())),
        ("ticks", Value::from(row.ticks)),
        ("parent", Value::from(row.parent.clone())),
    ]);
    if let (Some(why), Value::Map(map)) = (windlass_runtime::quarantine_reason(row), &mut value) {
        std::sync::Arc::make_mut(map).insert("error", windlass_runtime::error_value(&why));
    }
    value
}
