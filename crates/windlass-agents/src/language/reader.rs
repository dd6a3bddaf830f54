//! Reads the contents of a scope in workflow terms.

use std::sync::Arc;

use windlass_value::{
    EvalError, EvalErrorKind, EvalScope, IterationView, Level, Meter, NodeView, RunView, Value, to_json,
};

pub(super) struct ScopeReader<'a> {
    scope: &'a dyn EvalScope,
    meter: &'a mut Meter,
}

/// The bytes that cost as much as one evaluation step.
const BYTES_PER_STEP: usize = 64;

/// A step that has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedStep {
    pub status: &'static str,
    pub content: Arc<str>,
    /// Null if there is none.
    pub result: Value,
    /// How its agent's last reply ended; null if that was a complete answer.
    pub stop: Value,
    pub usage: Value,
}

impl EndedStep {
    pub(crate) fn is_completed(&self) -> bool {
        self.status == "completed"
    }

    /// Returns the entry of an output that says how the agent stopped.
    pub(crate) fn stop_entry(&self) -> Option<(&'static str, Value)> {
        (!self.stop.is_null()).then(|| ("stop", self.stop.clone()))
    }
}

impl<'a> ScopeReader<'a> {
    pub(crate) fn new(scope: &'a dyn EvalScope, meter: &'a mut Meter) -> ScopeReader<'a> {
        ScopeReader { scope, meter }
    }

    pub(crate) fn run(&self) -> &RunView {
        self.scope.run()
    }

    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        self.meter.spend(steps as u64)
    }

    /// Charges the meter for a text before it is built.
    pub(crate) fn pay(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.check_size(bytes)?;
        self.meter.spend((bytes / BYTES_PER_STEP) as u64 + 1)
    }

    /// Loads a value that may be stored elsewhere. Its parts may still be references.
    pub(crate) fn load(&mut self, value: &Value) -> Result<Value, EvalError> {
        let Value::Stored(stored) = value else { return Ok(value.clone()) };
        self.spend(1)?;
        let content = self.scope.blob(stored)?;
        if !stored.chunked {
            return Ok(content);
        }
        let mut items = Vec::with_capacity(stored.items as usize);
        for chunk in content.as_list().unwrap_or_default() {
            let part = self.load(chunk)?;
            self.spend(part.as_list().map_or(1, <[Value]>::len))?;
            items.extend(part.as_list().unwrap_or_default().iter().cloned());
        }
        Ok(Value::list(items))
    }

    /// Loads a value with everything in it.
    pub(crate) fn load_deep(&mut self, value: &Value) -> Result<Value, EvalError> {
        self.spend(1)?;
        if value.stored_bytes() == 0 {
            return Ok(value.clone());
        }
        match self.load(value)? {
            Value::List(items) => {
                let items = items.iter().map(|item| self.load_deep(item)).collect::<Result<Vec<_>, _>>()?;
                Ok(Value::list(items))
            }
            Value::Map(map) => {
                let mut loaded = windlass_value::Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    loaded.insert(key.clone(), self.load_deep(value)?);
                }
                Ok(Value::map(loaded))
            }
            other => Ok(other),
        }
    }

    pub(crate) fn json(&mut self, value: &Value) -> Result<String, EvalError> {
        let value = self.load_deep(value)?;
        self.pay(value.size_up_to(usize::MAX))?;
        Ok(to_json(&value))
    }

    /// Returns a property, loaded; null if it does not exist.
    pub(crate) fn part(&mut self, value: &Value, key: &str) -> Result<Value, EvalError> {
        let value = self.load(value)?;
        value.get(key).map_or(Ok(Value::Null), |part| self.load(part))
    }

    /// Returns a property that is a text.
    pub(crate) fn text(&mut self, value: &Value, key: &str) -> Result<Arc<str>, EvalError> {
        match self.part(value, key)? {
            Value::Str(text) => Ok(text),
            _ => Ok("".into()),
        }
    }

    /// Returns a variable of the agent itself.
    pub(crate) fn own_variable(&mut self, name: &str) -> Result<Value, EvalError> {
        let value = self.scope.variable(Level::Step, name).unwrap_or_default();
        self.load(&value)
    }

    /// Returns a variable of any enclosing scope.
    pub(crate) fn enclosing_variable(&mut self, name: &str) -> Result<Value, EvalError> {
        let value = self.scope.variable(Level::Any, name).unwrap_or_default();
        self.load(&value)
    }

    /// Returns a variable of the run.
    pub(crate) fn run_variable(&mut self, name: &str) -> Result<Value, EvalError> {
        let value = self.scope.variable(Level::Run, name).unwrap_or_default();
        self.load(&value)
    }

    pub(crate) fn local(&mut self, name: &str) -> Result<Value, EvalError> {
        let value = self.scope.local(name).unwrap_or_default();
        self.load(&value)
    }

    pub(crate) fn visit(&self) -> u64 {
        let visit = self.scope.local("_visit").and_then(|visit| visit.as_int());
        visit.and_then(|visit| u64::try_from(visit).ok()).unwrap_or(1)
    }

    pub(crate) fn has_failed(&self) -> bool {
        let outcome = self.scope.local("outcome");
        outcome.is_some_and(|outcome| outcome.get("status").and_then(Value::as_str) == Some("error"))
    }

    /// Returns why the ended task has failed; null if it has not.
    pub(crate) fn task_error(&mut self) -> Result<Value, EvalError> {
        let outcome = self.scope.local("outcome").unwrap_or_default();
        let error = self.part(&outcome, "error")?;
        self.load_deep(&error)
    }

    /// Returns the result of the ended task.
    pub(crate) fn task_result(&mut self) -> Result<Value, EvalError> {
        let outcome = self.scope.local("outcome").unwrap_or_default();
        self.part(&outcome, "result")
    }

    /// Returns the private state that the ended task's tool wants to see again, without loading it.
    pub(crate) fn raw_task_state(&self) -> Option<Value> {
        let outcome = self.scope.local("outcome");
        outcome.and_then(|outcome| outcome.get("private").cloned()).filter(|state| !state.is_null())
    }

    /// Returns the result of the ended task without loading it.
    pub(crate) fn raw_task_result(&self) -> Value {
        let outcome = self.scope.local("outcome");
        outcome.and_then(|outcome| outcome.get("result").cloned()).unwrap_or_default()
    }

    pub(crate) fn iteration(&self, name: Option<&str>) -> Option<IterationView> {
        self.scope.iteration(name)
    }

    /// Returns the item of the innermost iteration, and its index.
    pub(crate) fn item(&mut self) -> Result<(Value, u64), EvalError> {
        let iteration = self.scope.iteration(None);
        let iteration =
            iteration.ok_or_else(|| EvalError::new(EvalErrorKind::Missing, "there is no loop iteration here"))?;
        Ok((self.load(&iteration.item)?, iteration.iteration_index))
    }

    /// Returns an ended step, seen from `beyond` scopes further out. `None` if it has not ended or never will.
    pub(crate) fn step(&mut self, beyond: usize, id: &str) -> Result<Option<EndedStep>, EvalError> {
        self.spend(1)?;
        match self.scope.node_outside(beyond, id) {
            Some(node) => self.ended_step(&node).map(Some),
            None => Ok(None),
        }
    }

    fn ended_step(&mut self, node: &NodeView) -> Result<EndedStep, EvalError> {
        let output = self.load(&node.output)?;
        Ok(EndedStep {
            status: status_name(node.status),
            content: self.text(&output, "content")?,
            result: self.part(&output, "result")?,
            stop: self.part(&output, "stop")?,
            usage: node.usage.clone(),
        })
    }

    /// Returns the output so far of a node that is about to end.
    pub(crate) fn own_output(&mut self, name: &str) -> Result<Value, EvalError> {
        let output = self.scope.node_outside(0, name).map(|node| node.output).unwrap_or_default();
        self.load(&output)
    }

    pub(crate) fn list(&mut self, value: &Value) -> Result<Vec<Value>, EvalError> {
        let value = self.load(value)?;
        let items = value.as_list().unwrap_or_default();
        self.spend(items.len())?;
        Ok(items.to_vec())
    }
}

/// Returns the status in workflow terms.
pub(super) fn status_name(status: &str) -> &'static str {
    match status {
        "succeeded" => "completed",
        "skipped" => "skipped",
        "cancelled" => "cancelled",
        _ => "failed",
    }
}
