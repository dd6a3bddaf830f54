//! Resumes the run after a pause.
//!
//! | run | effect |
//! |---|---|
//! | held | starts with its held input; events received since are applied in order, or are late if the start ended it |
//! | running, paused | continues with its agenda |
//! | not paused | none |

use crate::EventKind;
use crate::reduce::Reducer;
use crate::reduce::fault::FaultResult;
use crate::state::HeldStart;

impl Reducer<'_> {
    pub(super) fn resume(&mut self) -> FaultResult {
        if !self.state.paused {
            return Ok(());
        }
        self.state.paused = false;
        match self.state.held_start.take() {
            None => self.publish("".into(), EventKind::WorkflowResumed {}),
            Some(held) => self.start_held(*held)?,
        }
        Ok(())
    }

    /// Starts the run as if its start and the events received since arrived now.
    fn start_held(&mut self, held_start: HeldStart) -> FaultResult {
        let (input, trigger_metadata) = (self.state.run.input.clone(), self.state.run.trigger_metadata.clone());
        self.start(&input, held_start.origin.as_deref(), &trigger_metadata, &held_start.defaults)?;
        for event in held_start.events {
            self.add_event(
                &event.name,
                &event.payload,
                None,
                event.to.as_ref(),
                (&windlass_value::Value::Null, &windlass_value::Value::Null),
            )?;
        }
        Ok(())
    }
}
