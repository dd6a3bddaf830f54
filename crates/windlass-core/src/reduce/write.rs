//! Writes of variables: one implementation for every dialect.

use std::sync::Arc;

use windlass_value::{Level, Map, Value};

use super::fault::FaultResult;
use super::{ItemStop, Reducer};
use crate::ErrorInfo;
use crate::plan::{VariableKind, VariableUpdate, WriteOp};
use crate::program::{accepts_value, kind_name};
use crate::state::{Scope, ScopeId, Variable};

impl Reducer<'_> {
    /// Applies one write with an evaluated operand. Everything is checked before anything changes.
    pub(crate) fn write(&mut self, write: &VariableUpdate, scope: ScopeId, operand: Value) -> Result<Value, ItemStop> {
        let target = self.target(write.level, scope)?;
        let operand = if write.op == WriteOp::Extend { self.resolve(&operand)? } else { operand };
        if self.append_in_place(target, write, &operand)? {
            return Ok(operand);
        }
        if let Some(merged) = self.merge_in_place(target, write, &operand)? {
            return Ok(merged);
        }
        let current = self.current(target, write)?;
        let (kind, value) = match write.op {
            WriteOp::Declare(kind) => declared(kind, self.variable_in(target, &write.name)?, &write.name, operand)?,
            op @ (WriteOp::Set
            | WriteOp::Add
            | WriteOp::Subtract
            | WriteOp::Max
            | WriteOp::Min
            | WriteOp::AppendItem
            | WriteOp::Extend
            | WriteOp::AppendText
            | WriteOp::Merge) => {
                let (kind, before) =
                    current.map_or((VariableKind::Any, Value::Null), |current| (current.kind, current.value));
                let before = self.resolve(&before)?;
                let operand = if op == WriteOp::Set { operand } else { self.resolve(&operand)? };
                (kind, combine(op, &write.name, self.initial_for_counting(op, before), operand)?)
            }
        };
        if !accepts_value(kind, &value) {
            let message =
                format!("the variable `{}` holds {}, so it cannot be set to {value:?}", write.name, kind_name(kind));
            return Err(ErrorInfo::new("VariableKind", "expression", message).into());
        }
        let variable = Variable { kind, value: value.clone() };
        self.scope_mut(target)?.variables.insert(write.name.clone(), variable);
        Ok(value)
    }

    /// Returns the initial value for counting: an empty variable counts from 0.
    fn initial_for_counting(&self, op: WriteOp, before: Value) -> Value {
        let counts = matches!(op, WriteOp::Add | WriteOp::Subtract);
        if counts && before.is_null() { Value::Int(0) } else { before }
    }

    /// Loads the values that a write, and one after it, needs.
    pub(crate) fn load_for_write(
        &self,
        write: &VariableUpdate,
        scope: ScopeId,
        operand: &Value,
    ) -> Result<(), ItemStop> {
        if let Some(current) = self.current(self.target(write.level, scope)?, write)? {
            self.resolve(&current.value)?;
        }
        self.resolve(operand).map(|_| ())
    }

    /// Appends to a list in place, at a cost that does not depend on its length: the list has no other holder. False:
    /// the write does not append, or there is no list yet.
    fn append_in_place(&mut self, target: ScopeId, write: &VariableUpdate, operand: &Value) -> FaultResult<bool> {
        let append: fn(&mut Vec<Value>, &Value) = match write.op {
            WriteOp::Extend => extend,
            WriteOp::AppendItem => |items, item| items.push(item.clone()),
            WriteOp::Declare(_)
            | WriteOp::Set
            | WriteOp::Add
            | WriteOp::Subtract
            | WriteOp::Max
            | WriteOp::Min
            | WriteOp::AppendText
            | WriteOp::Merge => return Ok(false),
        };
        let variable = self.scope_mut(target)?.variables.get_mut(&write.name);
        let Some(Variable { value: Value::List(items), .. }) = variable else { return Ok(false) };
        append(Arc::make_mut(items), operand);
        Ok(true)
    }

    /// Merges into an object in place, at a cost that does not depend on its size: the object has no other holder. None:
    /// the write does not merge, or there is no object yet.
    fn merge_in_place(
        &mut self,
        target: ScopeId,
        write: &VariableUpdate,
        operand: &Value,
    ) -> FaultResult<Option<Value>> {
        let (WriteOp::Merge, Value::Map(more)) = (write.op, operand) else { return Ok(None) };
        let variable = self.scope_mut(target)?.variables.get_mut(&write.name);
        let Some(Variable { value: Value::Map(map), .. }) = variable else { return Ok(None) };
        merge(Arc::make_mut(map), more);
        Ok(Some(Value::Map(map.clone())))
    }

    fn target(&self, level: Level, from: ScopeId) -> FaultResult<ScopeId> {
        let matches_level = |scope: &Scope| match level {
            Level::Run => scope.parent.is_none(),
            Level::Iteration => scope.iteration.is_some(),
            Level::Step => scope.iteration.is_none(),
            Level::Any => true,
        };
        let mut id = from;
        loop {
            let scope = self.scope(id)?;
            match scope.parent {
                Some(parent) if !matches_level(scope) => id = parent,
                Some(_) | None => return Ok(id),
            }
        }
    }

    fn variable_in(&self, target: ScopeId, name: &str) -> FaultResult<Option<&Variable>> {
        Ok(self.scope(target)?.variables.get(name))
    }

    /// Returns the current variable; a variable of the run that was never declared comes from the run's input.
    fn current(&self, target: ScopeId, write: &VariableUpdate) -> FaultResult<Option<Variable>> {
        let name = &*write.name;
        let declared = self.variable_in(target, name)?.cloned();
        let from_input = !write.ignores_input && matches!(write.level, Level::Run | Level::Any);
        Ok(declared.or_else(|| {
            if !from_input {
                return None;
            }
            let input = self.state.run.input.as_map()?;
            let folded = || {
                let lower = name.to_lowercase();
                input.iter().find(|(key, _)| key.to_lowercase() == lower).map(|(_, value)| value)
            };
            let given = input.get(name).or_else(folded)?;
            Some(Variable { kind: VariableKind::Any, value: given.clone() })
        }))
    }
}

