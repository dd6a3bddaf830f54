//! What the code that macros write calls. No part of the interface.

use std::future::Future;
use std::marker::PhantomData;

use crate::function::Params;
use crate::{Context, Res, StepBuilder, StepError, StepResult, Value, WorkflowBuilder};

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

/// Adds a marked method. Each type is named once, where its author wrote it, so what is wrong with it is told there, once.
pub fn add<P, R, F, Body>(builder: WorkflowBuilder, name: &str, handler: bool, body: F) -> StepBuilder
where
    P: Params,
    R: StepResult,
    F: Fn(P) -> Body + Send + Sync + 'static,
    Body: Future<Output = R> + Send + 'static,
{
    builder.add_method::<P, R, F, Body>(name, handler, body)
}

/// How many events a parameter is: what is neither a context nor a resource is taken for one, and its type is looked at
/// elsewhere.
pub struct Count<P>(PhantomData<P>);

/// What is found when there is nothing better.
pub trait Counted {
    /// One.
    const EVENTS: usize = 1;
}

impl<P> Counted for Count<P> {}

impl<S> Count<Context<S>> {
    /// None.
    pub const EVENTS: usize = 0;
}

impl<T> Count<Res<T>> {
    /// None.
    pub const EVENTS: usize = 0;
}
