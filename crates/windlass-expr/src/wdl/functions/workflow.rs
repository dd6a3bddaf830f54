//! Functions that read the run: parameters, variables, node results, loops, the trigger.

use windlass_value::{
    EvalError, EvalErrorKind, IterationRecords, IterationView, LoopInnerNode, Map, NodeView, RunView, Value,
};

use super::{WdlFunction, state, text_at};
use crate::wdl::path::{format_names, property};
use crate::wdl::settings::{is_setting_key, setting_key};
use crate::wdl::values::{MissingBlobs, WdlContext, WdlResult, check_result, is_stored_list};
use crate::wdl::variable::{VariableName, read_variable};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    state("parameters", 1, 1, parameters).returning_existing(),
    state("appsetting", 1, 1, app_setting).returning_existing(),
    state("variables", 1, 1, variables).returning_existing(),
    state("outputs", 1, 1, outputs).returning_existing(),
    state("body", 1, 1, body).returning_existing(),
    state("actions", 1, 1, actions),
    state("actionOutputs", 1, 1, outputs).returning_existing(),
    state("actionBody", 1, 1, body).returning_existing(),
    state("result", 1, 1, result),
    state("trigger", 0, 0, trigger),
    state("triggerBody", 0, 0, trigger_body).returning_existing(),
    state("triggerOutputs", 0, 0, trigger_outputs),
    state("item", 0, 0, item).returning_existing(),
    state("items", 1, 1, items).returning_existing(),
    state("iterationIndexes", 1, 1, iteration_indexes),
    state("workflow", 0, 0, workflow),
    state("action", 0, 0, action).in_loop_condition_only(),
    state("listCallbackUrl", 0, 0, list_callback_url),
];

