//! The event parameter of a step: one event, one of several, all of a fan-out, one of each of several types, or a
//! failure.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use windlass_value::Value;

use crate::event::{Event, EventType, Events, Token};
use crate::signature::{JoinKind, StepSignature};
use crate::{Context, Res, StepError, WorkflowState};

/// A type that can be the event parameter of a step: an [`Event`], a union of [`Events`], [`All`], [`Collect`] or
/// [`StepFailed`].
///
/// ```
/// fn acceptable<A: windlass::Accepts>() {}
/// acceptable::<windlass::StepFailed>();
/// ```
#[diagnostic::on_unimplemented(
    message = "a step cannot accept `{Self}`",
    label = "not an event",
    note = "a step accepts an event (`#[derive(Event)]`), a union (`#[derive(Events)]`), `All<E>`, `Collect<(A, B)>` or `StepFailed`"
)]
pub trait Accepts: Sized + Send + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut StepSignature);
    #[doc(hidden)]
    fn take(token: Token) -> Result<Self, StepError>;
}

#[diagnostic::do_not_recommend]
impl<U: Events> Accepts for U {
    fn describe(shape: &mut StepSignature) {
        shape.accepts.extend(U::types());
    }

    fn take(token: Token) -> Result<U, StepError> {
        U::read(&token)
    }
}

/// All events of this type that a fan-out produced, in the order of the list that was fanned out.
///
/// The step runs once, when no work of the fan-out is left. The list is empty if the fan-out produced no such event.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// use windlass::All;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "numbers", start)]
/// # struct Numbers(Vec<u64>);
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "number")]
/// # struct Number(u64);
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "square")]
/// # struct Square(u64);
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "sum", stop)]
/// # struct Sum(u64);
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("squares")
///     .step("split", |numbers: Numbers| async move { Ok(numbers.0.into_iter().map(Number).collect::<Vec<_>>()) })
///     .step("square", |number: Number| async move { Ok(Square(number.0 * number.0)) })
///     .step("sum", |squares: All<Square>| async move { Ok(Sum(squares.iter().map(|square| square.0).sum())) })
///     .build()?;
/// assert_eq!(workflow.run::<Sum>(Numbers(vec![1, 2, 3])).await?, Sum(14));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct All<E>(pub Vec<E>);

impl<E> All<E> {
    /// The events.
    pub fn into_inner(self) -> Vec<E> {
        self.0
    }
}

impl<E> Deref for All<E> {
    type Target = Vec<E>;

    fn deref(&self) -> &Vec<E> {
        &self.0
    }
}

impl<E> DerefMut for All<E> {
    fn deref_mut(&mut self) -> &mut Vec<E> {
        &mut self.0
    }
}

impl<E> IntoIterator for All<E> {
    type Item = E;
    type IntoIter = std::vec::IntoIter<E>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<E: Event> Accepts for All<E> {
    fn describe(shape: &mut StepSignature) {
        shape.accepts.push(EventType::for_type::<E>());
        shape.join = JoinKind::All;
    }

    fn take(token: Token) -> Result<All<E>, StepError> {
        let items = token.payload.as_list().ok_or_else(|| unjoined(&token.payload))?;
        items.iter().map(crate::event::decode).collect::<Result<_, _>>().map(All)
    }
}

fn unjoined(payload: &Value) -> StepError {
    StepError::new("NotJoined", format!("a list of events was expected, not {payload:?}")).with_kind("event")
}

/// One event of each of these types, in this order; the same type may occur more than once.
///
/// [`surplus`](crate::StepBuilder::surplus) decides about events beyond one set: they wait for the next set, are
/// dropped, or fail the run. With a [`key`](crate::StepBuilder::key), only events with the same value of that field
/// are joined.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// use windlass::{Collect, Context};
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "left")]
/// # struct Left(u64);
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "right")]
/// # struct Right(u64);
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "both", stop)]
/// # struct Both(u64, u64);
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("pairs")
///     .step("begin", |ctx: Context, _: Begin| async move {
///         ctx.send(Left(1))?;
///         Ok(Right(2))
///     })
///     .sends::<Left>()
///     .step("pair", |Collect((left, right)): Collect<(Left, Right)>| async move { Ok(Both(left.0, right.0)) })
///     .build()?;
/// assert_eq!(workflow.run::<Both>(Begin).await?, Both(1, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Collect<T>(pub T);

