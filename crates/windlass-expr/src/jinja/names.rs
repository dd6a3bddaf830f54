//! What the first name of a path means.
//!
//! - `workload` is what the run was started with, over the declared defaults; `ctx`, `vars` and `iter` are the variables
//!   of the run, the step and the loop turn. `iter` also has the item under its own name, `index` and `count`.
//! - Words of the place an expression stands at: `args`, `outcome`, `output`, `event`, `_prev`, `_task`, `_attempt`,
//!   `_visit`, … `error` is not there when nothing failed, `response` (the body) is not there when something did;
//!   `result` is what came last; `this` is the whole of it: `{status, data, error, meta}`. `output` is the result, with
//!   `status`, `data`, `error`, `meta` and the tool's facts beside its own properties. `input` is another word for
//!   `args`, `step` for `vars`. See `outcome`.
//! - `_loop.index`, `_loop.count`, `loop_index`, `execution_id` (`job.uuid`), `parent_execution_id`, `trace_id`,
//!   `catalog_id`, `payload`.
//! - Any other name, in this order: the turn's variables and its item, what the tasks of the step wrote under their
//!   labels, `args`, `ctx`, the results of steps that have ended, `workload`.

use std::sync::Arc;

use windlass_value::{Level, Map, Scope, Value};

use super::outcome;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Root {
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
    RunId,
    /// `parent_execution_id`: the run that called this one, or null.
    Parent,
    /// `trace_id`: the run that all this began with.
    Trace,
    /// `catalog_id`: the definition's name.
    Definition,
    /// `job`: the run as others call it.
    Job,
    /// `payload`: what the run was started with, without any default.
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
    /// A word that the place of the expression gives a meaning to.
    Local,
    Name,
}

impl Root {
    pub(crate) fn of(name: &str) -> Root {
        match name {
            "workload" => Root::Workload,
            "ctx" => Root::Run,
            "vars" | "step" => Root::Step,
            "iter" => Root::Iteration,
            "_loop" => Root::Loop,
            "loop_index" => Root::LoopIndex,
            "execution_id" => Root::RunId,
            "parent_execution_id" => Root::Parent,
            "trace_id" => Root::Trace,
            "catalog_id" => Root::Definition,
            "job" => Root::Job,
            "payload" => Root::Payload,
            "error" => Root::Error,
            "response" => Root::Response,
            "result" => Root::Result,
            "this" => Root::This,
            "output" => Root::Output,
            "output_select" => Root::Selected,
            "input" => Root::Input,
            "outcome" | "args" | "event" | "_status" | "_prev" | "_task" | "_attempt" | "_visit" => Root::Local,
            _ => Root::Name,
        }
    }
}

impl Root {
    /// Whether the name is there even when nothing is in it.
    pub(crate) fn is_namespace(&self) -> bool {
        matches!(self, Root::Workload | Root::Run | Root::Step | Root::Iteration)
    }
}

/// What the beginning of a path leads to.
pub(super) struct Found {
    pub value: Value,
    /// How many steps of the path it has taken.
    pub used: usize,
    /// The value may be a reply, of which the body is meant.
    pub reply: bool,
}

impl Found {
    pub(crate) fn whole(value: Value) -> Found {
        Found { value, used: 0, reply: false }
    }

    pub(crate) fn stepped(value: Value) -> Found {
        Found { value, used: 1, reply: false }
    }
}

pub(super) fn root_value(root: &Root, name: &str, first: Option<&str>, scope: &dyn Scope) -> Option<Found> {
    let stepped = |value: Option<Value>| value.map(Found::stepped);
    let whole = |value: Option<Value>| value.map(Found::whole);
    match (root, first) {
        (Root::Workload, Some(key)) => stepped(workload(key, scope)),
        (Root::Workload, None) => whole(Some(whole_workload(scope))),
        (Root::Run, Some(key)) => stepped(scope.variable(Level::Run, key)),
        (Root::Step, Some(key)) => stepped(scope.variable(Level::Step, key).or_else(|| run_var(key, scope))),
        (Root::Iteration, Some(key)) => stepped(iteration_value(key, scope)),
        (Root::Run, None) => whole(Some(object(variables(Level::Run, scope)))),
        (Root::Step, None) => whole(Some(object(variables(Level::Step, scope)))),
        (Root::Iteration, None) => whole(iteration_object(scope)),
        (Root::Loop, _) => whole(scope.iteration(None).map(|iteration| {
            Value::object([
                ("index", Value::from(iteration.iteration_index)),
                ("count", iteration.count.map_or(Value::Null, Value::from)),
            ])
        })),
        (Root::LoopIndex, _) => whole(
            bare(name, scope).or_else(|| scope.iteration(None).map(|iteration| Value::from(iteration.iteration_index))),
        ),
        (Root::RunId, _) => whole(Some(Value::from(scope.run().id.clone()))),
        (Root::Parent, _) => whole(Some(scope.run().parent.clone().map_or(Value::Null, Value::Str))),
        (Root::Trace, _) => {
            let run = scope.run();
            whole(Some(Value::Str(run.trace.clone().unwrap_or_else(|| run.id.clone()))))
        }
        (Root::Definition, _) => whole(Some(Value::Str(scope.run().name.clone()))),
        (Root::Job, _) => whole(bare(name, scope).or_else(|| {
            let id = Value::from(scope.run().id.clone());
            Some(Value::object([("uuid", id.clone()), ("id", id)]))
        })),
        (Root::Payload, _) => whole(bare(name, scope).or_else(|| Some(scope.run().input.clone()))),
        // Where the place gives a word its meaning, a name of the author's does not.
        (Root::Error, _) if outcome::known(scope) => whole(outcome::error(scope)),
        (Root::Error, _) => whole(bare(name, scope)),
        (Root::Response, _) => outcome::response(scope).or_else(|| whole(own(name, scope))),
        (Root::Result, _) => {
            let last = || scope.local("_prev").or_else(|| outcome::result(scope));
            whole(last().or_else(|| own(name, scope)))
        }
        (Root::This, _) => outcome::this(first, scope).or_else(|| whole(bare(name, scope))),
        (Root::Output, _) => match scope.local("output") {
            Some(ended) => Some(outcome::ended(ended, first, scope)),
            None => outcome::output(first, scope).or_else(|| whole(bare(name, scope))),
        },
        (Root::Selected, _) => {
            whole(outcome::result(scope).or_else(|| scope.local("_prev")).or_else(|| bare(name, scope)))
        }
        (Root::Input, _) => whole(args(scope).or_else(|| bare(name, scope))),
        (Root::Local, Some("error")) if name == "outcome" => outcome::part("error", scope),
        (Root::Local, _) => whole(scope.local(name.strip_prefix('_').filter(|_| name == "_status").unwrap_or(name)))
            .or_else(|| whole(bare(name, scope))),
        (Root::Name, _) => whole(bare(name, scope)),
    }
}

