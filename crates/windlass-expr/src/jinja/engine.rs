//! The engine: one environment for all templates, and the evaluation of one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use minijinja::machinery::{eval, get_compiled_template, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, ObjectRepr};
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior, Value as Inner};
use windlass_value::{EvalError, EvalErrorKind, EvalScope, Meter, Value};

use super::filters;
use super::object::{from_engine, is_wrapped_value, to_engine};
use super::path::JinjaPath;
use super::session::{EvalSession, SESSION, from_engine_error, session_value, to_engine_error};
use crate::wdl::values::WdlContext;

/// How often an evaluation begins anew with more stored values at hand.
const MAX_ROUNDS: usize = 1_000;

/// The name that a whole value is given to.
const RESULT: &str = "__r";

const TEMPLATE_NAME: &str = "t";

static BASE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut env = Environment::new();
    // Whatever must be there is checked by us; what may be missing may be missing at any step.
    env.set_undefined_behavior(UndefinedBehavior::Chainable);
    env.set_debug(false);
    env.set_syntax(syntax());
    env.set_formatter(|out, state, value| {
        if value.is_undefined() {
            let error = EvalError::new(EvalErrorKind::Missing, "the template writes a value that is not there");
            return Err(to_engine_error(error.with_hint("`| default(…)` says what it is then")));
        }
        let session = EvalSession::from_state(state);
        let count = |bytes: usize| {
            session.as_ref().map_or(Ok(()), |session| session.count_output(bytes)).map_err(to_engine_error)
        };
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
    static SPARE_ENVIRONMENT: Cell<Option<Environment<'static>>> = const { Cell::new(None) };
}

/// Text is text: a line break at the end stays.
pub(super) fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap_or_default()
}

/// A template that has been compiled.
pub(super) struct JinjaProgram {
    /// Holds the one template.
    env: Environment<'static>,
    paths: Vec<JinjaPath>,
    keeps_type: bool,
    uses_random: bool,
}

impl JinjaProgram {
    /// `source` is made by [`super::lower`].
    pub(crate) fn expression(source: &str, paths: Vec<JinjaPath>, uses_random: bool) -> Result<JinjaProgram, Error> {
        JinjaProgram::new(format!("{{% set {RESULT} = {source} %}}"), paths, true, uses_random)
    }

    pub(crate) fn template(source: String, paths: Vec<JinjaPath>, uses_random: bool) -> Result<JinjaProgram, Error> {
        JinjaProgram::new(source, paths, false, uses_random)
    }

    fn new(source: String, paths: Vec<JinjaPath>, keeps_type: bool, uses_random: bool) -> Result<JinjaProgram, Error> {
        let mut env = BASE.clone();
        env.add_template_owned(TEMPLATE_NAME, source)?;
        Ok(JinjaProgram { env, paths, keeps_type, uses_random })
    }

    pub(crate) fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        let mut slot = |path: &JinjaPath| path.value(scope, meter).and_then(|value| content(value, scope, meter));
        let values: Arc<Vec<PathValue>> = Arc::new(self.paths.iter().map(&mut slot).collect());
        let seed = if self.uses_random { scope.random() } else { 0 };
        let mut session = Arc::new(EvalSession::new(meter, scope.now(), seed));
        for _ in 0..MAX_ROUNDS {
            let result = self.run(&values, &session, meter);
            let requested = session.take_requested();
            meter.fuel = meter.fuel.min(session.fuel_left());
            match result {
                Err(error) if error.kind == EvalErrorKind::NeedBlobs && !requested.is_empty() => {
                    let mut context = WdlContext::new(scope, meter);
                    let (mut loaded, mut missing) = (Vec::new(), Vec::new());
                    for stored in requested {
                        match context.load(&stored) {
                            Ok(value) => loaded.push((stored.hash, value)),
                            Err(error) if error.kind == EvalErrorKind::NeedBlobs => missing.extend(error.blobs),
                            Err(error) => return Err(error),
                        }
                    }
                    if !missing.is_empty() {
                        return Err(EvalError::need_blobs(missing));
                    }
                    session = Arc::new(session.with_loaded(loaded, meter));
                }
                Ok(value) => return session.check_fuel().map(|()| value),
                Err(error) => return Err(error),
            }
        }
        Err(EvalError::new(EvalErrorKind::Limit, "the template reads too many stored values"))
    }

    fn run(
        &self,
        values: &Arc<Vec<PathValue>>,
        session: &Arc<EvalSession>,
        meter: &mut Meter,
    ) -> Result<Value, EvalError> {
        let root = Inner::from_object(TemplateRoot { values: values.clone(), session: session.clone() });
        let mut env = SPARE_ENVIRONMENT.take().unwrap_or_else(|| BASE.clone());
        env.set_fuel(Some(meter.fuel.max(1)));
        let result = self.run_in(&env, root, session, meter);
        SPARE_ENVIRONMENT.set(Some(env));
        result
    }

    fn run_in(
        &self,
        env: &Environment<'static>,
        root: Inner,
        session: &EvalSession,
        meter: &mut Meter,
    ) -> Result<Value, EvalError> {
        let template = self.env.get_template(TEMPLATE_NAME).map_err(|error| from_engine_error(&error))?;
        let compiled = get_compiled_template(&template);
        let (mut text, blocks) = (String::new(), BTreeMap::new());
        let result = {
            let mut out = make_string_output(&mut text);
            eval(env, &compiled.instructions, root, &blocks, &mut out, AutoEscape::None)
        };
        let (_, state) = result.map_err(|error| from_engine_error(&error))?;
        if let Some((consumed, _)) = state.fuel_levels() {
            meter.spend(consumed)?;
        }
        match self.keeps_type {
            true => {
                let result = state.lookup(RESULT).unwrap_or(Inner::UNDEFINED);
                let value = from_engine(&result, session)?;
                // One that was there before need not be checked again.
                if !is_wrapped_value(&result) {
                    meter.check_size(value.size_up_to(meter.max_output_bytes))?;
                }
                Ok(value)
            }
            false => Ok(Value::from(text)),
        }
    }
}

type PathValue = Result<Value, EvalError>;

/// What a path ends at is about to be used: a stored value is loaded.
fn content(value: Value, scope: &dyn EvalScope, meter: &mut Meter) -> PathValue {
    WdlContext::new(scope, meter).content(value)
}

/// The names that a template sees: its paths, by number.
#[derive(Debug)]
struct TemplateRoot {
    values: Arc<Vec<PathValue>>,
    session: Arc<EvalSession>,
}

impl Object for TemplateRoot {
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
            (Ok(value), _) => Some(to_engine(value, &self.session)),
            (Err(error), "g") if error.kind == EvalErrorKind::Missing => None,
            (Err(error), "n") if error.kind == EvalErrorKind::Missing => Some(Inner::from(())),
            (Err(error), _) => Some(Inner::from(to_engine_error(error.clone()))),
        }
    }
}
