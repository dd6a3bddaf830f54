//! Checks budgets of money: they need the price of every model.

use windlass_syntax::{Diagnostic, Diagnostics, Span};

use crate::codes;
use crate::document::{LoopMode, WorkflowDocument, ZenflowBudget, ZenflowStep};
use crate::options::ZenflowOptions;

/// Reports models without a price under a budget of money, including those of included files.
pub(crate) fn check_prices(document: &WorkflowDocument, options: &ZenflowOptions, found: &mut Diagnostics) {
    let mut report = |budget: Option<&ZenflowBudget>, models: &dyn Fn() -> Vec<Option<String>>| {
        let Some(money) = budget.and_then(|budget| budget.money.as_ref()) else { return };
        let mut models = models();
        models.sort();
        models.dedup();
        for model in models {
            let message = match &model {
                None => "this budget is in money, but some of the steps name no model".to_owned(),
                Some(model) if options.price(model).is_none() => {
                    format!("this budget is in money, but the model `{model}` has no price")
                }
                Some(_) => continue,
            };
            found.push(missing_price(money.span, message, model.as_deref()));
        }
    };
    report(document.extensions.budget.as_ref(), &|| models_of(document, options));
    for step in &document.steps {
        let models = || step_models(step, document, options);
        report(step.budget.as_ref(), &models);
        report(step.repeat.as_ref().and_then(|repeat| repeat.budget.as_ref()), &models);
        for inner in step.inner() {
            report(inner.budget.as_ref(), &|| step_models(inner, document, options));
        }
    }
}

fn missing_price(span: Span, message: String, model: Option<&str>) -> Diagnostic {
    let hint = match model {
        Some(model) => {
            format!("add its price to the table `[prices]` in windlass.toml, under \"{model}\"; or limit `tokens`")
        }
        None => "name a model, or set a default model; its price belongs in the table `[prices]` in windlass.toml"
            .to_owned(),
    };
    Diagnostic::error(codes::PRICE, span, message).with_hint(hint)
}

fn models_of(document: &WorkflowDocument, options: &ZenflowOptions) -> Vec<Option<String>> {
    let steps = document.steps.iter().flat_map(|step| step_models(step, document, options));
    let coordinator = document.has_coordinator(options).then(|| {
        let own = document.extensions.coordinator.model.as_ref().map(|model| model.value.clone());
        options.model.clone().or(own).or_else(|| options.default_model.clone())
    });
    steps.chain(coordinator).collect()
}

/// Returns the models of a step, its inner steps, its judge, and its include.
fn step_models(step: &ZenflowStep, document: &WorkflowDocument, options: &ZenflowOptions) -> Vec<Option<String>> {
    if let Some(include) = &step.include {
        return include.document.iter().flat_map(|document| models_of(document, options)).collect();
    }
    let mut models: Vec<Option<String>> = match step.inner() {
        [] => vec![document.model_of(step, options)],
        inner => inner.iter().flat_map(|inner| step_models(inner, document, options)).collect(),
    };
    if let Some(LoopMode::Repeat { until_agent: Some(judge), .. }) = step.repeat.as_ref().map(|repeat| &repeat.mode) {
        models.push(document.judge_model(judge, options));
    }
    models
}
