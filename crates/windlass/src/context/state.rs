//! A run's state: read as of the start of the step, changed together with the step's result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::plan::WriteOp;
use windlass_core::{ExpectedValue, StateChange};
use windlass_value::{Map, Value, from_value, to_value};

use crate::nearest::suggest;
use crate::{Context, StepError};

/// A type that can be a run's state: a struct that serde can serialize and deserialize, with a default as initial
/// state.
///
/// ```
/// #[derive(Default, serde::Serialize, serde::Deserialize)]
/// struct Totals {
///     seen: u64,
///     names: Vec<String>,
/// }
///
/// fn state<S: windlass::WorkflowState>() {}
/// state::<Totals>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the state of a run",
    label = "not a state",
    note = "a state is a struct: `#[derive(Default, Serialize, Deserialize)] struct {Self} {{ … }}`"
)]
pub trait WorkflowState: Serialize + DeserializeOwned + Default + Send + 'static {}

impl<S: Serialize + DeserializeOwned + Default + Send + 'static> WorkflowState for S {}

/// The state as one body has read and changed it.
pub(crate) struct StateBuffer {
    initial: Map,
    /// Fields that the run has, as passed to the body.
    seen: Map,
    current: Map,
    changes: BTreeMap<Arc<str>, PendingChange>,
}

enum PendingChange {
    /// Overwritten: conflicts with any concurrent change of the field.
    Set,
    /// Added to: independent of concurrent changes.
    Ops(Vec<(WriteOp, Value)>),
}

impl StateBuffer {
    pub(crate) fn new(initial: &Map, given: &Value) -> StateBuffer {
        let seen = given.as_map().cloned().unwrap_or_default();
        let mut current = initial.clone();
        for (field, value) in seen.iter() {
            current.insert(field.clone(), value.clone());
        }
        StateBuffer { initial: initial.clone(), seen, current, changes: BTreeMap::new() }
    }

    fn read<S: DeserializeOwned>(&self) -> Result<S, StepError> {
        from_value(&Value::map(self.current.clone())).map_err(|error| {
            StepError::new("StateNotRead", format!("the state of the run cannot be read: {error}")).with_kind("state")
        })
    }

    fn write(&mut self, after: Map) -> Result<(), StepError> {
        if let Some(gone) = self.current.keys().find(|field| !after.contains_key(field)) {
            let message = format!("the serialized state lacks the field `{gone}`");
            let hint = "a state always has all its fields: no `skip_serializing_if` in its type";
            return Err(StepError::new("StateFieldMissing", message).with_kind("state").hint(hint));
        }
        for (field, value) in after {
            if self.current.get(&field) != Some(&value) {
                self.current.insert(field.clone(), value);
                self.changes.insert(field, PendingChange::Set);
            }
        }
        Ok(())
    }

    fn add(&mut self, field: &str, op: WriteOp, value: Value) -> Result<(), StepError> {
        let Some(now) = self.current.get(field) else {
            let message = format!("the state has no field `{field}`");
            return Err(StepError::new("NoSuchField", message)
                .with_kind("state")
                .hint(suggest(field, self.current.keys().map(|key| &**key).collect::<Vec<_>>())));
        };
        let field: Arc<str> = field.into();
        let after = apply_op(now, op, &value).ok_or_else(|| {
            let (verb, what) =
                if op == WriteOp::Add { ("be added to", "a number") } else { ("be appended to", "a list") };
            let message = format!("`{field}` cannot {verb}: it is {}, not {what}", now.kind());
            StepError::new("WrongField", message).with_kind("state")
        })?;
        self.current.insert(field.clone(), after);
        match self.changes.entry(field).or_insert_with(|| PendingChange::Ops(Vec::new())) {
            // The field is overwritten anyway, with its final value.
            PendingChange::Set => {}
            PendingChange::Ops(ops) => ops.push((op, value)),
        }
        Ok(())
    }

