//! Admission of trigger deliveries: whether a delivery starts runs, and which. Time and entropy come with the call,
//! as they do with a tick.

use std::sync::Arc;

use windlass_value::{BlobHash, Map, RunView, Timestamp, Value};

use super::eval::Locals;
use super::{ItemStop, PartialTick, Reducer};
use crate::plan::Trigger;
use crate::{ErrorInfo, Program, State, Values};

/// A delivery to a trigger.
#[derive(Clone, Copy)]
pub struct TriggerDelivery<'d> {
    /// The data that were delivered: a request body, for example.
    pub input: &'d Value,
    /// Metadata of the delivery; see [`RunView::trigger_metadata`].
    pub metadata: &'d Value,
}

/// The result of a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The input of each run that is to be started.
    pub inputs: Vec<Value>,
    /// The condition that was not met, if there are no inputs because of one.
    pub unmet: Option<UnmetCondition>,
}

/// The condition that rejected a delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmetCondition {
    /// Its index among the trigger's conditions.
    pub condition: usize,
    /// The condition as written in the definition.
    pub source: Value,
}

/// The reason why a delivery could not be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionError {
    /// Load these values and call again.
    NeedBlobs(Vec<BlobHash>),
    /// An invalid delivery, a condition or list that cannot be evaluated, too many items, or an input that does not
    /// match the definition.
    Rejected(Box<ErrorInfo>),
}

impl From<ItemStop> for AdmissionError {
    fn from(stop: ItemStop) -> AdmissionError {
        match stop {
            ItemStop::Need(blobs) => AdmissionError::NeedBlobs(blobs),
            ItemStop::Failed(error) => AdmissionError::Rejected(error),
            // There is no run yet, so there are no frames that could be at fault.
            ItemStop::Impossible(fault) => ErrorInfo::new("Impossible", "defect", fault.to_string()).into(),
        }
    }
}

impl From<ErrorInfo> for AdmissionError {
    fn from(error: ErrorInfo) -> AdmissionError {
        AdmissionError::Rejected(Box::new(error))
    }
}

/// Evaluates a delivery. It must be valid and all conditions must hold; then its list is split, or its input is that
/// of a single run. The expressions see what a run with this input would see when it starts.
pub fn admit(
    program: &Program,
    trigger: &Trigger,
    TriggerDelivery { input, metadata }: TriggerDelivery<'_>,
    now: Timestamp,
    seed: u64,
    values: &mut dyn Values,
) -> Result<Admission, AdmissionError> {
    let mut state = State::new(RunView {
        input: input.clone(),
        trigger_metadata: metadata.clone(),
        parameters: parameters(program, trigger, input)?,
        ..RunView::new("", program.plan.name.clone(), now)
    });
    state.seed = seed;
    let scope = state.root_scope;
    let mut reducer = Reducer { program, state: &mut state, values, work: PartialTick::default() };
    if let Some(validates) = trigger.validation {
        reducer.eval(validates, scope).map_err(invalid)?;
    }
    for (at, condition) in trigger.conditions.iter().enumerate() {
        if !reducer.condition(*condition, scope, Locals::default())? {
            let source = program.plan.expressions[condition.0 as usize].source.clone();
            return Ok(Admission { inputs: Vec::new(), unmet: Some(UnmetCondition { condition: at, source }) });
        }
    }
    let Some(split) = trigger.split else { return Ok(Admission { inputs: vec![input.clone()], unmet: None }) };
    let value = reducer.eval(split, scope)?;
    let inputs = items(program, &reducer.resolve(&value)?)?;
    Ok(Admission { inputs, unmet: None })
}

/// Evaluates the labels that the definition gives a run: `run` is what its expressions see, except the parameters,
/// which follow from its input. A label whose value is null is left out.
pub fn definition_labels(
    program: &Program,
    run: &RunView,
    seed: u64,
    values: &mut dyn Values,
) -> Result<Vec<(Arc<str>, Value)>, AdmissionError> {
    if program.plan.labels.is_empty() {
        return Ok(Vec::new());
    }
    let parameters = program.parameters(&run.input).map_err(|problems| invalid_input(&problems, None))?;
    let mut state = State::new(RunView { parameters, ..run.clone() });
    state.seed = seed;
    let scope = state.root_scope;
    let mut reducer = Reducer { program, state: &mut state, values, work: PartialTick::default() };
    reducer.compute_parameters()?;
    let mut labels = Vec::new();
    for (name, expression) in &program.plan.labels {
        let value = reducer.eval(*expression, scope)?;
        let value = reducer.resolve(&value)?;
        if !value.is_null() {
            labels.push((name.clone(), value));
        }
    }
    Ok(labels)
}

/// Maps an evaluation error of the validation: a delivery that cannot be read at all is invalid too.
fn invalid(stop: ItemStop) -> AdmissionError {
    match stop.into() {
        AdmissionError::Rejected(mut error) if *error.code == *"InvalidTemplate" => {
            error.code = "ValidationFailed".into();
            AdmissionError::Rejected(error)
        }
        refused @ (AdmissionError::Rejected(_) | AdmissionError::NeedBlobs(_)) => refused,
    }
}

/// Returns the parameters for the trigger's expressions. A delivery that is split need not match the parameters: its
/// items must.
fn parameters(program: &Program, trigger: &Trigger, input: &Value) -> Result<Value, AdmissionError> {
    match (program.parameters(input), trigger.split) {
        (Ok(parameters), _) => Ok(parameters),
        (Err(_), Some(_)) => {
            let defaults = program.plan.parameters.iter().filter_map(|p| Some((p.name.clone(), p.default.clone()?)));
            Ok(Value::map(defaults.collect::<Map>()))
        }
        (Err(problems), None) => Err(invalid_input(&problems, None).into()),
    }
}

fn items(program: &Program, list: &Value) -> Result<Vec<Value>, AdmissionError> {
    let Value::List(items) = list else {
        let got = if list.is_null() { "null".to_owned() } else { format!("{} {list:?}", list.kind()) };
        let message = format!("a trigger is split on an array; it got {got}");
        let hint = "name the array in the delivery: @triggerBody().items";
        return Err(ErrorInfo::new("NotAnArray", "expression", message).hint(hint).into());
    };
    let max = program.limits.max_loop_items;
    if items.len() as u64 > max {
        let message = format!("{} items in one delivery; the limit is {max}", items.len());
        let hint = "raise `max_loop_items`, or deliver fewer items at a time";
        return Err(ErrorInfo::new("TooManyItems", "limit", message).hint(hint).into());
    }
    for (at, item) in items.iter().enumerate() {
        // An item that does not match must not leave a delivery partially started.
        program.parameters(item).map_err(|problems| invalid_input(&problems, Some(at)))?;
    }
    Ok(items.to_vec())
}

fn invalid_input(problems: &[String], item: Option<usize>) -> ErrorInfo {
    let which = item.map_or_else(String::new, |at| format!("item {at}: "));
    ErrorInfo::new("InvalidInput", "input", format!("{which}{}", problems.join("; ")))
}
