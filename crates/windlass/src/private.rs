//! What the code that macros write calls. No part of the interface.

use crate::{Event, Param, StepError, StepResult, Value};

/// Says where the reader looks that a type is no event.
pub const fn event<E: Event>() {}

/// The same for a parameter.
pub const fn param<P: Param>() {}

/// The same for what a step returns.
pub const fn returned<R: StepResult>() {}

/// What a step's function has returned.
pub fn done<R: StepResult>(result: R) -> Result<R::Good, StepError> {
    result.into_result()
}

/// What an upgrade has given.
pub fn upgraded<E: Into<StepError>>(result: Result<Value, E>) -> Result<Value, StepError> {
    result.map_err(Into::into)
}

/// A step has one event parameter: looked at when it is compiled.
#[track_caller]
pub const fn one_event(events: usize) {
    assert!(events != 0, "a step takes an event: add a parameter such as `event: MyEvent`");
    assert!(events == 1, "a step takes one event: to wait for several kinds, take `Collect<(A, B)>`");
}
