//! Models, what they cost, and what may be used up.

use std::sync::Arc;

use windlass_core::plan::{Amount, Budget as PlanBudget, CALLS, TIME};
use windlass_syntax::Span;
use windlass_value::Value;

use super::planner::{Here, Planner};
use crate::document::Budget;

impl Planner<'_> {
    /// The model that is asked: the one that is forced, the one that is written down, or the default.
    pub fn model(&self, written: Option<&str>) -> Option<String> {
        let forced = self.options.model.as_deref();
        forced.or(written).or(self.options.default_model.as_deref()).map(str::to_owned)
    }

    /// What the model costs, if anybody knows. Where money is counted, somebody must.
    pub fn price(&mut self, model: Option<&str>, span: Span, counted: bool) -> Value {
        let known = model.and_then(|model| self.options.prices.get(model)).copied();
        if known.is_none() && counted {
            let message = match model {
                Some(model) => format!("money is limited here, and nobody knows what the model `{model}` costs"),
                None => "money is limited here, and the model is not named, so nobody knows what it costs".to_owned(),
            };
            self.problem("unknown_price", span, message, "write its price in the configuration, or limit tokens instead");
        }
        known.map_or(Value::Null, |price| {
            Value::object([
                ("input", Value::from(price.input)),
                ("output", Value::from(price.output)),
                ("cacheRead", Value::from(price.cache_read)),
                ("cacheWrite", Value::from(price.cache_write)),
            ])
        })
    }

    pub fn budget(&self, budget: Option<&Budget>) -> Vec<PlanBudget> {
        let Some(budget) = budget else { return Vec::new() };
        let limit = |what: &str, most: Option<u64>| {
            most.map(|most| PlanBudget { what: Arc::from(what), most: Amount::Fixed(most) })
        };
        let limits = [
            limit("tokens", budget.tokens.map(|tokens| tokens.value)),
            limit("money", budget.money.map(|money| money.value)),
            limit(CALLS, budget.calls.map(|calls| calls.value)),
            limit(TIME, budget.time.map(|time| time.value.as_ms())),
        ];
        limits.into_iter().flatten().collect()
    }

    /// The same place, with a budget around it.
    pub fn counting<'d>(&self, here: &Here<'d>, budget: Option<&Budget>) -> Here<'d> {
        let money = budget.is_some_and(|budget| budget.money.is_some());
        let counted = !self.budget(budget).is_empty();
        Here { money: here.money || money, counted: here.counted || counted, ..here.clone() }
    }
}