fn declared(
    kind: VariableKind,
    existing: Option<&Variable>,
    name: &str,
    value: Value,
) -> Result<(VariableKind, Value), ErrorInfo> {
    match existing.map(|variable| variable.kind) {
        None => {}
        Some(VariableKind::Any) => {
            let message = format!("the variable `{name}` was written before it is initialized");
            let hint = "run the action that writes it after the one that initializes it";
            return Err(ErrorInfo::new("VariableExists", "expression", message).hint(hint));
        }
        Some(
            VariableKind::Boolean
            | VariableKind::Integer
            | VariableKind::Float
            | VariableKind::String
            | VariableKind::Array
            | VariableKind::Object,
        ) => {
            let message = format!("the variable `{name}` is initialized twice");
            return Err(ErrorInfo::new("VariableExists", "expression", message));
        }
    }
    Ok((kind, if value.is_null() { initial(kind) } else { value }))
}

/// Returns the value of a variable of this kind that is declared without a value.
fn initial(kind: VariableKind) -> Value {
    match kind {
        VariableKind::Boolean => Value::Bool(false),
        VariableKind::Integer => Value::Int(0),
        VariableKind::Float => Value::Float(0.0),
        VariableKind::Array => Value::list(Vec::new()),
        VariableKind::String | VariableKind::Object | VariableKind::Any => Value::Null,
    }
}

/// Returns the operand of a write without a value: counting uses 1.
pub(crate) fn default_operand(op: WriteOp) -> Value {
    match op {
        WriteOp::Add | WriteOp::Subtract => Value::Int(1),
        WriteOp::Declare(_)
        | WriteOp::Set
        | WriteOp::Max
        | WriteOp::Min
        | WriteOp::AppendItem
        | WriteOp::Extend
        | WriteOp::AppendText
        | WriteOp::Merge => Value::Null,
    }
}

