//! Return types of steps.

use windlass_value::Value;

use crate::StepError;
use crate::event::{Emitted, Events};
use crate::signature::StepSignature;

/// A type that a step can return inside its `Result`: an event, a union of events, an `Option` of those, a `Vec` (a
/// fan-out), or `()`.
///
/// ```
/// fn returnable<R: windlass::Returns>() {}
/// returnable::<()>();
/// ```
#[diagnostic::on_unimplemented(
    message = "a step cannot return `{Self}`",
    label = "not an event",
    note = "a step returns an event, a union of events (`#[derive(Events)]`), `Option` of those, `Vec` of those (a fan-out), or `()`"
)]
pub trait Returns: Send + 'static {
    #[doc(hidden)]
    fn describe(shape: &mut StepSignature);
    #[doc(hidden)]
    fn output(self) -> Result<Value, StepError>;
}

#[diagnostic::do_not_recommend]
impl<U: Events> Returns for U {
    fn describe(shape: &mut StepSignature) {
        shape.produces.extend(U::types());
    }

    fn output(self) -> Result<Value, StepError> {
        let mut emitted = Emitted::default();
        self.emit(&mut emitted)?;
        Ok(emitted.0.pop().unwrap_or_default())
    }
}

impl Returns for () {
    fn describe(_shape: &mut StepSignature) {}

    fn output(self) -> Result<Value, StepError> {
        Ok(Value::Null)
    }
}

impl<R: Returns> Returns for Option<R> {
    fn describe(shape: &mut StepSignature) {
        R::describe(shape);
    }

    fn output(self) -> Result<Value, StepError> {
        self.map_or(Ok(Value::Null), R::output)
    }
}

impl<U: Events> Returns for Vec<U> {
    fn describe(shape: &mut StepSignature) {
        shape.produces.extend(U::types());
        shape.fans_out = true;
    }

    fn output(self) -> Result<Value, StepError> {
        let mut emitted = Emitted(Vec::with_capacity(self.len()));
        self.into_iter().try_for_each(|event| event.emit(&mut emitted))?;
        Ok(Value::list(emitted.0))
    }
}

/// The complete return type of a step's function: a `Result` of [`Returns`] and any error.
///
/// ```
/// fn result<R: windlass::StepResult>() {}
/// result::<Result<(), std::io::Error>>();
/// ```
#[diagnostic::on_unimplemented(
    message = "a step cannot have the return type `{Self}`",
    label = "not a `Result` of events",
    note = "a step returns `Result<E, StepError>`, where E is an event, a union of events, `Option` or `Vec` of those, or `()`"
)]
pub trait StepResult: 'static {
    /// The type of a successful result.
    type Output: Returns;
    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Output, StepError>;
}

impl<R: Returns, E: Into<StepError> + 'static> StepResult for Result<R, E> {
    type Output = R;

    fn into_result(self) -> Result<R, StepError> {
        self.map_err(Into::into)
    }
}
