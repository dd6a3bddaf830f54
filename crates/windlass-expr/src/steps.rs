//! The expression language of Rust steps. An expression evaluates to the token and, on request, the run's variables.

use windlass_value::{
    CompileError, EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, Language, Level, Map, Meter, Value,
    interned,
};

/// The language `steps`. A source is null, or an object `{"state": true}` for a step that reads the run's variables.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepsLanguage;

struct StepsExpression {
    reads_state: bool,
}

impl Language for StepsLanguage {
    fn name(&self) -> &'static str {
        "steps"
    }

    fn compile(&self, source: &Value, _mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        let state = match source {
            Value::Null => Some(false),
            Value::Map(map) if map.len() == 1 => map.get("state").and_then(Value::as_bool),
            _ => None,
        };
        match state {
            Some(state) => Ok(Box::new(StepsExpression { reads_state: state })),
            None => {
                let message = format!("{source:?} is not an expression of steps");
                let hint = Some("write null, or {\"state\": true}".to_owned());
                Err(vec![CompileError { message, hint, pointer: Vec::new(), range: 0..0 }])
            }
        }
    }
}

impl Expression for StepsExpression {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        meter.spend(1)?;
        let missing = || EvalError::new(EvalErrorKind::Missing, "there is no token here");
        let mut given = Map::with_capacity(3);
        given.insert(interned("kind"), scope.local("kind").ok_or_else(missing)?);
        given.insert(interned("payload"), scope.local("args").ok_or_else(missing)?);
        if self.reads_state {
            let variables = scope.variables(Level::Run);
            meter.spend(variables.len() as u64)?;
            given.insert(interned("state"), Value::object(variables));
        }
        Ok(Value::map(given))
    }
}