/// Between the turns of a loop that keeps it, what the last one gave; else what the author calls so.
fn own(name: &str, scope: &dyn Scope) -> Option<Value> {
    let between = || scope.local("outcome").is_none().then(|| scope.variable(Level::Any, "_last")).flatten();
    bare(name, scope).or_else(between)
}

/// What the token carries.
fn args(scope: &dyn Scope) -> Option<Value> {
    scope.local("args").or_else(|| scope.variable(Level::Any, "args"))
}

/// Variables that a front keeps for itself.
const INTERNAL: [&str; 3] = ["_last", "_meta", "_pages"];

/// The variables of a level, without those that nobody has written down.
fn variables(level: Level, scope: &dyn Scope) -> impl Iterator<Item = (Arc<str>, Value)> {
    scope.variables(level).into_iter().filter(|(name, _)| !INTERNAL.contains(&&**name))
}

/// Names that can be used here, for messages.
pub(super) fn known(root: &Root, scope: &dyn Scope) -> Vec<Arc<str>> {
    let keys = |value: &Value| -> Vec<Arc<str>> {
        value.as_map().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    let level = |level: Level| variables(level, scope).map(|(name, _)| name);
    match root {
        Root::Workload => keys(&whole_workload(scope)),
        Root::Run => level(Level::Run).collect(),
        Root::Step => level(Level::Step).collect(),
        Root::Iteration => iteration_object(scope).map(|iteration| keys(&iteration)).unwrap_or_default(),
        _ => {
            let mut names: Vec<Arc<str>> = Vec::new();
            names.extend(level(Level::Iteration).chain(level(Level::Step)).chain(level(Level::Run)));
            names.extend(keys(&whole_workload(scope)));
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

fn bare(name: &str, scope: &dyn Scope) -> Option<Value> {
    iteration_variable(name, scope)
        .or_else(|| scope.variable(Level::Step, name))
        .or_else(|| args(scope).as_ref().and_then(|args| args.get(name)).cloned())
        .or_else(|| scope.variable(Level::Run, name))
        .or_else(|| scope.node(name).map(|node| node.output))
        .or_else(|| workload(name, scope))
        // What a loop says of its turn, for the entry it makes of it.
        .or_else(|| (name == "status").then(|| scope.local(name)).flatten())
}

fn iteration_variable(name: &str, scope: &dyn Scope) -> Option<Value> {
    scope.variable(Level::Iteration, name).or_else(|| {
        let iteration = scope.iteration(None)?;
        (iteration.item_name.as_deref() == Some(name)).then_some(iteration.item)
    })
}

fn iteration_value(key: &str, scope: &dyn Scope) -> Option<Value> {
    iteration_variable(key, scope).or_else(|| {
        let iteration = scope.iteration(None)?;
        match key {
            "index" => Some(Value::from(iteration.iteration_index)),
            "count" => iteration.count.map(Value::from),
            _ => None,
        }
    })
}

fn iteration_object(scope: &dyn Scope) -> Option<Value> {
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

/// A variable of the whole run that the file gives a first value under `vars`.
fn run_var(key: &str, scope: &dyn Scope) -> Option<Value> {
    let first = scope.run().parameters.get("vars")?.get(key)?.clone();
    Some(scope.variable(Level::Run, key).unwrap_or(first))
}

/// `vars` of the file is a parameter too, but no key of `workload`.
fn workload(key: &str, scope: &dyn Scope) -> Option<Value> {
    let run = scope.run();
    let own = run.parameters.get(key).filter(|_| key != "vars");
    own.or_else(|| run.input.get(key)).cloned()
}

fn whole_workload(scope: &dyn Scope) -> Value {
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
