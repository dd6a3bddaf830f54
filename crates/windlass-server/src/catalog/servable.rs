//! Checks that a server can offer a plan under its names.

use windlass_core::plan::Plan;
use windlass_runtime::real_now;
use windlass_syntax::{DiagnosticReport, Severity};
use windlass_triggers::Schedule;
use windlass_triggers::schedule::NEVER_FIRES;

use crate::api::extract::{NAME_RULES, is_definition_name, is_path_segment, printable};
use crate::problem::codes;

/// Returns problems of a runnable plan that prevent its registration: names that do not fit URLs and keys, and
/// schedules that never fire.
pub(super) fn check_servable(plan: &Plan) -> Vec<DiagnosticReport> {
    let report = |message: String, hint: &str| DiagnosticReport {
        code: codes::INVALID_DEFINITION,
        name: None,
        severity: Severity::Error,
        message,
        file: printable(&plan.name),
        line: 1,
        column: 1,
        end_line: 1,
        end_column: 1,
        hint: Some(hint.to_owned()),
    };
    let mut found = Vec::new();
    if !is_definition_name(&plan.name) {
        found.push(report(format!("{:?} cannot be the name of a definition", printable(&plan.name)), NAME_RULES));
    }
    for trigger in &plan.triggers {
        if !is_path_segment(&trigger.name) {
            found.push(report(format!("{:?} cannot be the name of a trigger", printable(&trigger.name)), NAME_RULES));
        }
        if Schedule::from_trigger(trigger, real_now())
            .is_ok_and(|schedule| schedule.is_some_and(|schedule| !schedule.ever_fires()))
        {
            let message = format!("the trigger `{}`: {NEVER_FIRES}", printable(&trigger.name));
            found.push(report(message, "check the interval and the days of its recurrence"));
        }
    }
    found
}