/// Functions whose argument names a node and whose result is null in a loop's own condition until the node has run.
pub(crate) fn is_node_result(name: &str) -> bool {
    ["outputs", "body", "actions", "actionOutputs", "actionBody", "action"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

fn missing_error(message: impl Into<String>) -> EvalError {
    EvalError::new(EvalErrorKind::Missing, message)
}

fn declared_parameters(context: &mut WdlContext) -> WdlResult {
    let scope = context.scope;
    match &scope.run().parameters {
        Value::Stored(stored) => context.load_for_lookup(stored),
        other => Ok(other.clone()),
    }
}

/// Reads an app setting. Settings are stored in the run's parameters, under names that no declared parameter has.
fn app_setting(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let name = text_at("appsetting", arguments, 0)?;
    let declared = declared_parameters(context)?;
    let found = declared.as_map().and_then(|map| property(map, &setting_key(name))).cloned();
    found.ok_or_else(|| {
        missing_error(format!("there is no app setting `{name}`"))
            .with_hint("add it under `[settings]` in windlass.toml")
    })
}

fn parameters(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let name = text_at("parameters", arguments, 0)?;
    let declared = declared_parameters(context)?;
    let found = declared.as_map().and_then(|map| property(map, name)).cloned();
    found.ok_or_else(|| {
        let own = |map: &Map| {
            map.iter()
                .filter(|(name, _)| !is_setting_key(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect::<Map>()
        };
        let known = declared.as_map().map_or_else(|| "none".to_owned(), |map| format_names(&own(map)));
        missing_error(format!("there is no parameter `{name}`; declared: {known}"))
            .with_hint("declare it under `parameters` with a type or a default")
    })
}

fn variables(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let name = VariableName::new(text_at("variables", arguments, 0)?);
    read_variable(context, &name)
}

enum NodeLookup {
    Node(NodeView),
    /// The node is inside a loop that has ended.
    InsideLoop(LoopInnerNode),
    /// The node has not run, where that is allowed.
    NotRun,
}

fn node_at(function: &str, context: &WdlContext, arguments: &[Value]) -> Result<NodeLookup, EvalError> {
    let name = text_at(function, arguments, 0)?;
    if let Some(node) = context.scope.node(name) {
        return Ok(NodeLookup::Node(node));
    }
    match context.scope.node_in_loop(name) {
        Some(inside) => Ok(NodeLookup::InsideLoop(inside)),
        None if context.lenient => Ok(NodeLookup::NotRun),
        None => Err(missing_error(format!("`{function}('{name}')`: there is no result of `{name}` yet"))
            .with_hint("let this action run after it, with `runAfter`; check the name")),
    }
}

fn outputs(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match node_at("outputs", context, arguments)? {
        NodeLookup::Node(node) => Ok(node.output),
        NodeLookup::InsideLoop(inside) => from_iterations(context, inside, |_, record| Ok(output_of(&record))),
        NodeLookup::NotRun => Ok(Value::Null),
    }
}

pub(super) fn body(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match node_at("body", context, arguments)? {
        NodeLookup::Node(node) => body_of(context, node.output),
        NodeLookup::InsideLoop(inside) => {
            from_iterations(context, inside, |context, record| body_of(context, output_of(&record)))
        }
        NodeLookup::NotRun => Ok(Value::Null),
    }
}

fn output_of(record: &Value) -> Value {
    record.get("outputs").cloned().unwrap_or_default()
}

/// Returns the `body` of the output if it has one, otherwise the output. A stored output without a body stays stored.
fn body_of(context: &mut WdlContext, output: Value) -> WdlResult {
    let content = match &output {
        Value::Stored(stored) if !is_stored_list(stored) => context.load_for_lookup(stored)?,
        other => other.clone(),
    };
    Ok(content.get("body").cloned().unwrap_or(output))
}

/// Returns the results of a node inside a loop: of the last iteration, or of all. A cancelled iteration has no
/// record.
fn from_iterations(
    context: &mut WdlContext,
    inside: LoopInnerNode,
    part: fn(&mut WdlContext, Value) -> WdlResult,
) -> WdlResult {
    let LoopInnerNode { name, loop_node: around, record_index: at } = inside;
    let entry = |row: &Value| row.as_list().and_then(|row| row.get(at)).cloned().unwrap_or_default();
    let records = match around.iteration_records {
        // The loop was skipped, or failed before its first iteration; the nodes inside it did not run.
        IterationRecords::None => {
            let (inputs, output, records) = (Value::Null, Value::Null, IterationRecords::None);
            let skipped =
                NodeView { name, status: "skipped", inputs, output, iteration_records: records, attempts: 0, ..around };
            let record = record(context.scope.run(), skipped);
            return part(context, record);
        }
        IterationRecords::Last(row) => {
            let row = load_row(context, row)?;
            return part(context, entry(&row));
        }
        IterationRecords::All(records) => records,
    };
    let iterations = context.content(records)?;
    let iterations = iterations.as_list().unwrap_or_default();
    context.reserve_items(iterations.len())?;
    let (mut parts, mut gathering) = (Vec::with_capacity(iterations.len()), MissingBlobs::default());
    for iteration in iterations {
        let found = load_row(context, iteration.clone()).and_then(|row| part(context, entry(&row)));
        parts.push(gathering.defer(found)?);
    }
    gathering.finish()?;
    let parts = Value::list(parts);
    check_result(context.meter, &parts)?;
    Ok(parts)
}

/// Loads an iteration's record, for reading one entry of it.
fn load_row(context: &mut WdlContext, row: Value) -> WdlResult {
    match &row {
        Value::Stored(stored) => context.load_for_lookup(stored),
        _ => Ok(row),
    }
}

fn status_name(status: &'static str) -> &'static str {
    match status {
        "succeeded" => "Succeeded",
        "failed" => "Failed",
        "skipped" => "Skipped",
        "cancelled" => "Cancelled",
        "timed_out" => "TimedOut",
        other => other,
    }
}

/// Returns Azure's code for an action's outcome. If an inner action caused the failure, the outer one only reports
/// `ActionFailed`.
fn code(node: &NodeView) -> Value {
    let text = |key: &str| node.error.get(key).and_then(Value::as_str);
    match node.status {
        "succeeded" => return Value::from("OK"),
        "skipped" => return Value::from("ActionSkipped"),
        _ => {}
    }
    let last = text("path").and_then(|path| path.rsplit('.').next()).and_then(|step| step.split('[').next());
    if last.is_some_and(|last| last != &*node.name) {
        return Value::from("ActionFailed");
    }
    let code = node.error.get("code").cloned().unwrap_or_default();
    let status = code.as_str().filter(|_| text("kind") == Some("http"));
    let named = status.and_then(|status| HTTP_CODES.iter().find(|(number, _)| *number == status));
    named.map_or(code, |(_, name)| Value::from(*name))
}

/// The .NET names of the HTTP statuses that fail a request.
const HTTP_CODES: [(&str, &str); 30] = [
    ("300", "MultipleChoices"),
    ("301", "MovedPermanently"),
    ("302", "Found"),
    ("303", "SeeOther"),
    ("304", "NotModified"),
    ("307", "TemporaryRedirect"),
    ("308", "PermanentRedirect"),
    ("400", "BadRequest"),
    ("401", "Unauthorized"),
    ("402", "PaymentRequired"),
    ("403", "Forbidden"),
    ("404", "NotFound"),
    ("405", "MethodNotAllowed"),
    ("406", "NotAcceptable"),
    ("408", "RequestTimeout"),
    ("409", "Conflict"),
    ("410", "Gone"),
    ("411", "LengthRequired"),
    ("412", "PreconditionFailed"),
    ("413", "RequestEntityTooLarge"),
    ("414", "RequestUriTooLong"),
    ("415", "UnsupportedMediaType"),
    ("422", "UnprocessableEntity"),
    ("428", "PreconditionRequired"),
    ("429", "TooManyRequests"),
    ("500", "InternalServerError"),
    ("501", "NotImplemented"),
    ("502", "BadGateway"),
    ("503", "ServiceUnavailable"),
    ("504", "GatewayTimeout"),
];

/// Returns a node's outcome in the shape that actions() and result() return.
fn record(run: &RunView, node: NodeView) -> Value {
    let (tracking, code) = (Value::from(format!("{}/{}", run.id, node.name)), code(&node));
    Value::object([
        ("name", Value::Str(node.name)),
        ("startTime", Value::from(node.started_at.to_string())),
        ("endTime", Value::from(node.ended_at.to_string())),
        ("inputs", node.inputs),
        ("outputs", node.output),
        ("status", Value::from(status_name(node.status))),
        ("attempts", Value::from(node.attempts)),
        ("error", node.error),
        ("trackingId", tracking),
        ("clientTrackingId", Value::Str(run.id.clone())),
        ("code", code),
    ])
}

fn actions(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    match node_at("actions", context, arguments)? {
        NodeLookup::Node(node) => Ok(record(context.scope.run(), node)),
        NodeLookup::InsideLoop(inside) => from_iterations(context, inside, |_, record| Ok(record)),
        NodeLookup::NotRun => Ok(Value::Null),
    }
}

fn result(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let name = text_at("result", arguments, 0)?;
    let found = context.scope.node(name);
    let listed = found.as_ref().and_then(|node| node.body_nodes).unwrap_or(usize::MAX);
    match found.map(|node| node.iteration_records).unwrap_or_default() {
        IterationRecords::None => {}
        IterationRecords::Last(Value::Null) => return Ok(Value::list(Vec::new())),
        IterationRecords::Last(row) => return context.content(row).map(|row| first_of(row, listed)),
        IterationRecords::All(records) => return by_action(context, records, listed),
    }
    match context.scope.children(name) {
        Some(children) => {
            context.reserve_items(children.len())?;
            let run = context.scope.run();
            Ok(Value::list(children.into_iter().map(|(_, node)| record(run, node)).collect()))
        }
        None if context.lenient => Ok(Value::Null),
        None => Err(missing_error(format!("`result('{name}')`: there is no scope or loop `{name}` that has run"))
            .with_hint("result() takes the name of a scope, a loop or a condition")),
    }
}

fn first_of(row: Value, listed: usize) -> Value {
    match row.as_list() {
        Some(entries) if entries.len() > listed => Value::list(entries[..listed].to_vec()),
        _ => row,
    }
}

/// Returns one entry per action of a loop over items, with its outcome in every iteration. A cancelled iteration has
/// null.
fn by_action(context: &mut WdlContext, records: Value, listed: usize) -> WdlResult {
    let iterations = context.content(records)?;
    let iterations = iterations.as_list().unwrap_or_default();
    let (mut rows, mut gathering) = (Vec::with_capacity(iterations.len()), MissingBlobs::default());
    for iteration in iterations {
        let row = context.content(iteration.clone());
        rows.push(gathering.defer(row)?);
    }
    gathering.finish()?;
    let actions = rows.iter().map(|row| row.as_list().map_or(0, <[Value]>::len)).max().unwrap_or(0).min(listed);
    context.reserve_items(actions.saturating_mul(rows.len()))?;
    Ok(Value::list((0..actions).map(|action| over_iterations(&rows, action)).collect()))
}

fn over_iterations(rows: &[Value], action: usize) -> Value {
    let records: Vec<Value> =
        rows.iter().map(|row| row.as_list().and_then(|row| row.get(action)).cloned().unwrap_or_default()).collect();
    let all = |key: &str| -> Vec<Value> {
        records.iter().map(|record| record.get(key).cloned().unwrap_or_default()).collect()
    };
    let known = |key: &str| all(key).into_iter().filter(|value| !value.is_null()).collect::<Vec<_>>();
    let rank = |status: &Value| WORST_FIRST.iter().position(|known| status.as_str() == Some(*known));
    let worst = known("status").into_iter().min_by_key(|status| rank(status).unwrap_or(usize::MAX));
    Value::object([
        ("name", known("name").first().cloned().unwrap_or_default()),
        ("startTime", known("startTime").first().cloned().unwrap_or_default()),
        ("endTime", known("endTime").last().cloned().unwrap_or_default()),
        ("inputs", Value::list(all("inputs"))),
        ("status", worst.unwrap_or_default()),
        ("outputs", Value::list(records)),
    ])
}

/// The status of an action over all iterations is its worst one; it is skipped only if it never ran.
const WORST_FIRST: [&str; 5] = ["Failed", "TimedOut", "Cancelled", "Succeeded", "Skipped"];

pub(super) fn trigger_body(context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    Ok(context.scope.run().input.clone())
}

fn trigger_outputs(context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    let run = context.scope.run();
    let mut outputs = run.trigger_metadata.as_map().cloned().unwrap_or_default();
    outputs.insert("body", run.input.clone());
    Ok(Value::map(outputs))
}

fn trigger(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let outputs = trigger_outputs(context, arguments)?;
    let name = context.scope.trigger().map_or_else(|| Value::from("manual"), Value::Str);
    Ok(Value::object([("name", name), ("outputs", outputs), ("status", Value::from("Succeeded"))]))
}

fn iteration_at(function: &str, context: &WdlContext, arguments: &[Value]) -> Result<IterationView, EvalError> {
    let name = text_at(function, arguments, 0)?;
    context.scope.iteration(Some(name)).ok_or_else(|| {
        let around =
            context.scope.iteration(None).map(|iteration| format!("; the innermost loop is `{}`", iteration.loop_name));
        missing_error(format!("`{function}('{name}')`: it is not inside a loop `{name}`{}", around.unwrap_or_default()))
    })
}

fn item(context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    if let Some(item) = &context.item {
        return Ok(item.clone());
    }
    match context.scope.iteration(None) {
        Some(iteration) => Ok(iteration.item),
        None => Err(missing_error("`item()`: it is not inside a loop")),
    }
}

fn items(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(iteration_at("items", context, arguments)?.item)
}

fn iteration_indexes(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::from(iteration_at("iterationIndexes", context, arguments)?.iteration_index))
}

/// Returns the loop whose condition is evaluated; its outputs are the last iteration's result.
fn action(context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    let iteration =
        context.scope.iteration(None).ok_or_else(|| missing_error("`action()`: it is not inside a loop"))?;
    Ok(Value::object([
        ("name", Value::Str(iteration.loop_name)),
        ("startTime", Value::from(iteration.loop_started_at.to_string())),
        ("inputs", Value::Null),
        ("outputs", iteration.previous),
        ("status", Value::from("Running")),
    ]))
}

fn list_callback_url(_context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    Err(missing_error("`listCallbackUrl()`: no server handles requests for this run, so it has no callback address")
        .with_hint("pass the address in as a parameter"))
}

/// Returns the workflow's description. The ids have the segments of Azure's, for definitions that split them.
fn workflow(context: &mut WdlContext, _arguments: &[Value]) -> WdlResult {
    let run = context.scope.run();
    let id = format!("/subscriptions/local/resourceGroups/local/providers/Microsoft.Logic/workflows/{}", run.name);
    let run = Value::object([
        ("name", Value::Str(run.id.clone())),
        ("id", Value::from(format!("{id}/runs/{}", run.id))),
        ("type", Value::from("Microsoft.Logic/workflows/runs")),
    ]);
    Ok(Value::object([
        ("name", Value::Str(context.scope.run().name.clone())),
        ("type", Value::from("Microsoft.Logic/workflows")),
        ("id", Value::from(id)),
        ("location", Value::from("local")),
        ("tags", Value::map(Map::new())),
        ("run", run),
    ]))
}
