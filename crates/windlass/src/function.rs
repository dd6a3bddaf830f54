//! Functions as steps: `async fn(context, event, resources…) -> Result<events, StepError>`.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use windlass_runtime::{Tool, ToolCall, ToolFuture};

use crate::call::{StepCall, WorkflowInfo, failure, run};
use crate::signature::StepSignature;
use crate::{Param, Returns, StepError, StepResult};

/// A function or closure that can be a step: one event, and in addition a [`Context`](crate::Context) and resources
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
    note = "a step is `async fn(context, event, resources…) -> Result<events, StepError>`: one event, and in addition `Context` and `Res<T>`; a closure declares the types of its parameters",
    note = "what is returned is an event, a union of events, `Option` or `Vec` of those, or `()`"
)]
pub trait StepFn<Args>: Send + Sync + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut StepSignature);
    #[doc(hidden)]
    fn call(&self, call: StepCall) -> ToolFuture;
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
            fn describe(shape: &mut StepSignature) {
                $(
                    <$param as Param>::describe(shape);
                    shape.events += <$param as Param>::EVENTS;
                )+
                Given::describe(shape);
            }

            #[allow(non_snake_case)]
            fn call(&self, call: StepCall) -> ToolFuture {
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

/// The parameters of a marked method as a tuple.
#[diagnostic::on_unimplemented(
    message = "these cannot be the parameters of a step",
    label = "not the parameters of a step",
    note = "a step takes one event, and in addition a `Context` and resources as `Res<T>`: ten parameters at most"
)]
#[doc(hidden)]
pub trait Params: Sized + Send + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut StepSignature);
    #[doc(hidden)]
    fn take(call: &StepCall) -> Result<Self, StepError>;
}

macro_rules! parameters {
    ($($param:ident),+) => {
        impl<$($param: Param),+> Params for ($($param,)+) {
            fn describe(shape: &mut StepSignature) {
                $(
                    <$param as Param>::describe(shape);
                    shape.events += <$param as Param>::EVENTS;
                )+
            }

            fn take(call: &StepCall) -> Result<Self, StepError> {
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

/// A step from a marked method.
struct MethodStep<F, P, R>(F, PhantomData<fn(P) -> R>);

impl<P, R, F, Body> ErasedStep for MethodStep<F, P, R>
where
    P: Params,
    R: StepResult,
    F: Fn(P) -> Body + Send + Sync,
    Body: Future<Output = R> + Send + 'static,
{
    fn call(&self, call: StepCall) -> ToolFuture {
        match P::take(&call) {
            Ok(given) => {
                let body = (self.0)(given);
                Box::pin(run(async move { body.await.into_result() }, call, R::Output::output))
            }
            Err(error) => Box::pin(std::future::ready(failure(error))),
        }
    }
}

pub(crate) fn erase_method<P, R, F, Body>(function: F) -> (StepSignature, Arc<dyn ErasedStep>)
where
    P: Params,
    R: StepResult,
    F: Fn(P) -> Body + Send + Sync + 'static,
    Body: Future<Output = R> + Send + 'static,
{
    let mut shape = StepSignature::default();
    P::describe(&mut shape);
    R::Output::describe(&mut shape);
    (shape, Arc::new(MethodStep(function, PhantomData)))
}

/// A step function with its types erased.
pub(crate) trait ErasedStep: Send + Sync {
    fn call(&self, call: StepCall) -> ToolFuture;
}

struct TypedStep<F, Args>(F, PhantomData<fn(Args)>);

impl<Args: 'static, F: StepFn<Args>> ErasedStep for TypedStep<F, Args> {
    fn call(&self, call: StepCall) -> ToolFuture {
        self.0.call(call)
    }
}

pub(crate) fn erase<Args: 'static, F: StepFn<Args>>(function: F) -> (StepSignature, Arc<dyn ErasedStep>) {
    let mut shape = StepSignature::default();
    F::describe(&mut shape);
    (shape, Arc::new(TypedStep(function, PhantomData)))
}

/// The tool behind a step.
#[derive(Clone)]
pub(crate) struct StepTool {
    pub info: Arc<WorkflowInfo>,
    pub step: usize,
    pub function: Arc<dyn ErasedStep>,
}

impl Tool for StepTool {
    fn call(&self, call: ToolCall) -> ToolFuture {
        self.function.call(StepCall::new(self.info.clone(), self.step, call))
    }
}