fn combine(op: WriteOp, name: &str, before: Value, operand: Value) -> Result<Value, ErrorInfo> {
    match op {
        WriteOp::Declare(_) | WriteOp::Set => Ok(operand),
        WriteOp::Add => arithmetic(name, before, operand, 1),
        WriteOp::Subtract => arithmetic(name, before, operand, -1),
        WriteOp::Max | WriteOp::Min => extreme(op, name, before, operand),
        WriteOp::AppendItem => match before {
            Value::List(items) => {
                let mut items = Arc::unwrap_or_clone(items);
                items.push(operand);
                Ok(Value::list(items))
            }
            Value::Null => Ok(Value::list(vec![operand])),
            other => Err(mismatch(name, "an array", &other)),
        },
        WriteOp::Extend => match (before, operand) {
            (Value::Null, more @ Value::List(_)) => Ok(more),
            (Value::Null, item) => Ok(Value::list(vec![item])),
            (Value::List(items), more) => {
                let mut items = Arc::unwrap_or_clone(items);
                extend(&mut items, &more);
                Ok(Value::list(items))
            }
            (other, _) => Err(mismatch(name, "an array", &other)),
        },
        WriteOp::AppendText => match (&before, &operand) {
            (Value::Null | Value::Str(_), _) => {
                let start = before.as_str().unwrap_or_default();
                let more = operand.as_str().map_or_else(|| to_text(&operand), str::to_owned);
                Ok(Value::from(format!("{start}{more}")))
            }
            _ => Err(mismatch(name, "a string", &before)),
        },
        WriteOp::Merge => match (before, operand) {
            (Value::Null, operand @ Value::Map(_)) => Ok(operand),
            (Value::Map(map), Value::Map(more)) => {
                let mut map: Map = Arc::unwrap_or_clone(map);
                merge(&mut map, &more);
                Ok(Value::map(map))
            }
            (before, _) => Err(mismatch(name, "an object", &before)),
        },
    }
}

/// Returns the value of a variable after an operation, if the operation is possible. The cost does not grow with a
/// list: a list that is appended to is returned unchanged.
pub(crate) fn check_write(op: WriteOp, name: &str, before: &Value, operand: &Value) -> Result<Value, ErrorInfo> {
    match (op, before) {
        (WriteOp::Declare(_) | WriteOp::Set, _) => Ok(operand.clone()),
        (WriteOp::AppendItem | WriteOp::Extend, Value::Null | Value::List(_)) => Ok(before.clone()),
        (WriteOp::Merge, Value::Null | Value::Map(_)) if matches!(operand, Value::Map(_)) => Ok(before.clone()),
        (WriteOp::Add | WriteOp::Subtract, Value::Null) => combine(op, name, Value::Int(0), operand.clone()),
        (WriteOp::AppendItem | WriteOp::Extend, other) => Err(mismatch(name, "an array", other)),
        (WriteOp::Merge, other) => Err(mismatch(name, "an object", other)),
        (WriteOp::Add | WriteOp::Subtract | WriteOp::Max | WriteOp::Min | WriteOp::AppendText, _) => {
            combine(op, name, before.clone(), operand.clone())
        }
    }
}

fn extend(items: &mut Vec<Value>, more: &Value) {
    match more {
        Value::List(more) => items.extend(more.iter().cloned()),
        item => items.push(item.clone()),
    }
}

fn merge(map: &mut Map, more: &Map) {
    for (key, value) in more.iter() {
        map.insert(key.clone(), value.clone());
    }
}

fn to_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Value::Float(number) => windlass_value::format_float(*number),
        other => windlass_value::to_json(other),
    }
}

fn arithmetic(name: &str, before: Value, by: Value, sign: i64) -> Result<Value, ErrorInfo> {
    match (&before, &by) {
        (Value::Int(a), Value::Int(b)) => {
            b.checked_mul(sign).and_then(|b| a.checked_add(b)).map(Value::Int).ok_or_else(|| {
                ErrorInfo::new("Overflow", "expression", format!("the variable `{name}` would exceed 64 bits"))
            })
        }
        _ => match (before.as_f64(), by.as_f64()) {
            (Some(a), Some(b)) => Value::float(a + b * sign as f64).ok_or_else(|| {
                ErrorInfo::new("Overflow", "expression", format!("the variable `{name}` would not be finite"))
            }),
            (None, _) => Err(mismatch(name, "a number", &before)),
            (_, None) => {
                let error = mismatch(name, "changed by a number", &by);
                Err(if by.is_null() { error.hint("if it may be missing, write coalesce(…, 0)") } else { error })
            }
        },
    }
}

fn extreme(op: WriteOp, name: &str, before: Value, operand: Value) -> Result<Value, ErrorInfo> {
    if before.is_null() {
        return Ok(operand);
    }
    match (before.as_f64(), operand.as_f64()) {
        (Some(a), Some(b)) => Ok(if (op == WriteOp::Max) == (b > a) { operand } else { before }),
        _ => Err(mismatch(name, "a number", &before)),
    }
}

fn mismatch(name: &str, expected: &str, found: &Value) -> ErrorInfo {
    let found = if found.is_null() { "null".to_owned() } else { format!("{} {found:?}", found.kind()) };
    ErrorInfo::new("VariableKind", "expression", format!("the variable `{name}` must be {expected}; found {found}"))
}