impl<T> Collect<T> {
    /// The events.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Collect<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

macro_rules! collects {
    ($($event:ident),+) => {
        impl<$($event: Event),+> Accepts for Collect<($($event,)+)> {
            fn describe(shape: &mut StepSignature) {
                shape.accepts.extend([$(EventType::for_type::<$event>()),+]);
                shape.join = JoinKind::Collect;
            }

            fn take(token: Token) -> Result<Self, StepError> {
                let items = token.payload.as_list().ok_or_else(|| unjoined(&token.payload))?;
                let mut items = items.iter();
                let mut next = || items.next().map_or_else(|| Err(unjoined(&token.payload)), Token::from_value);
                Ok(Collect(($($event::read(&next()?)?,)+)))
            }
        }
    };
}

collects!(A);
collects!(A, B);
collects!(A, B, C);
collects!(A, B, C, D);
collects!(A, B, C, D, E);
collects!(A, B, C, D, E, F);
collects!(A, B, C, D, E, F, G);
collects!(A, B, C, D, E, F, G, H);

/// The final failure of a step, after its last attempt: the event parameter of an error handler.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// # use windlass::{Event, StepError, Workflow};
/// use windlass::StepFailed;
/// # #[derive(Event, Serialize, Deserialize)]
/// # #[event(name = "begin", start)]
/// # struct Begin;
/// # #[derive(Debug, PartialEq, Event, Serialize, Deserialize)]
/// # #[event(name = "done", stop)]
/// # struct Done(String);
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let workflow = Workflow::builder("recovers")
///     .step("fail", |_: Begin| async { Err::<Done, _>(StepError::new("NoLuck", "not today")) })
///     .on_failure("recover", |failed: StepFailed| async move {
///         Ok(Done(format!("{}: {}", failed.step, failed.error.code())))
///     })
///     .build()?;
/// assert_eq!(workflow.run::<Done>(Begin).await?, Done("fail: NoLuck".into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StepFailed {
    /// The step.
    pub step: String,
    /// Its last error.
    pub error: StepError,
    /// The number of attempts.
    pub attempts: u32,
    /// The name of the event that the step was processing.
    pub event_name: Arc<str>,
    /// The payload of that event.
    pub payload: Value,
}

impl StepFailed {
    /// Returns the event that the step was processing, if it was of this type.
    pub fn event<E: Event>(&self) -> Option<Result<E, StepError>> {
        let token = Token { kind: self.event_name.clone(), payload: self.payload.clone() };
        token.is::<E>().then(|| token.event())
    }
}

impl Accepts for StepFailed {
    fn describe(shape: &mut StepSignature) {
        shape.join = JoinKind::Failure;
    }

    fn take(token: Token) -> Result<StepFailed, StepError> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let error = token.payload.get("error").cloned().unwrap_or_default();
        let event = token.payload.get("event").cloned().unwrap_or_default();
        let mut info =
            StepError::new(text(error.get("code")), text(error.get("message"))).with_kind(text(error.get("kind")));
        if let Some(hint) = error.get("hint").and_then(Value::as_str) {
            info = info.hint(hint);
        }
        Ok(StepFailed {
            step: text(token.payload.get("step")),
            error: info,
            attempts: token.payload.get("attempts").and_then(Value::as_int).unwrap_or(1) as u32,
            event_name: text(event.get("kind")).into(),
            payload: event.get("payload").cloned().unwrap_or_default(),
        })
    }
}

/// A parameter of a step: its [`Context`], its one event, or a resource ([`Res`]), in any order.
///
/// ```
/// fn parameter<P: windlass::Param>() {}
/// parameter::<windlass::Context>();
/// parameter::<windlass::Res<String>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a step",
    label = "neither an event, nor a context, nor a resource",
    note = "a step takes one event (`#[derive(Event)]`, a union, `All<E>`, `Collect<(A, B)>`, `StepFailed`), and in addition `Context`, `Context<State>` and resources as `Res<T>`"
)]
pub trait Param: Sized + Send + 'static {
    #[doc(hidden)]
    const EVENTS: usize;
    #[doc(hidden)]
    fn describe(shape: &mut StepSignature);
    #[doc(hidden)]
    fn take(call: &crate::call::StepCall) -> Result<Self, StepError>;
}

#[diagnostic::do_not_recommend]
impl<A: Accepts> Param for A {
    const EVENTS: usize = 1;

    fn describe(shape: &mut StepSignature) {
        A::describe(shape);
    }

    fn take(call: &crate::call::StepCall) -> Result<A, StepError> {
        A::take(call.token()?)
    }
}

impl<S: WorkflowState> Param for Context<S> {
    const EVENTS: usize = 0;

    fn describe(shape: &mut StepSignature) {
        shape.state::<S>();
    }

    fn take(call: &crate::call::StepCall) -> Result<Context<S>, StepError> {
        Ok(Context::new(call.clone()))
    }
}

impl<T: Send + Sync + 'static> Param for Res<T> {
    const EVENTS: usize = 0;

    fn describe(shape: &mut StepSignature) {
        shape.resource::<T>();
    }

    fn take(call: &crate::call::StepCall) -> Result<Res<T>, StepError> {
        call.resource()
    }
}
