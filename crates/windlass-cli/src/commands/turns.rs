//! `windlass turns RUN [LOOP]`

use std::collections::BTreeMap;

use windlass_core::{Reason, Status, TurnRecord};
use windlass_runtime::codec::{self, TurnPack};
use windlass_store::{RunRow, Store, TurnRow};
use windlass_syntax::nearest;
use windlass_value::{Map, Value};

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{image, out, report, stores, text};

/// Rows read at first; doubled until the page is full.
const ROWS_AT_FIRST: u32 = 64;

pub fn turns(global: &Global, args: &args::Turns) -> Result<Exit, Failure> {
    let store = stores::open(global)?;
    let row = stores::find(&*store, &args.run)?;
    match &args.r#loop {
        None => loops(global, &*store, &row),
        Some(path) => page(global, &*store, &row.run, path, args),
    }
}

fn loops(global: &Global, store: &dyn Store, row: &RunRow) -> Result<Exit, Failure> {
    let run = &*row.run;
    // A loop that ends between two turns says why in the run's result only.
    let report = image::report_of(row)?;
    let steps = report.iter().flat_map(|report| &report.steps);
    let ends: BTreeMap<&str, Reason> =
        steps.filter_map(|(name, step)| Some((&**name, step.looping.as_ref()?.reason))).collect();
    let mut found = Vec::new();
    for path in store.loops(run)? {
        let kept = unpacked(store.turns(run, &path, 0, u32::MAX)?)?;
        // One that the loop itself has cut off has not failed.
        let failed = kept.iter().filter(|turn| matches!(turn.status, Status::Failed | Status::TimedOut)).count();
        let reason = kept.iter().rev().find_map(|turn| turn.reason).or_else(|| ends.get(path.as_str()).copied());
        let turns = kept.last().map_or(0, |turn| turn.index + 1);
        found.push((path, turns, kept.len(), failed, reason.map(|reason| reason.as_str())));
    }
    if global.json {
        let entry = |(path, turns, kept, failed, reason): &(String, u64, usize, usize, Option<&'static str>)| {
            Value::object([
                ("loop", Value::from(path.as_str())),
                ("turns", Value::from(*turns)),
                ("kept", Value::from(*kept)),
                ("failed", Value::from(*failed)),
                ("reason", Value::from(*reason)),
            ])
        };
        out::print_json(&Value::list(found.iter().map(entry).collect()))?;
        return Ok(Exit::Good);
    }
    if found.is_empty() {
        out::print("no loop has ended a turn")?;
        return Ok(Exit::Good);
    }
    let head = ["LOOP", "TURNS", "KEPT", "FAILED", "ENDED BY"].map(str::to_owned).to_vec();
    let line = |(path, turns, kept, failed, reason): (String, u64, usize, usize, Option<&'static str>)| {
        vec![path, turns.to_string(), kept.to_string(), failed.to_string(), reason.unwrap_or_default().to_owned()]
    };
    out::print(&text::table(&std::iter::once(head).chain(found.into_iter().map(line)).collect::<Vec<_>>()))?;
    Ok(Exit::Good)
}

fn page(global: &Global, store: &dyn Store, run: &str, path: &str, args: &args::Turns) -> Result<Exit, Failure> {
    let mut turns = read(store, run, path, args)?;
    if turns.is_empty() {
        known(store, run, path)?;
    }
    let more = turns.len() > args.limit;
    turns.truncate(args.limit);
    let missing = if args.failed { Vec::new() } else { missing(&turns, args.from) };
    let next = turns.last().map(|turn| turn.index + 1).filter(|_| more);
    if global.json {
        let object = Value::object([
            ("run", Value::from(run)),
            ("loop", Value::from(path)),
            ("turns", Value::list(turns.iter().map(|turn| to_value(run, turn)).collect())),
            ("not_kept", Value::list(missing.iter().map(range_value).collect())),
            ("next", Value::from(next)),
        ]);
        out::print_json(&object)?;
        return Ok(Exit::Good);
    }
    out::print(&if turns.is_empty() { "no such turn is kept".to_owned() } else { show(&turns) })?;
    if !missing.is_empty() {
        out::note(&format!("not kept: {}", missing.iter().map(range_words).collect::<Vec<_>>().join(", ")));
    }
    if let Some(next) = next {
        let failed = if args.failed { " --failed" } else { "" };
        out::note(&format!(
            "more: {}",
            stores::command(global, &format!("turns {run} '{path}' --from {next}{failed}"))
        ));
    }
    Ok(Exit::Good)
}

