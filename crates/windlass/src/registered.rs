//! Functions that definitions of other dialects call by name.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_runtime::{Tool, ToolCall, ToolFuture};
use windlass_value::{Value, from_value, to_value};

use crate::call::{StepCall, StepMetadata, WorkflowInfo, failure, run};
use crate::resource::Resources;
use crate::{Context, StepError};

/// A Rust function that a definition calls by name: `async fn(input) -> Result<output, StepError>`, or with a
/// [`Context`] before the input, for durable calls ([`Context::sleep`], [`Context::once`], …) and the idempotency
/// key.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::Engine;
///
/// let engine = Engine::in_memory().function("double", |number: u64| async move { Ok(number * 2) }).build()?;
/// # engine.close().await;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "this cannot be called by definitions",
    label = "not such a function",
    note = "it is `async fn(input) -> Result<output, StepError>` or `async fn(Context, input) -> …`, where serde can read the input and write the output; a closure declares the types of its parameters"
)]
pub trait Function<Args>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, call: StepCall) -> ToolFuture;

    /// Returns the description for models, if there is one.
    #[doc(hidden)]
    fn spec(&self) -> Option<FunctionSpec> {
        None
    }
}

impl<F, T, R, Body> Function<(T,)> for F
where
    F: Fn(T) -> Body + Send + Sync + 'static,
    Body: Future<Output = Result<R, StepError>> + Send + 'static,
    T: DeserializeOwned,
    R: Serialize + Send + 'static,
{
    fn call(&self, call: StepCall) -> ToolFuture {
        match input(&call) {
            Ok(input) => Box::pin(run(self(input), call, output)),
            Err(error) => Box::pin(std::future::ready(failure(error))),
        }
    }
}

impl<F, T, R, Body> Function<(Context, T)> for F
where
    F: Fn(Context, T) -> Body + Send + Sync + 'static,
    Body: Future<Output = Result<R, StepError>> + Send + 'static,
    T: DeserializeOwned,
    R: Serialize + Send + 'static,
{
    fn call(&self, call: StepCall) -> ToolFuture {
        match input(&call) {
            Ok(input) => Box::pin(run(self(Context::new(call.clone()), input), call, output)),
            Err(error) => Box::pin(std::future::ready(failure(error))),
        }
    }
}

/// The description of a function for models. Agents may call only functions that have one.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSpec {
    /// The purpose of the function and when to use it, in a sentence or two.
    pub description: String,
    /// The JSON Schema of its input, which must be an object for agents.
    pub parameters: Value,
}

/// A function with a description: see [`described`].
pub struct Described<F> {
    function: F,
    spec: FunctionSpec,
}

/// Describes a function so that agents may call it as a tool. Definitions call it like any other function.
///
/// ```
/// # #[derive(serde::Deserialize)]
/// # struct Order { pieces: u64 }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use windlass::{Engine, described};
///
/// let parameters = r#"{"type": "object", "properties": {"pieces": {"type": "integer"}}, "required": ["pieces"]}"#;
/// let price = described(|order: Order| async move { Ok(order.pieces * 10) }, "What an order costs.", parameters)?;
/// let engine = Engine::in_memory().function("price", price).build()?;
/// # engine.close().await;
/// # Ok(())
/// # }
/// ```
pub fn described<Args, F: Function<Args>>(
    function: F,
    description: impl Into<String>,
    parameters: &str,
) -> Result<Described<F>, crate::Error> {
    let problem = |error| crate::Error::refused("BadParameters", format!("the parameters are not valid JSON: {error}"));
    let parameters = windlass_value::parse_json(parameters).map_err(problem)?;
    Ok(Described { function, spec: FunctionSpec { description: description.into(), parameters } })
}

/// Distinguishes described functions from others.
#[doc(hidden)]
pub struct WithSpec<Args>(PhantomData<Args>);

impl<Args: 'static, F: Function<Args>> Function<WithSpec<Args>> for Described<F> {
    fn call(&self, call: StepCall) -> ToolFuture {
        self.function.call(call)
    }

    fn spec(&self) -> Option<FunctionSpec> {
        Some(self.spec.clone())
    }
}

fn input<T: DeserializeOwned>(call: &StepCall) -> Result<T, StepError> {
    from_value(&call.tool_call.input).map_err(|error| {
        let message = format!("the input of `{}` has an unexpected form: {error}", call.step().name);
        StepError::new("InputNotRead", message).with_kind("input")
    })
}

fn output<R: Serialize>(given: R) -> Result<Value, StepError> {
    Ok(to_value(&given)?)
}

/// The tool behind a function.
pub(crate) struct FunctionTool<F, Args> {
    info: Arc<WorkflowInfo>,
    function: F,
    args: PhantomData<fn(Args)>,
}

impl<Args, F: Function<Args>> FunctionTool<F, Args> {
    pub(crate) fn new(name: &str, function: F) -> FunctionTool<F, Args> {
        let step = StepMetadata { name: name.into(), accepts: Vec::new(), outputs: Vec::new() };
        let (events, resources) = (BTreeMap::new(), Resources::default());
        let facts = WorkflowInfo { name: name.into(), steps: vec![step], events, resources, state: None };
        FunctionTool { info: Arc::new(facts), function, args: PhantomData }
    }
}

impl<Args: 'static, F: Function<Args>> Tool for FunctionTool<F, Args> {
    fn call(&self, call: ToolCall) -> ToolFuture {
        self.function.call(StepCall::new(self.info.clone(), 0, call))
    }
}
