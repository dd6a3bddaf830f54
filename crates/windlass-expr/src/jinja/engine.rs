//! The engine: one environment for all templates, and the evaluation of one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use minijinja::machinery::{eval, get_compiled_template, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, ObjectRepr};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, Value as Inner};
use windlass_value::{EvalError, EvalErrorKind, Meter, Scope, Value};

use super::filters;
use super::object::{enter, is_ours, leave};
use super::path::Path;
use super::session::{SESSION, Session, carried, carry, session_value};
use crate::wdl::values::Context;

/// How often an evaluation begins anew with more stored values at hand.
const MAX_ROUNDS: usize = 1_000;

/// The name that a whole value is given to.
const RESULT: &str = "__r";

const NAME: &str = "t";

static BASE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    // Whatever must be there is checked by us; what may be missing may be missing at any step.
    env.set_undefined_behavior(UndefinedBehavior::Chainable);
    env.set_debug(false);
    env.set_syntax(syntax());
    env.set_formatter(|out, state, value| {
        if value.is_undefined() {
            let error = EvalError::new(EvalErrorKind::Missing, "the template writes a value that is not there");
            return Err(carry(error.hint("`| default(…)` says what it is then")));
        }
        let session = Session::of(state);
        let count = |bytes: usize| session.as_ref().map_or(Ok(()), |session| session.writes(bytes)).map_err(carry);
        match value.as_str() {
            Some(text) => {
                count(text.len())?;
                out.write_str(text).map_err(Error::from)
            }
            None => {
                let text = value.to_string();
                count(text.len())?;
                out.write_str(&text).map_err(Error::from)
            }
        }
    });
    filters::add(&mut env);
    env
});

thread_local! {
    /// An environment that this thread has used before: the fuel of an evaluation is a setting of its environment, and
    /// making one anew costs more than a short template.
    static SPARE: Cell<Option<Environment<'static>>> = const { Cell::new(None) };
}

/// Text is text: a line break at the end stays.
pub(super) fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap_or_default()
}

/// A template that has been compiled.
pub(super) struct Program {
    /// Holds the one template.
    env: Environment<'static>,
    paths: Vec<Path>,
    whole: bool,
    draws: bool,
}

impl Program {
    /// `source` is made by [`super::lower`].
    pub(crate) fn expression(source: &str, paths: Vec<Path>, draws: bool) -> Result<Program, Error> {
        Program::new(format!("{{% set {RESULT} = {source} %}}"), paths, true, draws)
    }

    pub(crate) fn template(source: String, paths: Vec<Path>, draws: bool) -> Result<Program, Error> {
        Program::new(source, paths, false, draws)
    }

    fn new(source: String, paths: Vec<Path>, whole: bool, draws: bool) -> Result<Program, Error> {
        let mut env = BASE.clone();
        env.add_template_owned(NAME, source)?;
        Ok(Program { env, paths, whole, draws })
    }

    pub(crate) fn eval(&self, scope: &dyn Scope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut slot = |path: &Path| path.value(scope, meter).and_then(|value| content(value, scope, meter));
        let values: Arc<Vec<Slot>> = Arc::new(self.paths.iter().map(&mut slot).collect());
        let seed = if self.draws { scope.random() } else { 0 };
        let mut session = Arc::new(Session::new(meter, scope.now(), seed));
        for _ in 0..MAX_ROUNDS {
            let result = self.run(&values, &session, meter);
            let wanted = session.take_wanted();
            meter.fuel = meter.fuel.min(session.fuel_left());
            match result {
                Err(error) if error.kind == EvalErrorKind::NeedBlobs && !wanted.is_empty() => {
                    let mut context = Context::new(scope, meter);
                    let (mut loaded, mut missing) = (Vec::new(), Vec::new());
                    for stored in wanted {
                        match context.load(&stored) {
                            Ok(value) => loaded.push((stored.hash, value)),
                            Err(error) if error.kind == EvalErrorKind::NeedBlobs => missing.extend(error.blobs),
                            Err(error) => return Err(error),
                        }
                    }
                    if !missing.is_empty() {
                        return Err(EvalError::need_blobs(missing));
                    }
                    session = Arc::new(session.again(loaded, meter));
                }
                Ok(value) => return session.overspent().map(|()| value),
                Err(error) => return Err(error),
            }
        }
        Err(EvalError::new(EvalErrorKind::Limit, "the template reads too many stored values"))
    }

    fn run(&self, values: &Arc<Vec<Slot>>, session: &Arc<Session>, meter: &mut Meter) -> Result<Value, EvalError> {
        let root = Inner::from_object(Root { values: values.clone(), session: session.clone() });
        let mut env = SPARE.take().unwrap_or_else(|| BASE.clone());
        env.set_fuel(Some(meter.fuel.max(1)));
        let result = self.run_in(&env, root, session, meter);
        SPARE.set(Some(env));
        result
    }

    fn run_in(
        &self,
        env: &Environment<'static>,
        root: Inner,
        session: &Session,
        meter: &mut Meter,
    ) -> Result<Value, EvalError> {
        let template = self.env.get_template(NAME).map_err(|error| carried(&error))?;
        let compiled = get_compiled_template(&template);
        let (mut text, blocks) = (String::new(), BTreeMap::new());
        let result = {
            let mut out = make_string_output(&mut text);
            eval(env, &compiled.instructions, root, &blocks, &mut out, AutoEscape::None)
        };
        let (_, state) = result.map_err(|error| carried(&error))?;
        if let Some((consumed, _)) = state.fuel_levels() {
            meter.spend(consumed)?;
        }
        match self.whole {
            true => {
                let result = state.lookup(RESULT).unwrap_or(Inner::UNDEFINED);
                let value = leave(&result, session)?;
                // One that was there before need not be checked again.
                if !is_ours(&result) {
                    meter.check_size(value.size_up_to(meter.max_output_bytes))?;
                }
                Ok(value)
            }
            false => Ok(Value::from(text)),
        }
    }
}

type Slot = Result<Value, EvalError>;

/// What a path ends at is about to be used: a stored value is loaded.
fn content(value: Value, scope: &dyn Scope, meter: &mut Meter) -> Slot {
    Context::new(scope, meter).content(value)
}

/// The names that a template sees: its paths, by number.
#[derive(Debug)]
struct Root {
    values: Arc<Vec<Slot>>,
    session: Arc<Session>,
}

impl Object for Root {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Inner) -> Option<Inner> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Inner> {
        if key == SESSION {
            return Some(session_value(&self.session));
        }
        let (kind, index) = key.strip_prefix("__")?.split_at_checked(1)?;
        match (self.values.get(index.parse::<usize>().ok()?)?, kind) {
            (Ok(value), _) => Some(enter(value, &self.session)),
            (Err(error), "g") if error.kind == EvalErrorKind::Missing => None,
            (Err(error), "n") if error.kind == EvalErrorKind::Missing => Some(Inner::from(())),
            (Err(error), _) => Some(Inner::from(carry(error.clone()))),
        }
    }
}