/// The turns that a page jumps over, first and last: dropped to keep histories small, or not ended yet.
fn missing(turns: &[TurnRecord], from: u64) -> Vec<(u64, u64)> {
    let mut expected = from;
    let mut gaps = Vec::new();
    for turn in turns {
        if turn.index > expected {
            gaps.push((expected, turn.index - 1));
        }
        expected = turn.index + 1;
    }
    gaps
}

fn range_value(&(from, to): &(u64, u64)) -> Value {
    Value::object([("from", Value::from(from)), ("to", Value::from(to))])
}

fn range_words(&(from, to): &(u64, u64)) -> String {
    if from == to { format!("turn {from}") } else { format!("turns {from} to {to}") }
}

/// A page and one more turn, in order of index. Rows hold many turns, and those of failed ones lie beside the others, so
/// a row's turns are only complete up to where the last row read begins.
fn read(store: &dyn Store, run: &str, path: &str, args: &args::Turns) -> Result<Vec<TurnRecord>, Failure> {
    let wanted = args.limit.saturating_add(1);
    let mut rows_max = ROWS_AT_FIRST;
    loop {
        let rows = store.turns(run, path, args.from, rows_max)?;
        let complete = (rows.len() as u32) < rows_max;
        let sure_until = if complete { u64::MAX } else { rows.last().map_or(u64::MAX, |row| row.first) };
        let mut turns = unpacked(rows)?;
        turns.retain(|turn| {
            turn.index >= args.from && turn.index < sure_until && (!args.failed || turn.status.is_bad())
        });
        if complete || turns.len() >= wanted || rows_max == u32::MAX {
            turns.truncate(wanted);
            return Ok(turns);
        }
        rows_max = rows_max.saturating_mul(4);
    }
}

/// In order, each index once: after a crash a turn may have been written twice, the later one counts.
fn unpacked(rows: Vec<TurnRow>) -> Result<Vec<TurnRecord>, Failure> {
    let mut turns = BTreeMap::new();
    for row in rows {
        let TurnPack(pack) = codec::decode(&row.body, "a loop's history")?;
        turns.extend(pack.into_iter().map(|turn| (turn.index, turn)));
    }
    Ok(turns.into_values().collect())
}

/// A loop that has no history at all is probably a slip.
fn known(store: &dyn Store, run: &str, path: &str) -> Result<(), Failure> {
    let paths = store.loops(run)?;
    if paths.iter().any(|known| known == path) {
        return Ok(());
    }
    let failure = Failure::usage(format!("no loop `{path}` has ended a turn in this run"));
    Err(match nearest(path, paths.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint(format!("`windlass turns {run}` shows the loops")),
    })
}

fn show(turns: &[TurnRecord]) -> String {
    let head = ["TURN", "STATUS", "TOOK", "CONDITION", "RESULT"].map(str::to_owned).to_vec();
    let line = |turn: &TurnRecord| {
        let result = turn.error.as_ref().map_or_else(
            || text::short(&turn.result, 100),
            |error| format!("[{}] {}", error.code, text::cut(&text::one_line(&error.message), 100)),
        );
        let condition = turn.condition.map(|met| met.to_string()).unwrap_or_default();
        vec![turn.index.to_string(), turn.status.as_str().to_owned(), text::span(turn.duration), condition, result]
    };
    let table = text::table(&std::iter::once(head).chain(turns.iter().map(line)).collect::<Vec<_>>());
    // It is kept with the turn that ended last, which need not be the last of the list.
    match turns.iter().find_map(|turn| turn.reason) {
        Some(reason) => format!("{table}\nended by: {}", reason.as_str()),
        None => table,
    }
}

fn to_value(run: &str, turn: &TurnRecord) -> Value {
    let mut map = Map::new();
    map.insert("iteration", turn.index);
    map.insert("status", turn.status.as_str());
    map.insert("started_at", turn.started_at.to_string());
    map.insert("duration", turn.duration.as_ms());
    map.insert("conditionResult", turn.condition);
    map.insert("result", turn.result.clone());
    if let Some(error) = &turn.error {
        map.insert("error", report::of_run(error.clone(), run).to_value());
    }
    if let Some(reason) = turn.reason {
        map.insert("reason", reason.as_str());
    }
    Value::map(map)
}
