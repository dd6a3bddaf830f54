//! What the turns of a loop may use up together. Counted in the state, so that no crash forgets what was spent.

use windlass_value::{Map, Value};

use crate::plan::{CALLS, Loop};
use crate::reduce::{Reducer, Stop};
use crate::state::{Body, FrameId, LoopFrame, ScopeId, Used};
use crate::{ErrorInfo, Reason, TaskOutcome};

impl Used {
    fn counts_calls(&self) -> bool {
        &*self.what == CALLS
    }

    /// No other effect may be handed out.
    fn is_spent(&self) -> bool {
        self.used >= self.most
    }

    /// No other turn may begin. A turn may do without calls; what else it will use is not known before.
    pub(super) fn ends_turns(&self) -> bool {
        self.is_spent() && !self.counts_calls()
    }
}

impl Reducer<'_> {
    pub(super) fn budget_of(&mut self, looping: &Loop, scope: ScopeId) -> Result<Vec<Used>, Stop> {
        let mut budget = Vec::with_capacity(looping.limits.budget.len());
        for limit in &looping.limits.budget {
            budget.push(Used { what: limit.what.clone(), used: 0, most: self.count(&limit.most, scope)? });
        }
        Ok(budget)
    }

    /// Takes one call from every loop around. False: one of them has nothing left, and ends; the innermost of them, since
    /// a call that it refuses is none that those further out would have to pay.
    pub(super) fn may_call(&mut self, id: FrameId) -> bool {
        let around = self.budgets_around(id);
        let spent = |id: &FrameId| self.loop_of(*id).is_some_and(|(_, body)| body.budget.iter().any(Used::is_spent));
        if let Some(innermost) = around.iter().copied().find(spent) {
            self.cut_loop(innermost, Reason::Budget);
            return false;
        }
        for id in around {
            self.spend(id, |budget| u64::from(budget.counts_calls()));
        }
        true
    }

    /// Adds what a job says that it has used, also one that failed or was called off.
    pub(in crate::reduce) fn note_usage(&mut self, id: FrameId, outcome: &TaskOutcome) {
        let Some(usage) = outcome.meta.get("usage").and_then(Value::as_map).cloned() else { return };
        let amount = |what: &str| usage.get(what).and_then(Value::as_int).and_then(|used| u64::try_from(used).ok());
        for id in self.budgets_around(id) {
            self.spend(id, |budget| if budget.counts_calls() { 0 } else { amount(&budget.what).unwrap_or(0) });
        }
    }

    fn spend(&mut self, id: FrameId, amount: impl Fn(&Used) -> u64) {
        for budget in self.loop_mut(id).into_iter().flat_map(|body| &mut body.budget) {
            budget.used = budget.used.saturating_add(amount(budget));
        }
    }

    /// The loops around a frame that have a budget, from the inside out.
    fn budgets_around(&self, id: FrameId) -> Vec<FrameId> {
        let above = |id: &FrameId| self.state.frames.get(*id).and_then(|frame| frame.parent);
        let limited = |id: &FrameId| {
            let body = self.state.frames.get(*id).map(|frame| &frame.body);
            matches!(body, Some(Body::Loop(body)) if !body.budget.is_empty())
        };
        std::iter::successors(above(&id), above).filter(limited).collect()
    }
}

/// `{calls: 3, tokens: 1200}`; none for a loop without a budget.
pub(super) fn told(budget: &[Used], amount: impl Fn(&Used) -> u64) -> Option<Value> {
    let map: Map = budget.iter().map(|budget| (budget.what.clone(), Value::from(amount(budget)))).collect();
    (!budget.is_empty()).then(|| Value::map(map))
}

/// Names the budget that is gone.
pub(super) fn exceeded(body: &LoopFrame, turns: &str) -> ErrorInfo {
    let spent = body.budget.iter().find(|budget| budget.ends_turns());
    let spent = spent.or_else(|| body.budget.iter().find(|budget| budget.is_spent()));
    let told = spent.map_or_else(String::new, |Used { what, used, most }| format!(": {used} of {most} {what}"));
    ErrorInfo::new("LoopBudget", "limit", format!("the loop has used up its budget after {turns}{told}"))
        .hint("raise the budget, or look what its turns spend it on: `windlass events RUN`")
}
