//! The meaning of the first name of a path.
//!
//! - `workload` is the run's input merged over the declared defaults; `ctx`, `vars` and `iter` are the variables of
//!   the run, the step and the loop iteration. `iter` also has the item under its own name, `index` and `count`.
//!   Concurrent iterations have `vars` of their own.
//! - Names that the position of an expression defines: `args`, `outcome`, `output`, `event`, `_prev`, `_task`,
//!   `_attempt`, `_visit`, … `error` is missing when nothing failed, `response` (the body) is missing when something
//!   failed; `result` is the latest result; `this` is the whole outcome: `{status, data, error, meta}`. `output` is the
//!   result, with `status`, `data`, `error`, `meta` and the tool's details (`http`, `pg`, `py`) next to its own
//!   properties. `input` is an alias of `args`, `step` of `vars`. See `outcome`.
//! - `_loop.index`, `_loop.count`, `loop_index`, `execution_id` (the number of the run), `parent_execution_id`, `job.uuid` (its
//!   id), `trace_id`, `catalog_id`, `payload`.
//! - Any other name, in this order: the iteration's variables and its item, values that the step's tasks wrote under
//!   their labels, `args`, `ctx`, the results of steps, `workload`. The result of a step is the latest one: inside the
//!   step that of its last task, if one has ended.
//! - `fetch.results.page` and, inside the step, `results.page` is the result of the task `page`, if the step's own
//!   result has no `results`.

use std::sync::Arc;

use windlass_value::{EvalScope, Level, Map, Value};

