//! `windlass repair`

use windlass_store_sqlite::RepairReport;
use windlass_value::Value;

use crate::args::{GlobalArgs, RepairArgs};
use crate::failure::{CliExit, CliFailure};
use crate::{out, stores};

pub(crate) fn repair(global: &GlobalArgs, args: &RepairArgs) -> Result<CliExit, CliFailure> {
    crate::runs::require_store(global, "repair")?;
    let directory = stores::directory(global);
    if !directory.is_dir() {
        return Err(CliFailure::usage(format!("there is no store in {}", directory.display()))
            .hint("--store or WINDLASS_STORE names another"));
    }
    let report = windlass_store_sqlite::repair(&directory, args.dry_run)?;
    match global.json {
        true => out::print_json(&to_value(&report))?,
        false => print(global, &report, args.dry_run)?,
    }
    // A dry run that finds something is a check that found a problem.
    Ok(if args.dry_run && !report.problems.is_empty() { CliExit::Failed } else { CliExit::Success })
}

fn print(global: &GlobalArgs, report: &RepairReport, dry_run: bool) -> Result<(), CliFailure> {
    if report.problems.is_empty() {
        return out::print("nothing to repair: the files belong together and have every commit");
    }
    let sections =
        [("wrong", &report.problems), ("repair", &report.actions), ("saved", &report.saved), ("lost", &report.lost)];
    for (name, lines) in sections {
        for line in lines {
            out::print(&format!("{name}: {line}"))?;
        }
    }
    if report.lost.is_empty() {
        out::print("lost: nothing")?;
    }
    match &report.copy {
        Some(copy) => out::print(&format!("done; the files as they were are in {}", copy.display())),
        None if dry_run => {
            out::print(&format!("nothing was changed; to repair it: {}", stores::command(global, "repair")))
        }
        None => Ok(()),
    }
}

fn to_value(report: &RepairReport) -> Value {
    let list = |lines: &[String]| Value::list(lines.iter().map(|line| Value::from(line.as_str())).collect());
    let copy = report.copy.as_ref().map(|copy| copy.display().to_string());
    Value::object([
        ("problems", list(&report.problems)),
        ("actions", list(&report.actions)),
        ("saved", list(&report.saved)),
        ("lost", list(&report.lost)),
        ("copy", Value::from(copy.as_deref())),
    ])
}
