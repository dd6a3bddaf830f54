//! Go on after a pause.

use crate::reduce::{Impossible, Reducer};
use crate::state::PutOff;

impl Reducer<'_> {
    pub(super) fn resume(&mut self) -> Result<(), Impossible> {
        if !self.state.paused {
            return Ok(());
        }
        self.state.paused = false;
        match self.state.held.take() {
            None => self.publish("".into(), "workflow.resumed", []),
            Some(held) => self.start_held(*held)?,
        }
        Ok(())
    }

    /// As if all of it came now.
    fn start_held(&mut self, held: PutOff) -> Result<(), Impossible> {
        let (input, beside) = (self.state.run.input.clone(), self.state.run.beside.clone());
        self.start(&input, held.origin.as_deref(), &beside, &held.defaults);
        for event in held.later {
            if self.state.result().is_some() {
                self.late("AddEvent");
                continue;
            }
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