use super::outcome;
use super::task_results::{is_task_results, own_result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PathRoot {
    Workload,
    /// `ctx`
    Run,
    /// `vars`
    Step,
    /// `iter`
    Iteration,
    /// `_loop`
    Loop,
    LoopIndex,
    /// `execution_id`: the number of the run.
    ExecutionId,
    /// `parent_execution_id`: the number of the run that called this one, or null.
    ParentExecutionId,
    /// `trace_id`: the root run of the run tree.
    Trace,
    /// `catalog_id`: the definition's name.
    Definition,
    /// `job`: the run, under the name that other systems use.
    Job,
    /// `payload`: the input that the run was started with, without defaults.
    Payload,
    Error,
    Response,
    Result,
    This,
    Output,
    /// `output_select`: the result that fields are selected from.
    Selected,
    /// `args`
    Input,
    /// `results`: the results of the step's tasks that have ended, by label.
    TaskResults,
    /// A name that the position of the expression defines.
    Local,
    Name,
}

impl PathRoot {
    pub(crate) fn from_name(name: &str) -> PathRoot {
        match name {
            "workload" => PathRoot::Workload,
            "ctx" => PathRoot::Run,
            "vars" | "step" => PathRoot::Step,
            "iter" => PathRoot::Iteration,
            "_loop" => PathRoot::Loop,
            "loop_index" => PathRoot::LoopIndex,
            "execution_id" => PathRoot::ExecutionId,
            "parent_execution_id" => PathRoot::ParentExecutionId,
            "trace_id" => PathRoot::Trace,
            "catalog_id" => PathRoot::Definition,
            "job" => PathRoot::Job,
            "payload" => PathRoot::Payload,
            "error" => PathRoot::Error,
            "response" => PathRoot::Response,
            "result" => PathRoot::Result,
            "this" => PathRoot::This,
            "output" => PathRoot::Output,
            "output_select" => PathRoot::Selected,
            "input" => PathRoot::Input,
            "results" | "_results" => PathRoot::TaskResults,
            "outcome" | "args" | "event" | "_status" | "_prev" | "_task" | "_attempt" | "_visit" => PathRoot::Local,
            _ => PathRoot::Name,
        }
    }
}

impl PathRoot {
    /// Returns whether the name exists even when it has no entries.
    pub(crate) fn is_namespace(&self) -> bool {
        matches!(self, PathRoot::Workload | PathRoot::Run | PathRoot::Step | PathRoot::Iteration)
    }
}

/// The value at the beginning of a path.
pub(super) struct ResolvedRoot {
    pub value: Value,
    /// The number of path steps that the value already includes.
    pub used: usize,
    /// The value may be an HTTP reply, in which case the path refers to its body.
    pub reply: bool,
}

impl ResolvedRoot {
    pub(crate) fn at_root(value: Value) -> ResolvedRoot {
        ResolvedRoot { value, used: 0, reply: false }
    }

    pub(crate) fn after_first_step(value: Value) -> ResolvedRoot {
        ResolvedRoot { value, used: 1, reply: false }
    }
}

pub(super) fn root_value(
    root: &PathRoot,
    name: &str,
    first: Option<&str>,
    scope: &dyn EvalScope,
) -> Option<ResolvedRoot> {
    let stepped = |value: Option<Value>| value.map(ResolvedRoot::after_first_step);
    let whole = |value: Option<Value>| value.map(ResolvedRoot::at_root);
    match (root, first) {
        (PathRoot::Workload, Some(key)) => stepped(workload(key, scope)),
        (PathRoot::Workload, None) => whole(Some(workload_object(scope))),
        (PathRoot::Run, Some(key)) => stepped(scope.variable(Level::Run, key)),
        (PathRoot::Step, Some(key)) => stepped(step_variable(key, scope)),
        (PathRoot::Iteration, Some(key)) => stepped(iteration_value(key, scope)),
        (PathRoot::Run, None) => whole(Some(object(variables(Level::Run, scope)))),
        (PathRoot::Step, None) => whole(Some(object(step_variables(scope)))),
        (PathRoot::Iteration, None) => whole(iteration_object(scope)),
        (PathRoot::Loop, _) => whole(scope.iteration(None).map(|iteration| {
            Value::object([
                ("index", Value::from(iteration.iteration_index)),
                ("count", iteration.count.map_or(Value::Null, Value::from)),
            ])
        })),
        (PathRoot::LoopIndex, _) => whole(
            lookup_bare_name(name, scope)
                .or_else(|| scope.iteration(None).map(|iteration| Value::from(iteration.iteration_index))),
        ),
        (PathRoot::ExecutionId, _) => whole(Some(Value::Int(scope.run().execution_id))),
        (PathRoot::ParentExecutionId, _) => {
            whole(Some(scope.run().parent_execution_id.map_or(Value::Null, Value::Int)))
        }
        (PathRoot::Trace, _) => {
            let run = scope.run();
            whole(Some(Value::Str(run.trace.clone().unwrap_or_else(|| run.id.clone()))))
        }
        (PathRoot::Definition, _) => whole(Some(Value::Str(scope.run().name.clone()))),
        (PathRoot::Job, _) => whole(lookup_bare_name(name, scope).or_else(|| {
            let id = Value::from(scope.run().id.clone());
            Some(Value::object([("uuid", id.clone()), ("id", id)]))
        })),
        (PathRoot::Payload, _) => whole(lookup_bare_name(name, scope).or_else(|| Some(scope.run().input.clone()))),
        // A value that the position of the expression defines takes precedence over the author's value of that name.
        (PathRoot::Error, _) if outcome::is_available(scope) => whole(outcome::error(scope)),
        (PathRoot::Error, _) => whole(lookup_bare_name(name, scope)),
        (PathRoot::Response, _) => outcome::response(scope).or_else(|| whole(own_or_last(name, scope))),
        (PathRoot::Result, _) => {
            let last = || scope.local("_prev").or_else(|| outcome::result(scope));
            whole(last().or_else(|| own_or_last(name, scope)))
        }
        (PathRoot::This, _) => outcome::this(first, scope).or_else(|| whole(lookup_bare_name(name, scope))),
        (PathRoot::Output, _) => match scope.local("output") {
            Some(ended) => Some(outcome::ended(ended, first, scope)),
            None => outcome::output(first, scope).or_else(|| whole(lookup_bare_name(name, scope))),
        },
        (PathRoot::Selected, _) => {
            whole(outcome::result(scope).or_else(|| scope.local("_prev")).or_else(|| lookup_bare_name(name, scope)))
        }
        (PathRoot::Input, _) => whole(args(scope).or_else(|| lookup_bare_name(name, scope))),
        (PathRoot::TaskResults, _) => whole(lookup_bare_name(name, scope)),
        (PathRoot::Local, Some("error")) if name == "outcome" => outcome::part("error", scope),
        (PathRoot::Local, _) => {
            whole(scope.local(name.strip_prefix('_').filter(|_| name == "_status").unwrap_or(name)))
                .or_else(|| whole(lookup_bare_name(name, scope)))
        }
        (PathRoot::Name, _) => whole(lookup_bare_name(name, scope)),
    }
}

/// Returns the author's value of the name; otherwise, between the iterations of a loop that keeps it, the result of
/// the last iteration.
fn own_or_last(name: &str, scope: &dyn EvalScope) -> Option<Value> {
    let between = || scope.local("outcome").is_none().then(|| scope.variable(Level::Any, "_last")).flatten();
    lookup_bare_name(name, scope).or_else(between)
}

/// Returns the payload of the token.
fn args(scope: &dyn EvalScope) -> Option<Value> {
    scope.local("args").or_else(|| scope.variable(Level::Any, "args"))
}

/// Variables that a dialect's compiler reserves for itself.
const INTERNAL: [&str; 4] = ["_failure", "_last", "_meta", "_pages"];

/// Returns the variables of a level, without the internal ones.
fn variables(level: Level, scope: &dyn EvalScope) -> impl Iterator<Item = (Arc<str>, Value)> {
    let internal = |name: &str| INTERNAL.contains(&name) || is_task_results(name);
    scope.variables(level).into_iter().filter(move |(name, _)| !internal(name))
}

/// Returns the names that can be used here, for messages.
pub(super) fn available_names(root: &PathRoot, scope: &dyn EvalScope) -> Vec<Arc<str>> {
    let keys = |value: &Value| -> Vec<Arc<str>> {
        value.as_map().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    let level = |level: Level| variables(level, scope).map(|(name, _)| name);
    match root {
        PathRoot::Workload => keys(&workload_object(scope)),
        PathRoot::Run => level(Level::Run).collect(),
        PathRoot::Step => step_variables(scope).map(|(name, _)| name).collect(),
        PathRoot::Iteration => iteration_object(scope).map(|iteration| keys(&iteration)).unwrap_or_default(),
        _ => {
            let mut names: Vec<Arc<str>> = Vec::new();
            names.extend(level(Level::Iteration).chain(level(Level::Step)).chain(level(Level::Run)));
            names.extend(keys(&workload_object(scope)));
            names.extend(["workload", "ctx", "vars"].map(Arc::from));
            if scope.iteration(None).is_some() {
                names.push("iter".into());
            }
            let mut seen = std::collections::HashSet::new();
            names.retain(|name| seen.insert(name.clone()));
            names
        }
    }
}

fn lookup_bare_name(name: &str, scope: &dyn EvalScope) -> Option<Value> {
    iteration_variable(name, scope)
        .or_else(|| scope.variable(Level::Step, name))
        .or_else(|| args(scope).as_ref().and_then(|args| args.get(name)).cloned())
        .or_else(|| scope.variable(Level::Run, name))
        .or_else(|| own_result(name, scope))
        .or_else(|| scope.node(name).map(|node| node.output))
        .or_else(|| workload(name, scope))
        // The status that a loop reports for its iteration, available while it creates that iteration's entry.
        .or_else(|| (name == "status").then(|| scope.local(name)).flatten())
}

fn iteration_variable(name: &str, scope: &dyn EvalScope) -> Option<Value> {
    scope.variable(Level::Iteration, name).or_else(|| {
        let iteration = scope.iteration(None)?;
        (iteration.item_name.as_deref() == Some(name)).then_some(iteration.item)
    })
}

fn iteration_value(key: &str, scope: &dyn EvalScope) -> Option<Value> {
    iteration_variable(key, scope).or_else(|| {
        let iteration = scope.iteration(None)?;
        match key {
            "index" => Some(Value::from(iteration.iteration_index)),
            "count" => iteration.count.map(Value::from),
            _ => None,
        }
    })
}

fn iteration_object(scope: &dyn EvalScope) -> Option<Value> {
    let iteration = scope.iteration(None)?;
    let mut map: Map = Map::new();
    map.insert("index", iteration.iteration_index);
    if let Some(name) = iteration.item_name {
        map.insert(name, iteration.item);
    }
    variables(Level::Iteration, scope).for_each(|(name, value)| {
        map.insert(name, value);
    });
    Some(Value::map(map))
}

fn object(entries: impl Iterator<Item = (Arc<str>, Value)>) -> Value {
    Value::object(entries)
}

/// Returns a variable of the step. Concurrent iterations have one each, which hides the step's.
fn step_variable(key: &str, scope: &dyn EvalScope) -> Option<Value> {
    let own = is_concurrent(scope).then(|| scope.variable(Level::Iteration, key)).flatten();
    own.or_else(|| scope.variable(Level::Step, key)).or_else(|| run_var(key, scope))
}

fn step_variables(scope: &dyn EvalScope) -> impl Iterator<Item = (Arc<str>, Value)> {
    let own = is_concurrent(scope).then(|| variables(Level::Iteration, scope)).into_iter().flatten();
    variables(Level::Step, scope).chain(own)
}

fn is_concurrent(scope: &dyn EvalScope) -> bool {
    scope.iteration(None).is_some_and(|iteration| iteration.concurrent)
}

/// Returns a run-level variable whose initial value the file declares under `vars`.
fn run_var(key: &str, scope: &dyn EvalScope) -> Option<Value> {
    let first = scope.run().parameters.get("vars")?.get(key)?.clone();
    Some(scope.variable(Level::Run, key).unwrap_or(first))
}

/// Returns a property of `workload`. The file's `vars` is a parameter too, but not a key of `workload`.
fn workload(key: &str, scope: &dyn EvalScope) -> Option<Value> {
    let run = scope.run();
    let own = run.parameters.get(key).filter(|_| key != "vars");
    own.or_else(|| run.input.get(key)).cloned()
}

fn workload_object(scope: &dyn EvalScope) -> Value {
    let run = scope.run();
    let mut all = match run.parameters.as_map() {
        Some(parameters) => parameters.clone(),
        None => return run.input.clone(),
    };
    for (key, value) in run.input.as_map().into_iter().flat_map(Map::iter) {
        if !all.contains_key(key) {
            all.insert(key.clone(), value.clone());
        }
    }
    Value::object(all.iter().filter(|(key, _)| &***key != "vars").map(|(key, value)| (key.clone(), value.clone())))
}
