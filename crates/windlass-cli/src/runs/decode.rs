//! Reads the server's JSON into the types that commands print, so that a run looks the same from either place.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::state::BudgetUsage;
use windlass_core::{
    ErrorInfo, Event, EventKind, FrameView, IterationRecord, IterationVerdict, LoopEndReason, LoopSummary, LoopView,
    RunReply, Status,
};
use windlass_runtime::adapters::CHILD_FACT;
use windlass_runtime::inspect::{ListedStatus, LoopDetails, LoopDetailsByStep, LoopHistory, StoredEvent};
use windlass_runtime::{FinalReport, StepReport, codec};
use windlass_server::triggers::QueuePositionInfo;
use windlass_store::{LogRow, LogStream, RUN_FORMAT, RunLabels, RunRow, RunStatus};
use windlass_tools::StoredCredential;
use windlass_tools::approval::Approval;
use windlass_value::{BlobHash, Duration, IterationRecords, Map, Timestamp, Value};

use crate::failure::{CliExit, CliFailure, codes};

/// Statuses of live nodes, as [`FrameView::activity`] has them.
const ACTIVITIES: [&str; 6] = ["running", "waiting", "retrying", "cancelling", "paused", "interrupted"];

type Decoded<T> = Result<T, CliFailure>;

/// The failure for a response that this program does not understand.
pub(crate) fn unexpected(what: &str) -> CliFailure {
    CliFailure::new(CliExit::Failed, format!("the server's response cannot be read: {what}"))
        .code(codes::UNREACHABLE_SERVER)
        .hint("is it a Windlass server of the same version? `GET /health` of it and `windlass --version` show both")
}

fn field<'a>(value: &'a Value, name: &str) -> Decoded<&'a Value> {
    value.get(name).ok_or_else(|| unexpected(&format!("it has no `{name}`")))
}

pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Decoded<&'a str> {
    field(value, name)?.as_str().ok_or_else(|| unexpected(&format!("`{name}` is not a text")))
}

pub(crate) fn optional_text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

pub(crate) fn number(value: &Value, name: &str) -> Decoded<u64> {
    optional_number(value, name).ok_or_else(|| unexpected(&format!("`{name}` is not a number")))
}

pub(crate) fn optional_number(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_int).and_then(|number| u64::try_from(number).ok())
}

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> Decoded<&'a [Value]> {
    field(value, name)?.as_list().ok_or_else(|| unexpected(&format!("`{name}` is not a list")))
}

fn time(value: &Value, name: &str) -> Decoded<Timestamp> {
    Timestamp::parse_rfc3339(text(value, name)?).ok_or_else(|| unexpected(&format!("`{name}` is not a time")))
}

fn optional(value: &Value, name: &str) -> Value {
    value.get(name).cloned().unwrap_or_default()
}

fn status(value: &Value) -> Decoded<Status> {
    let word = text(value, "status")?;
    let found = Status::ALL.into_iter().find(|status| status.as_str() == word);
    found.ok_or_else(|| unexpected(&format!("`{word}` is not a status")))
}

fn reason(value: &Value, name: &str) -> Option<LoopEndReason> {
    let word = optional_text(value, name)?;
    LoopEndReason::ALL.into_iter().find(|reason| reason.as_str() == word)
}

/// Reads a run of a list, or the same fields of a whole run.
pub(crate) fn listed_run(value: &Value) -> Decoded<(ListedStatus, RunRow)> {
    let word = text(value, "status")?;
    let status = ListedStatus::parse(word).ok_or_else(|| unexpected(&format!("`{word}` is not a status of a run")))?;
    let stored = match status {
        ListedStatus::Stored(status) => status,
        ListedStatus::Interrupted => RunStatus::Running,
        // Such a run can only be shown and removed.
        ListedStatus::Damaged => RunStatus::Quarantined,
    };
    let error = value.get("error").map(error).transpose()?;
    let row = RunRow {
        format: RUN_FORMAT,
        number: value.get("number").and_then(Value::as_int).unwrap_or_default(),
        run: text(value, "run")?.into(),
        execution_id: optional_text(value, "execution_id").and_then(|id| id.parse().ok()).unwrap_or_default(),
        plan: BlobHash([0; 32]),
        definition: text(value, "definition")?.to_owned(),
        dialect: text(value, "dialect")?.to_owned(),
        status: stored,
        owner: optional_text(value, "owner").map(str::to_owned),
        owner_epoch: 0,
        previous_owner: None,
        created_at: time(value, "created_at")?,
        changed_at: time(value, "changed_at")?,
        timer: None,
        parent: optional_text(value, "parent").map(Arc::from),
        options: Vec::new(),
        // Commands read the reason of a quarantine from here.
        result: error.filter(|_| stored == RunStatus::Quarantined).map(|error| codec::encode(&failed_report(error))),
        ticks: optional_number(value, "ticks").unwrap_or_default(),
        labels: labels(value),
    };
    Ok((status, row))
}

fn labels(value: &Value) -> RunLabels {
    let labels = value.get("labels").and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    labels.filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned()))).collect()
}

