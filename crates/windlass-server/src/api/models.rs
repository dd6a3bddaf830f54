//! Response objects shared by several routes.

#![deny(clippy::missing_docs_in_private_items)]

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use windlass_core::ErrorInfo;
use windlass_core::plan::{Plan, VariableKind};
use windlass_runtime::RuntimeError;
use windlass_runtime::adapters::CHILD_FACT;
use windlass_runtime::inspect::{ListedStatus, OwnerProbe, run_duration, run_error, source_span};
use windlass_store::{IsolatedRow, RunRow, StoreError};
use windlass_syntax::{SourceText, Span, render_excerpt};
use windlass_value::Value;

use crate::App;

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListPage<T> {
    /// The entries of the page.
    pub items: Vec<T>,
    /// The mark of the next page; null on the last page.
    #[schema(value_type = serde_json::Value)]
    pub next: Option<Value>,
}

/// A run in a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct RunSummary {
    /// The id of the run.
    pub run: String,
    /// The number that identifies the run besides its id, in decimal digits: programs that read JSON numbers as floats
    /// would round it.
    pub execution_id: String,
    /// Creation order: the mark for the next page.
    pub number: i64,
    /// Name of the definition.
    pub definition: String,
    /// Version of the definition, if it was registered here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Name of the dialect.
    pub dialect: String,
    /// pending, running, interrupted (it has work to do, and no process runs it), waiting, paused, succeeded, failed,
    /// skipped, cancelled, timed_out, quarantined
    pub status: String,
    /// RFC 3339
    pub created_at: String,
    /// Time of the last status change, RFC 3339.
    pub changed_at: String,
    /// Time from creation to the end; until now, if the run has not ended.
    pub duration_ms: u64,
    /// The number of ticks in the journal, trimmed ones included.
    pub ticks: u64,
    /// The id of the parent run, for a child run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The labels of the run, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Present if the run did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

impl RunSummary {
    /// Describes a run, with an error that has no position: the plan is not read.
    pub(crate) fn from_row(app: &App, row: &RunRow, status: ListedStatus) -> RunSummary {
        // An unreadable result is reported when the run itself is requested.
        let error = run_error(row).ok().flatten();
        RunSummary {
            run: row.run.to_string(),
            execution_id: row.execution_id.to_string(),
            number: row.number,
            definition: row.definition.clone(),
            version: app.definitions.version_of_plan(&row.plan).map(|(_, version)| version),
            dialect: row.dialect.clone(),
            status: status.as_str().to_owned(),
            created_at: row.created_at.to_string(),
            changed_at: row.changed_at.to_string(),
            duration_ms: run_duration(row).as_ms(),
            ticks: row.ticks,
            parent: row.parent.as_ref().map(ToString::to_string),
            labels: row.labels.clone(),
            error: error.map(|error| RunError::from_error(&error, None)),
        }
    }
}

/// Describes many runs.
pub(crate) fn run_summaries(app: &App, rows: &[RunRow]) -> Result<Vec<RunSummary>, StoreError> {
    let mut probe = OwnerProbe::new(app.store.as_ref());
    rows.iter().map(|row| Ok(RunSummary::from_row(app, row, probe.status(row)?))).collect()
}

/// Describes the runs whose rows are damaged, if they match these statuses.
pub(crate) fn damaged_runs(app: &App, statuses: &[ListedStatus]) -> Result<Vec<RunSummary>, StoreError> {
    if !statuses.is_empty() && !statuses.contains(&ListedStatus::Damaged) {
        return Ok(Vec::new());
    }
    let damage = app.store.damage()?.into_iter();
    let describe = |damaged: IsolatedRow| {
        let row = damaged.run.as_deref()?;
        let id = damaged.id.to_string();
        let hint = format!("DELETE /api/v1/damage/{id} removes it");
        let error = ErrorInfo::new("Damaged", "damaged", damaged.reason.as_str()).hint(hint);
        Some(RunSummary {
            run: damaged.name.clone().unwrap_or(id),
            error: Some(RunError::from_error(&error, None)),
            ..RunSummary::from_row(app, row, ListedStatus::Damaged)
        })
    };
    Ok(damage.filter_map(describe).collect())
}

