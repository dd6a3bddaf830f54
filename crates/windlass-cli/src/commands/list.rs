//! `windlass list`

use windlass_runtime::show::duration_of;
use windlass_store::{RunFilter, RunRow, RunStatus};
use windlass_syntax::nearest;
use windlass_value::Value;

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{out, stores, text};

pub(crate) fn list(global: &Global, args: &args::List) -> Result<Exit, Failure> {
    let status = args.status.as_deref().map(status_of).transpose()?;
    let store = stores::open(global)?;
    let max_rows = if args.all { usize::MAX } else { args.limit as usize };
    let mut rows = Vec::new();
    if max_rows > 0 {
        stores::each_run(&*store, &RunFilter { status, ..RunFilter::default() }, |row| {
            if args.children || row.parent.is_none() {
                rows.push(row);
            }
            // One more than shown, to know whether there are more.
            rows.len() <= max_rows
        })?;
    }
    let more = rows.len() > max_rows;
    rows.truncate(max_rows);
    if global.json {
        out::print_json(&Value::list(rows.iter().map(to_value).collect()))?;
        return Ok(Exit::Good);
    }
    out::print(&show(&rows))?;
    for row in &rows {
        if let Some(why) = windlass_runtime::quarantine_reason(row) {
            let look = crate::stores::command(global, &format!("replay {}", row.run));
            out::note(&format!("{} is set aside: {}\n  hint: {look}", row.run, why.message));
        }
        if let Err(error) = row.check_format() {
            out::note(&format!("{}\n  hint: {}", error.message, error.hint.unwrap_or_default()));
        }
    }
    if more {
        out::note("there are more: --limit N or --all shows them");
    }
    Ok(Exit::Good)
}

fn status_of(word: &str) -> Result<RunStatus, Failure> {
    RunStatus::parse(&word.to_lowercase()).ok_or_else(|| {
        let words = RunStatus::ALL.map(RunStatus::as_str);
        let failure = Failure::usage(format!("`{word}` is no status of a run"));
        match nearest(word, words) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure.hint(words.join(", ")),
        }
    })
}

fn show(rows: &[RunRow]) -> String {
    if rows.is_empty() {
        return "no runs".to_owned();
    }
    let head = ["RUN", "DEFINITION", "STATUS", "AGE", "DURATION", "TICKS"].map(str::to_owned).to_vec();
    let line = |row: &RunRow| {
        vec![
            row.run.to_string(),
            text::cut(&text::one_line(&row.definition), 32),
            row.status.as_str().to_owned(),
            text::span(windlass_runtime::real_now().since(row.created_at)),
            text::span(duration_of(row)),
            row.ticks.to_string(),
        ]
    };
    text::table(&std::iter::once(head).chain(rows.iter().map(line)).collect::<Vec<_>>())
}

fn to_value(row: &RunRow) -> Value {
    let mut value = Value::object([
        ("run", Value::from(row.run.clone())),
        ("definition", Value::from(row.definition.as_str())),
        ("dialect", Value::from(row.dialect.as_str())),
        ("status", Value::from(row.status.as_str())),
        ("created_at", Value::from(row.created_at.to_string())),
        ("changed_at", Value::from(row.changed_at.to_string())),
        ("duration_ms", Value::from(duration_of(row).as_ms())),
        ("ticks", Value::from(row.ticks)),
        ("parent", Value::from(row.parent.clone())),
    ]);
    if let (Some(why), Value::Map(map)) = (windlass_runtime::quarantine_reason(row), &mut value) {
        std::sync::Arc::make_mut(map).insert("error", why.to_value());
    }
    value
}