fn failed_report(error: ErrorInfo) -> FinalReport {
    FinalReport {
        status: Status::Failed,
        output: Value::Null,
        error: Some(error),
        reply: None,
        steps: Vec::new(),
        events: 0,
        usage: Value::Null,
    }
}

fn error(value: &Value) -> Decoded<ErrorInfo> {
    let kind = optional_text(value, "kind").unwrap_or_default();
    let info = ErrorInfo::new(text(value, "code")?, kind, text(value, "message")?);
    let path = optional_text(value, "path").unwrap_or_default().into();
    let child = value.get(CHILD_FACT).map(|child| (CHILD_FACT, child.clone()));
    let facts = child.map(|child| Value::object([child])).unwrap_or_default();
    Ok(ErrorInfo { hint: optional_text(value, "hint").map(Arc::from), path, facts, ..info })
}

/// Reads the report of an ended run.
pub(crate) fn final_report(value: &Value) -> Decoded<FinalReport> {
    let reply = value.get("reply").filter(|reply| !reply.is_null());
    Ok(FinalReport {
        status: status(value)?,
        output: optional(value, "output"),
        error: value.get("error").map(error).transpose()?,
        reply: reply.map(|reply| RunReply {
            value: optional(reply, "value"),
            success: reply.get("success").and_then(Value::as_bool).unwrap_or_default(),
        }),
        steps: steps(value)?,
        events: 0,
        usage: optional(value, "usage"),
    })
}

/// Reads the steps that have ended.
pub(crate) fn steps(value: &Value) -> Decoded<Vec<(Arc<str>, StepReport)>> {
    let map = field(value, "steps")?.as_map().ok_or_else(|| unexpected("`steps` is not an object"))?;
    map.iter().map(|(name, step)| Ok((name.clone(), step_report(step)?))).collect()
}

fn step_report(value: &Value) -> Decoded<StepReport> {
    Ok(StepReport {
        status: status(value)?,
        output: optional(value, "output"),
        error: value.get("error").map(error).transpose()?,
        looping: value.get("loop").map(loop_summary).transpose()?,
        usage: optional(value, "usage"),
    })
}

fn loop_summary(value: &Value) -> Decoded<LoopSummary> {
    let usage = value.get("usage").and_then(Value::as_map).cloned().unwrap_or_default();
    Ok(LoopSummary {
        kind: text(value, "kind")?.into(),
        iterations: number(value, "iterations")?,
        failed: number(value, "failed")?,
        reason: reason(value, "reason").ok_or_else(|| unexpected("a loop ended for an unknown reason"))?,
        usage: usage.iter().map(|(what, used)| budget_usage(what, used)).collect(),
        records: IterationRecords::None,
        unjudged: optional_number(value, "unjudged").unwrap_or_default(),
    })
}

/// Reads the details of loops that the server adds to the steps of an ended run.
pub(crate) fn loop_details(value: &Value) -> LoopDetailsByStep {
    let mut details = LoopDetailsByStep::new();
    for (name, step) in value.get("steps").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
        let Some(looping) = step.get("loop").filter(|looping| looping.get("cancelled").is_some()) else { continue };
        let max_iterations = optional_number(looping, "max_iterations");
        let cancelled = optional_number(looping, "cancelled").unwrap_or_default();
        details.insert(name.clone(), LoopDetails { max_iterations, cancelled });
    }
    details
}

/// Reads the tree of live nodes.
pub(crate) fn frames(value: &Value) -> Decoded<Vec<FrameView>> {
    let views = value.as_list().ok_or_else(|| unexpected("the tree of live steps is not a list"))?;
    views.iter().map(frame).collect()
}

fn frame(value: &Value) -> Decoded<FrameView> {
    let word = text(value, "status")?;
    let activity = ACTIVITIES.into_iter().find(|activity| *activity == word);
    Ok(FrameView {
        name: text(value, "name")?.into(),
        label: text(value, "kind")?.into(),
        activity: activity.ok_or_else(|| unexpected(&format!("`{word}` is not the status of a step")))?,
        started_at: time(value, "started_at")?,
        attempt: optional_number(value, "attempt").and_then(|number| u32::try_from(number).ok()).unwrap_or(1),
        iteration: optional_number(value, "iteration"),
        looping: value.get("loop").map(loop_view).transpose()?,
        usage: optional(value, "usage"),
        due: optional_text(value, "due_at").and_then(Timestamp::parse_rfc3339),
        open_form: None,
        children: frames(field(value, "children")?)?,
    })
}

fn loop_view(value: &Value) -> Decoded<LoopView> {
    Ok(LoopView {
        begun: number(value, "iteration")?,
        ended: number(value, "ended")?,
        failed: number(value, "failed")?,
        max_iterations: optional_number(value, "max_iterations"),
        condition: value.get("condition").filter(|condition| !condition.is_null()).cloned(),
        last: optional(value, "last_result"),
        stopping: reason(value, "stopping"),
    })
}