    pub(crate) fn into_changes(self) -> Vec<StateChange> {
        let StateBuffer { initial, seen, current, changes } = self;
        let mut out = Vec::new();
        for (field, pending) in changes {
            let begins = initial.get(&field).cloned().unwrap_or_default();
            match pending {
                PendingChange::Set => {
                    let was = seen.get(&field).cloned().map_or(ExpectedValue::Absent, ExpectedValue::Value);
                    let value = current.get(&field).cloned().unwrap_or_default();
                    out.push(StateChange { name: field, op: WriteOp::Set, value, expected: was, initial: begins });
                }
                PendingChange::Ops(ops) => out.extend(ops.into_iter().map(|(op, value)| StateChange {
                    name: field.clone(),
                    op,
                    value,
                    expected: ExpectedValue::Any,
                    initial: begins.clone(),
                })),
            }
        }
        out
    }
}

fn apply_op(now: &Value, op: WriteOp, value: &Value) -> Option<Value> {
    match (op, now, value) {
        (WriteOp::Add, Value::Int(now), Value::Int(more)) => now.checked_add(*more).map(Value::Int),
        (WriteOp::Add, now, more) => Value::float(now.as_f64()? + more.as_f64()?),
        (_, Value::List(items), item) => {
            let mut items = items.to_vec();
            items.push(item.clone());
            Some(Value::list(items))
        }
        _ => None,
    }
}

impl<S: crate::WorkflowState> Context<S> {
    fn with_state<T>(&self, act: impl FnOnce(&mut StateBuffer) -> Result<T, StepError>) -> Result<T, StepError> {
        let mut buffer = self.call.buffer();
        if buffer.state.is_none() {
            let Some(initial) = &self.call.info.state else {
                let message = "the workflow has no state: declare its type, as in `ctx: Context<Totals>`";
                return Err(StepError::new("NoState", message).with_kind("state"));
            };
            let given = self.call.tool_call.input.get("state").cloned().unwrap_or_default();
            buffer.state = Some(StateBuffer::new(initial, &given));
        }
        match &mut buffer.state {
            Some(state) => act(state),
            None => Err(StepError::new("NoState", "the workflow has no state").with_kind("state")),
        }
    }

    /// Returns the state as of the start of the step, with this step's own changes.
    pub fn state(&self) -> Result<S, StepError> {
        self.with_state(|state| state.read())
    }

    /// Changes the state together with the step's result. Only fields whose value changes are written.
    ///
    /// If another step has changed one of these fields meanwhile, this attempt fails with `StateConflict` (kind
    /// `conflict`), and is tried again if the step's retry policy covers that. For counters and lists that many steps
    /// share, use [`add`](Self::add) and [`append`](Self::append), which never conflict.
    pub fn update<T>(&self, change: impl FnOnce(&mut S) -> T) -> Result<T, StepError> {
        self.with_state(|state| {
            let mut typed: S = state.read()?;
            let given = change(&mut typed);
            match to_value(&typed)? {
                Value::Map(after) => state.write(Arc::unwrap_or_clone(after))?,
                other => {
                    let message = format!("the state is serialized as {}, not as an object", other.kind());
                    return Err(StepError::new("StateNotAnObject", message).with_kind("state"));
                }
            }
            Ok(given)
        })
    }

    /// Adds a number to a field, together with the step's result. Concurrent additions do not conflict.
    pub fn add(&self, field: &str, number: impl Serialize) -> Result<(), StepError> {
        let number = to_value(&number)?;
        self.with_state(|state| state.add(field, WriteOp::Add, number))
    }

    /// Appends an item to a list field, together with the step's result. Concurrent appends do not conflict.
    pub fn append(&self, field: &str, item: impl Serialize) -> Result<(), StepError> {
        let item = to_value(&item)?;
        self.with_state(|state| state.add(field, WriteOp::AppendItem, item))
    }
}
