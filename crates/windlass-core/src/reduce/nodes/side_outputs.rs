//! Side outputs of a task: tokens it sends and variables of the run it changes. They are applied completely in the
//! tick of its result, or not at all.
//!
//! | the task has read | the variable is unchanged | it was changed since |
//! |---|---|---|
//! | no value that matters | changed | changed |
//! | that there is none, or this value | changed | nothing is changed or sent: the task has failed with a conflict |
//!
//! A change that cannot be made fails the task as well, and then nothing is changed or sent either.

use windlass_value::{Level, Map, Value};

use crate::plan::{VariableKind, VariableUpdate};
use crate::reduce::fault::{FaultResult, no_part};
use crate::reduce::write::check_write;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{FrameBody, FrameId, ScopeId, Variable};
use crate::{ErrorInfo, ExpectedValue, SentToken, SideOutputs, StateChange, TaskOutcome};

impl Reducer<'_> {
    /// Returns the failed outcome that replaces a result whose changes cannot be made. Needs all values to be loaded.
    pub(super) fn check_state_changes(&mut self, outcome: &TaskOutcome) -> Result<Option<TaskOutcome>, ItemStop> {
        let (Some(side_outputs), None) = (&outcome.side_outputs, &outcome.error) else { return Ok(None) };
        let mut set = Map::new();
        for change in &side_outputs.state_changes {
            let after = match self.run_variable(change)? {
                found if !is_unchanged(change, found.as_ref()) => Err(conflict(change)),
                found => {
                    let before = set.get(&change.name).cloned().or(found).unwrap_or_else(|| change.initial.clone());
                    let (before, value) = (self.resolve(&before)?, self.resolve(&change.value)?);
                    check_write(change.op, &change.name, &before, &value)
                }
            };
            match after {
                // The following changes see the effect of this one.
                Ok(after) => _ = set.insert(change.name.clone(), after),
                Err(error) => {
                    return Ok(Some(TaskOutcome { meta: outcome.meta.clone(), ..TaskOutcome::failure(error) }));
                }
            }
        }
        Ok(None)
    }

    fn run_variable(&self, change: &StateChange) -> FaultResult<Option<Value>> {
        let scope = self.scope(self.state.root_scope)?;
        Ok(scope.variables.get(&change.name).map(|variable| variable.value.clone()))
    }

    /// Applies the changes and sends the tokens. The changes were checked before: none of them fails now.
    pub(super) fn apply_side_outputs(
        &mut self,
        id: FrameId,
        side_outputs: &SideOutputs,
        scope: ScopeId,
    ) -> Result<(), ItemStop> {
        for change in &side_outputs.state_changes {
            self.initialize_variable(change)?;
            let write = VariableUpdate {
                ignores_input: true,
                ..VariableUpdate::new(Level::Run, change.name.clone(), change.op, None)
            };
            let value = self.write(&write, scope, change.value.clone())?;
            self.publish_patch(id, &write, &value);
        }
        // Without a net around it there is no receiver.
        if let Some(sends) = self.sends_of(id)? {
            sends.extend(side_outputs.sends.iter().cloned());
        }
        Ok(())
    }

    fn initialize_variable(&mut self, change: &StateChange) -> FaultResult {
        if change.initial.is_null() {
            return Ok(());
        }
        let first = || Variable { kind: VariableKind::Any, value: change.initial.clone() };
        let scope = self.scope_mut(self.state.root_scope)?;
        scope.variables.entry(change.name.clone()).or_insert_with(first);
        Ok(())
    }

    /// Returns the list in which the innermost net around a task keeps the tokens that its body has sent, until the
    /// body ends.
    fn sends_of(&mut self, id: FrameId) -> FaultResult<Option<&mut Vec<SentToken>>> {
        let mut below = id;
        loop {
            let frame = self.frame(below)?;
            let (slot, Some(parent)) = (frame.slot, frame.parent) else { return Ok(None) };
            if matches!(self.frame(parent)?.body, FrameBody::Net(_)) {
                let firing = self.net_frame_mut(parent)?.firings.get_mut(&slot);
                return Ok(Some(&mut firing.ok_or_else(|| no_part(parent, "firing", slot))?.sends));
            }
            below = parent;
        }
    }
}

fn is_unchanged(change: &StateChange, now: Option<&Value>) -> bool {
    match &change.expected {
        ExpectedValue::Any => true,
        ExpectedValue::Absent => now.is_none(),
        ExpectedValue::Value(expected) => now == Some(expected),
    }
}

fn conflict(change: &StateChange) -> ErrorInfo {
    let message = format!("`{}` was changed by another step while this step was using it", change.name);
    ErrorInfo::new("StateConflict", "conflict", message)
        .hint("add to it or append to it instead of setting it, set `workers` of the step to 1, or retry on `conflict`")
}
