//! Entry into a loop: limits, concurrency, budget and items are all evaluated before anything changes.
//!
//! | frame | enter |
//! |---|---|
//! | new | entered: with a first check if the loop checks before, else with its next iteration |
//! | new, and a limit cannot be evaluated or exceeds the system's, or the items are not a list | failed |
//! | any other | – |
//!
//! – is impossible and a fault.

use windlass_value::Duration;

use super::limits::check_maximums;
use crate::plan::{Loop, LoopCheck, LoopSource};
use crate::reduce::fault::FaultResult;
use crate::reduce::{ItemStop, Reducer, budget};
use crate::state::{AgendaItem, FrameBody, FrameId, LoopFrame, Timer};
use crate::{EventKind, LoopEventLimits};

impl Reducer<'_> {
    pub(in crate::reduce) fn enter_loop(&mut self, id: FrameId, looping: &Loop) -> Result<(), ItemStop> {
        let scope = self.frame(id)?.scope;
        let max_iterations = looping.limits.iterations.as_ref().map(|amount| self.count(amount, scope)).transpose()?;
        let time = looping.limits.time.as_ref().map(|amount| self.duration(amount, scope)).transpose()?;
        let max_concurrency = self.count(&looping.max_concurrency, scope)?;
        let budget = self.evaluate_budget(&looping.limits.budget, scope)?;
        check_maximums(looping, max_iterations, time, max_concurrency)?;
        let items = match looping.source {
            LoopSource::Repeat => None,
            LoopSource::Each(expression) => {
                let value = self.eval(expression, scope)?;
                Some(self.store_items(&value)?)
            }
        };
        self.limit_loop_time(id, &budget)?;
        self.publish_started(id)?;
        let path = self.path(id);
        let time_at = time.map(|time| self.now() + time);
        let time_key = time_at
            .filter(|_| looping.limits.cancels_iterations_on_timeout)
            .map(|at| self.set_timer(at, Timer::LoopTime(id)));
        let history = self.entered_before(id)?.map(|generation| format!("{path}~{generation}").into());
        let body = LoopFrame::new(path, items, max_iterations, max_concurrency, time_at, time_key, budget);
        let body = LoopFrame { history, ..body };
        self.publish_loop_started(id, looping, time, &body)?;
        self.frame_mut(id)?.body = FrameBody::Loop(Box::new(body));
        self.state.agenda.push_back(match looping.check {
            LoopCheck::Before { .. } => AgendaItem::FirstCheck(id),
            LoopCheck::After { .. } | LoopCheck::Never => AgendaItem::NextIteration(id),
        });
        Ok(())
    }

    fn publish_loop_started(
        &mut self,
        id: FrameId,
        looping: &Loop,
        time: Option<Duration>,
        body: &LoopFrame,
    ) -> FaultResult {
        if looping.internal || self.frame(id)?.quiet {
            return Ok(());
        }
        let items = body.items.as_ref().map(|items| items.count);
        let more = items.is_some_and(|items| items > body.max_concurrency);
        let limits = LoopEventLimits {
            count: body.max_iterations,
            timeout: time.map(|time| time.to_string().into()),
            items,
            max_concurrency: (more && body.max_concurrency > 1).then_some(body.max_concurrency),
            budget: budget::amounts_value(&body.budget, |budget| budget.max).unwrap_or_default(),
        };
        self.publish_at(id, EventKind::LoopStarted { kind: looping.kind.clone(), limits });
        Ok(())
    }
}
