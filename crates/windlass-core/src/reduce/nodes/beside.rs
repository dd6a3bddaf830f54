//! What a task does besides giving its output: it sends tokens and changes variables of the run. All of it is in the tick of
//! its result, or none.

use windlass_value::{Level, Map, Value};

use crate::plan::{VariableKind, Write};
use crate::reduce::write::checked;
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, FrameId, ScopeId, Variable};
use crate::{Beside, Change, ErrorInfo, TaskOutcome, Was};

impl Reducer<'_> {
    /// A result whose changes cannot be made is a failure: the outcome to take for it. Needs all values at hand.
    pub(super) fn refused_changes(&mut self, outcome: &TaskOutcome) -> Result<Option<TaskOutcome>, Stop> {
        let (Some(beside), None) = (&outcome.beside, &outcome.error) else { return Ok(None) };
        let mut set = Map::new();
        for change in &beside.changes {
            let after = match self.variable_of_run(change) {
                found if !seen(change, found.as_ref()) => Err(conflict(change)),
                found => {
                    let before = set.get(&change.name).cloned().or(found).unwrap_or_else(|| change.initial.clone());
                    let (before, value) = (self.resolve(&before)?, self.resolve(&change.value)?);
                    checked(change.op, &change.name, &before, &value)
                }
            };
            match after {
                // What follows sees what this one would make of it.
                Ok(after) => _ = set.insert(change.name.clone(), after),
                Err(error) => {
                    return Ok(Some(TaskOutcome { meta: outcome.meta.clone(), ..TaskOutcome::failure(error) }));
                }
            }
        }
        Ok(None)
    }

    fn variable_of_run(&self, change: &Change) -> Option<Value> {
        let scope = self.state.scopes.get(self.state.root_scope)?;
        scope.variables.get(&change.name).map(|variable| variable.value.clone())
    }

    /// The changes have been looked at: none of them fails now.
    pub(super) fn do_beside(&mut self, id: FrameId, beside: &Beside, scope: ScopeId) -> Result<(), Stop> {
        for change in &beside.changes {
            self.begin_variable(change);
            let write = Write { fresh: true, ..Write::new(Level::Run, change.name.clone(), change.op, None) };
            let value = self.write(&write, scope, change.value.clone())?;
            self.tell_patched(id, &write, &value);
        }
        if let Some(sends) = self.sends_of(id) {
            sends.extend(beside.sends.iter().cloned());
        }
        Ok(())
    }

    fn begin_variable(&mut self, change: &Change) {
        if change.initial.is_null() {
            return;
        }
        if let Some(scope) = self.state.scopes.get_mut(self.state.root_scope) {
            let first = || Variable { kind: VariableKind::Any, value: change.initial.clone() };
            scope.variables.entry(change.name.clone()).or_insert_with(first);
        }
    }

    /// Where the innermost net around a task keeps what its body has sent, until it ends.
    fn sends_of(&mut self, id: FrameId) -> Option<&mut Vec<crate::Sent>> {
        let mut below = id;
        loop {
            let frame = self.state.frames.get(below)?;
            let (slot, parent) = (frame.slot, frame.parent?);
            if matches!(self.state.frames.get(parent)?.body, Body::Net(_)) {
                let Body::Net(net) = &mut self.state.frames.get_mut(parent)?.body else { return None };
                return net.firings.get_mut(&slot).map(|firing| &mut firing.sends);
            }
            below = parent;
        }
    }
}

fn seen(change: &Change, now: Option<&Value>) -> bool {
    match &change.was {
        Was::Any => true,
        Was::Absent => now.is_none(),
        Was::Value(was) => now == Some(was),
    }
}

fn conflict(change: &Change) -> ErrorInfo {
    let message = format!("`{}` was changed by somebody else while this step was working on it", change.name);
    ErrorInfo::new("StateConflict", "conflict", message).hint(
        "add to it or append to it instead of setting it, let one worker at a time do this, or try again on `conflict`",
    )
}