/// The error of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct RunError {
    /// The name that definitions and journals use, such as `LoopCountExceeded` or `503`.
    pub code: String,
    /// A coarse class, by which retries select errors: `timeout`, `http`, `limit`. Steps have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The error code, such as `WND-2001`. `/errors/WND-2001` is its page.
    pub reference: &'static str,
    /// A description for people.
    pub message: String,
    /// Such as `sync[3].fetch`.
    pub path: String,
    /// Advice on how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The place in the definition, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<SourcePosition>,
    /// The child run in which it happened, if it was not in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<ErrorOrigin>,
}

/// The place of an error in a child run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ErrorOrigin {
    /// The id of the child run.
    pub run: String,
    /// The path in the child run.
    pub path: String,
}

impl ErrorOrigin {
    /// Returns the child run that an error comes from; `None` for an error of the run itself.
    fn from_error(error: &ErrorInfo) -> Option<ErrorOrigin> {
        let child = error.facts.get(CHILD_FACT)?;
        let text = |name: &str| child.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(ErrorOrigin { run: text("run")?, path: text("path")? })
    }
}

impl RunError {
    /// Converts an error, with its position in the definition if the plan is available.
    pub(crate) fn from_error(error: &ErrorInfo, plan: Option<&Plan>) -> RunError {
        RunError {
            code: error.code.to_string(),
            kind: Some(error.kind.to_string()),
            reference: windlass_errors::for_run_error(&error.code, &error.kind),
            message: error.message.to_string(),
            path: error.path.to_string(),
            hint: error.hint.as_ref().map(ToString::to_string),
            position: plan.and_then(|plan| SourcePosition::locate(plan, &error.path)),
            child: ErrorOrigin::from_error(error),
        }
    }
}

/// A position in a definition's text.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct SourcePosition {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    /// The line of the end, counted from 1.
    pub end_line: usize,
    /// The column after the last character.
    pub end_column: usize,
    /// The line with a caret under it.
    pub excerpt: String,
}

impl SourcePosition {
    /// Finds the position of the node at this path. None if the plan has no such node.
    pub(crate) fn locate(plan: &Plan, path: &str) -> Option<SourcePosition> {
        let span = source_span(plan, path)?;
        let source = SourceText::new(plan.name.clone(), plan.source.clone());
        let span = Span::new(span.start as usize, span.end as usize);
        let (start, end) = (source.position(span.start), source.position(span.end));
        Some(SourcePosition {
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            excerpt: render_excerpt(&source, span),
        })
    }
}

/// A parameter of a definition.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct ParameterInfo {
    /// The name under which callers supply it.
    pub name: String,
    /// any, boolean, integer, float, string, array, object
    pub kind: &'static str,
    /// Whether a run needs it: it has no default, fixed or computed.
    pub required: bool,
    /// The fixed default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value)]
    pub default: Option<Value>,
    /// The only values that are accepted; all of the kind, if this is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<serde_json::Value>>)]
    pub allowed: Option<Vec<Value>>,
}

impl ParameterInfo {
    /// Describes all parameters of a plan, in the order of declaration.
    pub(crate) fn from_plan(plan: &Plan) -> Vec<ParameterInfo> {
        let one = |parameter: &windlass_core::plan::Parameter| ParameterInfo {
            name: parameter.name.to_string(),
            kind: match parameter.kind {
                VariableKind::Any => "any",
                VariableKind::Boolean => "boolean",
                VariableKind::Integer => "integer",
                VariableKind::Float => "float",
                VariableKind::String => "string",
                VariableKind::Array => "array",
                VariableKind::Object => "object",
            },
            required: parameter.default.is_none() && parameter.computed.is_none(),
            default: parameter.default.clone(),
            allowed: parameter.allowed.clone(),
        };
        plan.parameters.iter().map(one).collect()
    }
}

/// A trigger of a definition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggerSummary {
    /// The name of the trigger.
    pub name: String,
    /// The dialect's name of the trigger: `request`, `recurrence`.
    pub kind: String,
}

/// A trigger of a definition with its settings.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TriggerInfo {
    /// The name of the trigger.
    pub name: String,
    /// The dialect's name of the trigger: `request`, `recurrence`.
    pub kind: String,
    /// Settings from the definition: a schedule, a schema, a method.
    #[schema(value_type = serde_json::Value)]
    pub settings: Value,
}

/// Finds a run's row, or fails with `NoSuchRun`.
pub(crate) fn find_run(app: &App, run: &str) -> Result<RunRow, RuntimeError> {
    app.store.run(run)?.ok_or_else(|| RuntimeError::NoSuchRun(run.to_owned()))
}
