//! The signature of a step, derived from the types of its function.

use std::any::{TypeId, type_name};

use windlass_value::{Map, Value, to_value};

use crate::event::EventType;
use crate::resource::ResourceType;
use crate::{StepError, WorkflowState};

/// The way events are joined before a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum JoinKind {
    /// Each event runs the step.
    #[default]
    One,
    /// All events of a fan-out.
    All,
    /// One event for each of a list of types.
    Collect,
    /// A failure of another step.
    Failure,
}

/// Collects the information that the types of a step's parameters and result provide.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct StepSignature {
    pub(crate) accepts: Vec<EventType>,
    pub(crate) join: JoinKind,
    pub(crate) produces: Vec<EventType>,
    pub(crate) fans_out: bool,
    pub(crate) resources: Vec<ResourceType>,
    pub(crate) states: Vec<StateType>,
    pub(crate) events: usize,
}

impl StepSignature {
    pub(crate) fn state<S: WorkflowState>(&mut self) {
        if TypeId::of::<S>() != TypeId::of::<()>() {
            self.states.push(StateType::for_type::<S>());
        }
    }

    pub(crate) fn resource<T: Send + Sync + 'static>(&mut self) {
        let needed = ResourceType::for_type::<T>();
        if !self.resources.contains(&needed) {
            self.resources.push(needed);
        }
    }
}

/// The type of a workflow's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateType {
    pub type_id: TypeId,
    pub name: &'static str,
    /// Returns the initial state, field by field.
    pub initial: fn() -> Result<Map, StepError>,
}

impl StateType {
    pub(crate) fn for_type<S: WorkflowState>() -> StateType {
        StateType { type_id: TypeId::of::<S>(), name: type_name::<S>(), initial: initial::<S> }
    }
}

fn initial<S: WorkflowState>() -> Result<Map, StepError> {
    match to_value(&S::default())? {
        Value::Map(map) => Ok(std::sync::Arc::unwrap_or_clone(map)),
        other => {
            let message =
                format!("the state `{}` is serialized as {}, not as an object", type_name::<S>(), other.kind());
            Err(StepError::new("StateNotAnObject", message).hint("make it a struct with named fields"))
        }
    }
}
