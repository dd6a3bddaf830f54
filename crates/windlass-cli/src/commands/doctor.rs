//! `windlass doctor`

use windlass_core::Limits;
use windlass_runtime::RuntimeError;
use windlass_runtime::inspect::{live_owner, run_time_now};
use windlass_store::{IsolatedRow, RunFilter, RunRow, RunStatus, Store, StoreError, StoreErrorKind};
use windlass_value::Value;

use super::tree;
use crate::args::{DoctorArgs, GlobalArgs};
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure, owner_name};
use crate::{image, out, stores, text};

/// The share of time that the search for damage works: others use the store meanwhile.
const BUSY_PERCENT: u32 = 50;

struct Finding {
    run: Option<String>,
    what: String,
    hint: String,
}

pub(crate) fn doctor(global: &GlobalArgs, args: &DoctorArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "doctor")?;
    let settings = CliSettings::load(global)?;
    let store = stores::open(global)?;
    let found = store.scrub(BUSY_PERCENT)?.findings;
    let isolated = store.damage()?;
    // A row that can be removed is listed once, with how.
    let found = found.into_iter().filter(|what| !isolated.iter().any(|row| row.reason == *what));
    let whole = |what| Finding { run: None, what, hint: "copy the store's directory first".to_owned() };
    let mut findings: Vec<Finding> = found.map(whole).collect();
    findings.extend(isolated.iter().map(|row| damaged_row(global, row)));
    findings.extend(check_audit_log(global, args.audit_from));
    let mut open = Vec::new();
    stores::each_run(&*store, &RunFilter { unfinished: true, ..RunFilter::default() }, |row| {
        open.push(row);
        true
    })?;
    for row in &open {
        findings.extend(check_run(global, &*store, row, &settings.limits)?);
    }
    show(global, &findings, open.len())?;
    Ok(if findings.is_empty() { CliExit::Success } else { CliExit::Failed })
}

/// Describes a damaged row without which everything else works.
fn damaged_row(global: &GlobalArgs, row: &IsolatedRow) -> Finding {
    let remove = stores::command(global, &format!("clean --damaged {}", row.id));
    let hint =
        format!("copy the store's directory first; everything else works without it, and this removes it: {remove}");
    Finding { run: Some(row.name.clone().unwrap_or_else(|| row.id.to_string())), what: row.reason.clone(), hint }
}

/// Checks whether the audit log of the server was modified.
fn check_audit_log(global: &GlobalArgs, archived_until: Option<u64>) -> Vec<Finding> {
    let found = match windlass_server::audit::verify(&stores::directory(global), archived_until) {
        Ok(checked) => checked.findings,
        Err(error) => vec![format!("the audit log cannot be read: {error}")],
    };
    let hint = "copy the log first, then find out who had write access to the store's directory";
    found.into_iter().map(|what| Finding { run: None, what, hint: hint.to_owned() }).collect()
}

/// Checks that an open run can make progress: it has a live owner, a server or a timer, or it waits or is paused until
/// a user acts.
fn check_run(
    global: &GlobalArgs,
    store: &dyn Store,
    row: &RunRow,
    limits: &Limits,
) -> Result<Option<Finding>, CliFailure> {
    let finding = |what: String, hint: String| Ok(Some(Finding { run: Some(row.run.to_string()), what, hint }));
    let replay = || stores::command(global, &format!("replay {}", row.run));
    let newer = |error: StoreError| finding(error.message, error.hint.unwrap_or_default());
    if let Err(error) = row.check_format() {
        return newer(error);
    }
    if row.status == RunStatus::Quarantined {
        let why = windlass_runtime::quarantine_reason(row).map_or_else(String::new, |error| error.message.to_string());
        let remove = stores::command(global, &format!("clean --damaged {}", row.run));
        return finding(format!("it is quarantined: {why}"), format!("{}; to remove it: {remove}", replay()));
    }
    if live_owner(store, row)?.is_some() {
        return Ok(None);
    }
    let state =
        match image::program(store, row, limits).and_then(|program| windlass_runtime::load(store, row, &program)) {
            Ok(image) => image.state,
            Err(RuntimeError::Store(error)) if error.kind == StoreErrorKind::NeedsNewer => return newer(error),
            Err(error) => return finding(format!("it cannot be rebuilt: {error}"), replay()),
        };
    if stores::server_address(global, row).is_some() {
        return Ok(None);
    }
    let overdue = row.timer.and_then(|due| tree::format_overdue(due, run_time_now(row, state.now)));
    match &row.owner {
        // The run only waits for input from outside: its dead owner left no unfinished work, and no timer that no
        // process would notice.
        Some(_) if state.is_idle() => Ok(None),
        Some(owner) => finding(
            format!("its owner, {}, is no longer running", owner_name(owner)),
            stores::resume_hint(global, store, row)?,
        ),
        None if state.paused => Ok(None),
        None if overdue.is_some() => finding(
            format!("no process runs it, and its timer is {}", overdue.unwrap_or_default()),
            stores::resume_hint(global, store, row)?,
        ),
        None if row.timer.is_some() || !state.waits.is_empty() => Ok(None),
        None => {
            let what = "it is open but stuck: no process runs it, and it has no timer and no wait".to_owned();
            finding(what, stores::resume_hint(global, store, row)?)
        }
    }
}

fn show(global: &GlobalArgs, findings: &[Finding], open: usize) -> Result<(), CliFailure> {
    if global.json {
        let entry = |finding: &Finding| {
            Value::object([
                ("run", Value::from(finding.run.as_deref())),
                ("finding", Value::from(finding.what.as_str())),
                ("hint", Value::from(finding.hint.as_str())),
            ])
        };
        return out::print_json(&Value::list(findings.iter().map(entry).collect()));
    }
    for finding in findings {
        let run = finding.run.as_deref().unwrap_or("store");
        out::print(&format!("{run}: {}\n  hint: {}", finding.what, finding.hint))?;
    }
    let open_runs = text::pluralize(open as u64, "open run");
    match findings.len() {
        0 => out::print(&format!("no problems: {open_runs}, no damage")),
        count => out::print(&format!("{}, {}", text::pluralize(count as u64, "finding"), open_runs)),
    }
}
