//! The delay between iterations: never before the first, never after the last.
//!
//! | loop | an iteration is over, without a delay | with a delay | alarm |
//! |---|---|---|---|
//! | running | the next iteration | delayed | – |
//! | delayed | the next iteration | delayed: the first delay counts | the next iteration |
//!
//! – is impossible and a fault. A loop that ends clears its alarm.

use windlass_value::Duration;

use super::check::IterationChecks;
use super::limits::may_continue;
use crate::plan::Loop;
use crate::reduce::fault::FaultResult;
use crate::reduce::{ItemStop, Reducer};
use crate::state::{AgendaItem, FrameId, ScopeId, Timer};

impl Reducer<'_> {
    /// Evaluates the delay in the scope of the iteration that has ended. A loop that is ending does not evaluate it.
    pub(super) fn check_delay(
        &mut self,
        id: FrameId,
        looping: &Loop,
        scope: ScopeId,
        checks: &mut IterationChecks,
    ) -> Result<(), ItemStop> {
        let (_, body) = self.loop_frame(id)?;
        if checks.stop.is_none() && body.stopping.is_none() && may_continue(body, self.now()) {
            checks.delay = looping.delay.as_ref().map(|delay| self.duration(delay, scope)).transpose()?;
        }
        Ok(())
    }

    pub(super) fn delay_or_go_on(&mut self, id: FrameId, delay: Option<Duration>) -> FaultResult {
        match delay.filter(|delay| delay.0 > 0) {
            None => self.state.agenda.push_back(AgendaItem::NextIteration(id)),
            // The first of the concurrent iterations to end begins the delay; the next ones begin when it is over.
            Some(_) if self.frame(id)?.alarm.is_some() => {}
            Some(delay) => {
                let key = self.set_timer(self.now() + delay, Timer::Alarm(id));
                self.frame_mut(id)?.alarm = Some(key);
            }
        }
        Ok(())
    }
}