/// Reads a loop of a list; `None` for a loop without a stored iteration.
pub(crate) fn loop_history(value: &Value) -> Decoded<Option<LoopHistory>> {
    let history = LoopHistory {
        path: text(value, "loop")?.to_owned(),
        iterations: number(value, "iterations")?,
        kept: number(value, "retained")?,
        failed: number(value, "failed")?,
        reason: reason(value, "reason"),
    };
    Ok(Some(history).filter(|history| history.kept > 0))
}

/// Reads one iteration of the loop at a path.
pub(crate) fn iteration(path: &str, value: &Value) -> Decoded<IterationRecord> {
    Ok(IterationRecord {
        loop_path: path.into(),
        index: number(value, "iteration")?,
        status: status(value)?,
        started_at: time(value, "started_at")?,
        duration: Duration::from_ms(number(value, "duration_ms")?),
        condition: value.get("condition_result").and_then(Value::as_bool),
        result: optional(value, "result"),
        error: value.get("error").map(error).transpose()?,
        reason: reason(value, "reason"),
        item: value.get("item").cloned(),
        verdict: value.get("verdict").map(verdict),
    })
}

fn verdict(value: &Value) -> IterationVerdict {
    IterationVerdict {
        done: value.get("done").and_then(Value::as_bool),
        reason: optional_text(value, "reason").map(Arc::from),
    }
}

/// Reads an event.
pub(crate) fn event(value: Value) -> Decoded<StoredEvent> {
    let Value::Map(map) = value else { return Err(unexpected("an event is not an object")) };
    let event = Event::from_wire(Map::clone(&map)).ok_or_else(|| unexpected("an event lacks its number or type"))?;
    Ok(match event.kind {
        EventKind::EventsTrimmed { from, to } => StoredEvent::Trimmed { from, to },
        _ => StoredEvent::Event(event),
    })
}

/// Reads a line of a run's log.
pub(crate) fn log_line(value: &Value) -> Decoded<LogRow> {
    let stream = text(value, "stream")?;
    Ok(LogRow {
        position: field(value, "position")?.as_int().ok_or_else(|| unexpected("`position` is not a number"))?,
        path: text(value, "path")?.into(),
        attempt: u32::try_from(number(value, "attempt")?).unwrap_or(u32::MAX),
        stream: LogStream::parse(stream).ok_or_else(|| unexpected(&format!("`{stream}` is not a stream of lines")))?,
        at: time(value, "at")?,
        text: text(value, "text")?.to_owned(),
    })
}

/// Reads an open approval.
pub(crate) fn approval(value: &Value) -> Decoded<Approval> {
    let mut form = Map::new();
    for name in ["title", "message", "schema", "assignees"] {
        if let Some(part) = value.get(name).filter(|part| !part.is_null()) {
            form.insert(name, part.clone());
        }
    }
    Ok(Approval {
        position: 0,
        run: text(value, "run")?.into(),
        definition: text(value, "definition")?.to_owned(),
        name: text(value, "name")?.into(),
        path: text(value, "path")?.into(),
        form: Value::map(form),
        since: time(value, "since")?,
        deadline: optional_text(value, "deadline").and_then(Timestamp::parse_rfc3339),
    })
}

/// The name and the path of an open form.
pub(crate) type OpenFormName = (Arc<str>, Arc<str>);

/// Reads a stored credential.
pub(crate) fn credential(value: &Value) -> Decoded<StoredCredential> {
    let part = |name: &str| text(value, name).map(str::to_owned);
    Ok(StoredCredential {
        name: part("name")?,
        kind: part("kind")?,
        changed_at: part("changed_at")?,
        by: part("by")?,
        problem: optional_text(value, "problem").map(str::to_owned),
    })
}

/// Reads the names of all waits, sorted, and name and path of the open forms.
pub(crate) fn waits(value: &Value) -> Decoded<(Vec<Arc<str>>, Vec<OpenFormName>)> {
    let (mut names, mut forms) = (BTreeSet::new(), Vec::new());
    for wait in list(value, "waits")? {
        let name: Arc<str> = text(wait, "name")?.into();
        forms.extend(optional_text(wait, "path").map(|path| (name.clone(), path.into())));
        names.insert(name);
    }
    Ok((names.into_iter().collect(), forms))
}

/// Reads the position of a run in the queue of its trigger.
pub(crate) fn queue_position(value: &Value) -> Option<QueuePositionInfo> {
    let count = |name: &str| optional_number(value, name).and_then(|number| usize::try_from(number).ok());
    Some(QueuePositionInfo {
        trigger: optional_text(value, "trigger")?.to_owned(),
        in_flight: count("in_flight")?,
        max_concurrency: count("max_concurrency")?,
        position: count("position")?,
        note: optional_text(value, "note")?.to_owned(),
    })
}

fn budget_usage(what: &Arc<str>, used: &Value) -> BudgetUsage {
    let used = used.as_int().and_then(|used| u64::try_from(used).ok()).unwrap_or_default();
    BudgetUsage { what: what.clone(), used, max: 0, reserved: 0, refused: 0 }
}
