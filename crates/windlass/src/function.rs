//! Functions as steps: `async fn(context, event, resources…) -> Result<events, StepError>`.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use windlass_runtime::{Tool, ToolCall, ToolFuture};

use crate::call::{Call, Facts, failure, run};
use crate::shape::Shape;
use crate::{Param, Returns, StepError, StepResult};

/// A function or closure that can be a step: one event, and beside it a [`Context`](crate::Context) and resources
/// ([`Res`](crate::Res)) in any order, up to ten parameters.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done;
/// async fn finish(_: Begin) -> Result<Done, StepError> {
///     Ok(Done)
/// }
///
/// let workflow = Workflow::builder("short").step("finish", finish).build();
/// assert!(workflow.is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "this function cannot be a step",
    label = "not a step",
    note = "a step is `async fn(context, event, resources…) -> Result<events, StepError>`: one event, and beside it `Context` and `Res<T>`; a closure says the types of its parameters",
    note = "what is returned is an event, a union of events, `Option` or `Vec` of those, or `()`"
)]
pub trait StepFn<Args>: Send + Sync + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut Shape);
    #[doc(hidden)]
    fn call(&self, call: Call) -> ToolFuture;
}

macro_rules! functions {
    ($($param:ident),+) => {
        impl<Function, Ended, Given, $($param),+> StepFn<($($param,)+)> for Function
        where
            Function: Fn($($param),+) -> Ended + Send + Sync + 'static,
            Ended: Future<Output = Result<Given, StepError>> + Send + 'static,
            Given: Returns,
            $($param: Param),+
        {
            fn describe(shape: &mut Shape) {
                $(
                    <$param as Param>::describe(shape);
                    shape.events += <$param as Param>::EVENTS;
                )+
                Given::describe(shape);
            }

            #[allow(non_snake_case)]
            fn call(&self, call: Call) -> ToolFuture {
                $(let $param = match <$param as Param>::take(&call) {
                    Ok(given) => given,
                    Err(error) => return Box::pin(std::future::ready(failure(error))),
                };)+
                Box::pin(run(self($($param),+), call, Given::output))
            }
        }
    };
}

functions!(P1);
functions!(P1, P2);
functions!(P1, P2, P3);
functions!(P1, P2, P3, P4);
functions!(P1, P2, P3, P4, P5);
functions!(P1, P2, P3, P4, P5, P6);
functions!(P1, P2, P3, P4, P5, P6, P7);
functions!(P1, P2, P3, P4, P5, P6, P7, P8);
functions!(P1, P2, P3, P4, P5, P6, P7, P8, P9);
functions!(P1, P2, P3, P4, P5, P6, P7, P8, P9, P10);

/// The parameters of a marked method, together.
#[diagnostic::on_unimplemented(
    message = "these cannot be the parameters of a step",
    label = "not the parameters of a step",
    note = "a step takes one event, and beside it a `Context` and resources as `Res<T>`: ten parameters at most"
)]
#[doc(hidden)]
pub trait Params: Sized + Send + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut Shape);
    #[doc(hidden)]
    fn take(call: &Call) -> Result<Self, StepError>;
}

macro_rules! parameters {
    ($($param:ident),+) => {
        impl<$($param: Param),+> Params for ($($param,)+) {
            fn describe(shape: &mut Shape) {
                $(
                    <$param as Param>::describe(shape);
                    shape.events += <$param as Param>::EVENTS;
                )+
            }

            fn take(call: &Call) -> Result<Self, StepError> {
                Ok(($(<$param as Param>::take(call)?,)+))
            }
        }
    };
}

parameters!(P1);
parameters!(P1, P2);
parameters!(P1, P2, P3);
parameters!(P1, P2, P3, P4);
parameters!(P1, P2, P3, P4, P5);
parameters!(P1, P2, P3, P4, P5, P6);
parameters!(P1, P2, P3, P4, P5, P6, P7);
parameters!(P1, P2, P3, P4, P5, P6, P7, P8);
parameters!(P1, P2, P3, P4, P5, P6, P7, P8, P9);
parameters!(P1, P2, P3, P4, P5, P6, P7, P8, P9, P10);

/// A marked method.
struct Method<F, P, R>(F, PhantomData<fn(P) -> R>);

impl<P, R, F, Body> Erased for Method<F, P, R>
where
    P: Params,
    R: StepResult,
    F: Fn(P) -> Body + Send + Sync,
    Body: Future<Output = R> + Send + 'static,
{
    fn call(&self, call: Call) -> ToolFuture {
        match P::take(&call) {
            Ok(given) => {
                let body = (self.0)(given);
                Box::pin(run(async move { body.await.into_result() }, call, R::Good::output))
            }
            Err(error) => Box::pin(std::future::ready(failure(error))),
        }
    }
}

pub(crate) fn erase_method<P, R, F, Body>(function: F) -> (Shape, Arc<dyn Erased>)
where
    P: Params,
    R: StepResult,
    F: Fn(P) -> Body + Send + Sync + 'static,
    Body: Future<Output = R> + Send + 'static,
{
    let mut shape = Shape::default();
    P::describe(&mut shape);
    R::Good::describe(&mut shape);
    (shape, Arc::new(Method(function, PhantomData)))
}

/// A function whose types are no longer known.
pub(crate) trait Erased: Send + Sync {
    fn call(&self, call: Call) -> ToolFuture;
}

struct Typed<F, Args>(F, PhantomData<fn(Args)>);

impl<Args: 'static, F: StepFn<Args>> Erased for Typed<F, Args> {
    fn call(&self, call: Call) -> ToolFuture {
        self.0.call(call)
    }
}

pub(crate) fn erase<Args: 'static, F: StepFn<Args>>(function: F) -> (Shape, Arc<dyn Erased>) {
    let mut shape = Shape::default();
    F::describe(&mut shape);
    (shape, Arc::new(Typed(function, PhantomData)))
}

/// The tool behind a step.
#[derive(Clone)]
pub(crate) struct StepTool {
    pub facts: Arc<Facts>,
    pub step: usize,
    pub function: Arc<dyn Erased>,
}

impl Tool for StepTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        self.function.call(Call::new(self.facts.clone(), self.step, call))
    }
}
