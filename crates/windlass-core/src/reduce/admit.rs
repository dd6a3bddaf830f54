//! Whether a delivery to a trigger starts runs, and which. Time and chance come with the call, as they do with a tick.

use windlass_value::{BlobHash, Map, RunView, Timestamp, Value};

use super::eval::Locals;
use super::{ItemStop, PartialTick, Reducer};
use crate::plan::Trigger;
use crate::{ErrorInfo, Program, State, Values};

/// What a trigger is told.
#[derive(Clone, Copy)]
pub struct TriggerDelivery<'d> {
    pub input: &'d Value,
    /// What comes with it; see [`RunView::beside`].
    pub metadata: &'d Value,
}

/// What a delivery leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The input of each run that is to be started.
    pub inputs: Vec<Value>,
    /// Why there is none, when a condition was not met.
    pub unmet: Option<UnmetCondition>,
}

/// The condition that kept a delivery out.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmetCondition {
    /// Its place among the trigger's conditions.
    pub condition: usize,
    /// As it is written.
    pub source: Value,
}

/// Why a delivery could not be looked at.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionError {
    /// Load these values and ask again.
    NeedBlobs(Vec<BlobHash>),
    /// A delivery that is not valid, a condition or a list that cannot be evaluated, too many items, an input that does
    /// not fit the definition.
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

/// The delivery must be valid and all conditions must hold; then the list is split, or the input is the one run's. The expressions see what a run with
/// this input would see when it starts.
pub fn admit(
    program: &Program,
    trigger: &Trigger,
    TriggerDelivery { input, metadata: beside }: TriggerDelivery<'_>,
    now: Timestamp,
    seed: u64,
    values: &mut dyn Values,
) -> Result<Admission, AdmissionError> {
    let mut state = State::new(RunView {
        input: input.clone(),
        trigger_metadata: beside.clone(),
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

/// Also a delivery that cannot be read at all is not valid.
fn invalid(stop: ItemStop) -> AdmissionError {
    match stop.into() {
        AdmissionError::Rejected(mut error) if *error.code == *"InvalidTemplate" => {
            error.code = "ValidationFailed".into();
            AdmissionError::Rejected(error)
        }
        refused @ (AdmissionError::Rejected(_) | AdmissionError::NeedBlobs(_)) => refused,
    }
}

/// A delivery that is split need not fit the parameters: its items must.
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
        let hint = "raise `loop_items_max`, or deliver less at a time";
        return Err(ErrorInfo::new("TooManyItems", "limit", message).hint(hint).into());
    }
    for (at, item) in items.iter().enumerate() {
        // One that does not fit must not leave a delivery half started.
        program.parameters(item).map_err(|problems| invalid_input(&problems, Some(at)))?;
    }
    Ok(items.to_vec())
}

fn invalid_input(problems: &[String], item: Option<usize>) -> ErrorInfo {
    let which = item.map_or_else(String::new, |at| format!("item {at}: "));
    ErrorInfo::new("InvalidInput", "input", format!("{which}{}", problems.join("; ")))
}
