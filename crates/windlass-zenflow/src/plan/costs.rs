//! Models, their prices, and budgets.

use std::sync::Arc;

use windlass_core::plan::{Amount, Budget as PlanBudget, CALLS, TIME};
use windlass_value::{Value, to_json};

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
        let counted = here.counted || budget.as_ref().is_some_and(counts);
        let own = budget.and_then(|budget| budget.reply).map(|reply| reply.value);
        StepContext { counted, reply: own.or(here.reply), ..here.clone() }
    }

    /// Returns the settings of a reply under a budget of tokens or money: it is limited to what is left.
    pub(crate) fn reply_room(&self, fixed: &Value, here: &StepContext<'_>) -> Option<Vec<(&'static str, Value)>> {
        let limits = &self.options.limits;
        let part = |key: &str| fixed.get(key).cloned().unwrap_or_default();
        here.counted.then(|| {
            vec![
                ("fixed", Value::from(to_json(fixed).len())),
                ("model", part("model")),
                ("price", part("price")),
                ("max_tokens", Value::from(here.reply)),
                ("default_max_tokens", Value::from(limits.default_reply_tokens)),
                ("min_tokens", Value::from(limits.min_reply_tokens)),
            ]
        })
    }
}
