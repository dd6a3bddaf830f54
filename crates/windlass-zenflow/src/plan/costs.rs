//! Models, their prices, and budgets.

use std::sync::Arc;

use windlass_core::plan::{Amount, Budget as PlanBudget, CALLS, TIME};
use windlass_value::Value;

use super::planner::{Planner, StepContext};
use crate::document::ZenflowBudget;

impl Planner<'_> {
    /// Returns the model to call: the forced one, the written one, or the default.
    pub(crate) fn model(&self, written: Option<&str>) -> Option<String> {
        let forced = self.options.model.as_deref();
        forced.or(written).or(self.options.default_model.as_deref()).map(str::to_owned)
    }

    /// Returns the price of the model, if it is known.
    pub(crate) fn price(&self, model: Option<&str>) -> Value {
        model.and_then(|model| self.options.price(model)).map_or(Value::Null, |price| {
            Value::object([
                ("input", Value::from(price.input)),
                ("output", Value::from(price.output)),
                ("cache_read", Value::from(price.cache_read)),
                ("cache_write", Value::from(price.cache_write)),
            ])
        })
    }

    pub(crate) fn budget(&self, budget: Option<&ZenflowBudget>) -> Vec<PlanBudget> {
        let Some(budget) = budget else { return Vec::new() };
        let limit =
            |what: &str, max: Option<u64>| max.map(|max| PlanBudget { what: Arc::from(what), max: Amount::Fixed(max) });
        let limits = [
            limit("tokens", budget.tokens.map(|tokens| tokens.value)),
            limit("money", budget.money.map(|money| money.value)),
            limit(CALLS, budget.calls.map(|calls| calls.value)),
            limit(TIME, budget.time.map(|time| time.value.as_ms())),
        ];
        limits.into_iter().flatten().collect()
    }

    /// Returns the context with a budget around it.
    pub(crate) fn with_budget<'d>(&self, here: &StepContext<'d>, budget: Option<&ZenflowBudget>) -> StepContext<'d> {
        let counts = |budget: &&ZenflowBudget| budget.tokens.is_some() || budget.money.is_some();
        let counted = here.reply.is_some() || budget.as_ref().is_some_and(counts);
        let own = budget.and_then(|budget| budget.reply).map(|reply| reply.value);
        let reply = counted.then(|| own.or(here.reply).unwrap_or(self.options.limits.default_reply_tokens));
        StepContext { reply, ..here.clone() }
    }
}
