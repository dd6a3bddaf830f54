//! A small expression language of JSON trees: `{"$add": [{"$var": "x"}, 1]}`. A value without a `$` is a literal.

use std::cell::Cell;
use std::sync::Arc;

use windlass_value::{
    CompileError, EvalError, EvalErrorKind, EvalScope, Expression, ExpressionMode, Language, Level, Meter, Value,
    parse_json,
};

pub(crate) struct TestLanguage;

/// Real languages have such a limit too: a value doubled in every iteration would soon exceed any memory.
const MAX_BYTES: usize = 100_000;

pub(crate) const TOO_LARGE: &str = "the value is too large";

thread_local! {
    static EVALUATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of expressions that this thread has evaluated, a rough measure of the cost of a tick.
pub(crate) fn evaluations() -> u64 {
    EVALUATIONS.get()
}

/// Parses a value from JSON.
pub(crate) fn json(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|_| panic!("not JSON: {text}"))
}

enum Tree {
    Literal(Value),
    List(Vec<Tree>),
    Object(Vec<(Arc<str>, Tree)>),
    Op(Arc<str>, Box<Tree>),
}

struct Compiled {
    tree: Tree,
    mode: ExpressionMode,
}

const OPS: [&str; 26] = [
    "$error",
    "$run",
    "$step",
    "$var",
    "$iteration",
    "$node",
    "$status",
    "$input",
    "$add",
    "$lt",
    "$eq",
    "$not",
    "$or",
    "$random",
    "$now",
    "$range",
    "$fail",
    "$text",
    "$len",
    "$get",
    "$whole",
    "$outer",
    "$elapsed",
    "$attempts",
    "$loopitem",
    "$inputs",
];

impl Language for TestLanguage {
    fn name(&self) -> &'static str {
        "test"
    }

    fn compile(&self, source: &Value, mode: ExpressionMode) -> Result<Box<dyn Expression>, Vec<CompileError>> {
        Ok(Box::new(Compiled { tree: tree(source)?, mode }))
    }
}

fn tree(source: &Value) -> Result<Tree, Vec<CompileError>> {
    Ok(match source {
        Value::List(items) => Tree::List(items.iter().map(tree).collect::<Result<_, _>>()?),
        Value::Map(map) => match map.iter().next() {
            Some((op, operand)) if op.starts_with('$') => {
                if !OPS.contains(&&**op) || map.len() != 1 {
                    let message = format!("unknown operator {op}");
                    return Err(vec![CompileError { message, hint: None, pointer: Vec::new(), range: 0..0 }]);
                }
                Tree::Op(op.clone(), Box::new(tree(operand)?))
            }
            _ => {
                let entries = map.iter().map(|(key, value)| Ok((key.clone(), tree(value)?)));
                Tree::Object(entries.collect::<Result<_, Vec<CompileError>>>()?)
            }
        },
        plain => Tree::Literal(plain.clone()),
    })
}

impl Expression for Compiled {
    fn eval(&self, scope: &dyn EvalScope, meter: &mut Meter) -> Result<Value, EvalError> {
        EVALUATIONS.set(EVALUATIONS.get() + 1);
        meter.spend(1)?;
        let value = self.tree.eval(scope, self.mode)?;
        match value.size_up_to(MAX_BYTES) > MAX_BYTES {
            true => Err(EvalError::new(EvalErrorKind::Limit, TOO_LARGE)),
            false => Ok(value),
        }
    }
}

impl Tree {
    fn eval(&self, scope: &dyn EvalScope, mode: ExpressionMode) -> Result<Value, EvalError> {
        match self {
            Tree::Literal(value) => Ok(value.clone()),
            Tree::List(items) => {
                Ok(Value::list(items.iter().map(|item| item.eval(scope, mode)).collect::<Result<_, _>>()?))
            }
            Tree::Object(entries) => {
                let evaluated = entries.iter().map(|(key, tree)| Ok((key.clone(), tree.eval(scope, mode)?)));
                Ok(Value::map(evaluated.collect::<Result<Vec<_>, EvalError>>()?.into_iter().collect()))
            }
            Tree::Op(op, operand) => apply(op, operand.eval(scope, mode)?, scope, mode),
        }
    }
}

fn apply(op: &str, operand: Value, scope: &dyn EvalScope, mode: ExpressionMode) -> Result<Value, EvalError> {
    Ok(match op {
        "$var" => scope.variable(Level::Any, text(&operand)).unwrap_or_default(),
        "$iteration" => iteration_value(text(&operand), None, scope)?,
        "$outer" => {
            let (name, what) = pair(&operand)?;
            iteration_value(text(what), Some(text(name)), scope)?
        }
        "$loopitem" => iteration_value("item", Some(text(&operand)), scope)?,
        "$error" | "$node" | "$status" | "$attempts" | "$inputs" => node(op, text(&operand), scope, mode)?,
        "$input" => scope.run().input.get(text(&operand)).cloned().unwrap_or_default(),
        "$add" => {
            let (a, b) = pair(&operand)?;
            Value::Int(number(&resolve_stored(a, scope)?).wrapping_add(number(&resolve_stored(b, scope)?)))
        }
        "$lt" => {
            let (a, b) = pair(&operand)?;
            Value::Bool(number(&resolve_stored(a, scope)?) < number(&resolve_stored(b, scope)?))
        }
        "$eq" => {
            let (a, b) = pair(&operand)?;
            Value::Bool(resolve_stored(a, scope)? == resolve_stored(b, scope)?)
        }
        "$or" => {
            let (a, b) = pair(&operand)?;
            Value::Bool(a.as_bool() == Some(true) || b.as_bool() == Some(true))
        }
        "$not" => match operand.as_bool() {
            Some(flag) => Value::Bool(!flag),
            None => return Err(wrong("only true and false can be negated")),
        },
        "$step" => scope.variable(Level::Step, text(&operand)).unwrap_or_default(),
        "$run" => match text(&operand) {
            "parent" => scope.run().parent.clone().map_or(Value::Null, Value::Str),
            "trace" => Value::Str(scope.run().trace().clone()),
            name => scope.run().parameters.get(name).cloned().unwrap_or_default(),
        },
        "$random" => Value::from(scope.random() % number(&operand).max(1) as u64),
        "$now" => Value::Int(scope.now().as_ms()),
        "$elapsed" => {
            let iteration = scope.iteration(None).ok_or_else(|| wrong("no loop"))?;
            Value::from(scope.now().since(iteration.loop_started_at).as_ms())
        }
        "$range" => Value::list((0..number(&operand)).map(Value::Int).collect()),
        "$fail" => return Err(wrong(text(&operand))),
        "$text" => Value::from("x".repeat(number(&operand) as usize)),
        "$len" => match resolve_stored(&operand, scope)? {
            Value::List(items) => Value::from(items.len()),
            Value::Str(text) => Value::from(text.len()),
            _ => Value::Int(0),
        },
        "$get" => {
            let (from, key) = pair(&operand)?;
            resolve_stored(from, scope)?.get(text(key)).cloned().unwrap_or_default()
        }
        "$whole" => resolve_stored(&operand, scope)?,
        other => unreachable!("{other} was refused when it was compiled"),
    })
}

fn iteration_value(what: &str, loop_name: Option<&str>, scope: &dyn EvalScope) -> Result<Value, EvalError> {
    let iteration = scope.iteration(loop_name).ok_or_else(|| EvalError::new(EvalErrorKind::Missing, "no loop here"))?;
    Ok(match what {
        "index" | "completed" => Value::from(iteration.iteration_index),
        "item" => iteration.item,
        "previous" => iteration.previous,
        "name" => iteration.item_name.map_or(Value::Null, Value::Str),
        "count" => Value::from(iteration.count),
        other => return Err(wrong(other)),
    })
}

fn node(op: &str, name: &str, scope: &dyn EvalScope, mode: ExpressionMode) -> Result<Value, EvalError> {
    let Some(node) = scope.node(name) else {
        let missing = EvalError::new(EvalErrorKind::Missing, format!("`{name}` has not ended"));
        return if mode == ExpressionMode::LoopCondition { Ok(Value::Null) } else { Err(missing) };
    };
    Ok(match op {
        "$node" => node.output,
        "$status" => Value::from(node.status),
        "$inputs" => node.inputs,
        "$error" => node.error,
        _ => Value::from(node.attempts),
    })
}

/// Returns the content of a stored value; chunked lists are reassembled.
fn resolve_stored(value: &Value, scope: &dyn EvalScope) -> Result<Value, EvalError> {
    let Value::Stored(stored) = value else { return Ok(value.clone()) };
    let content = scope.blob(stored)?;
    if !stored.chunked || content.as_list().is_none_or(|list| list.iter().any(|part| !matches!(part, Value::Stored(_))))
    {
        return Ok(content);
    }
    let mut items = Vec::new();
    for chunk in content.as_list().unwrap_or_default() {
        items.extend(resolve_stored(chunk, scope)?.as_list().unwrap_or_default().iter().cloned());
    }
    Ok(Value::list(items))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the number, or 0 for any other value.
fn number(value: &Value) -> i64 {
    value.as_int().unwrap_or(0)
}

fn pair(value: &Value) -> Result<(&Value, &Value), EvalError> {
    match value.as_list() {
        Some([a, b]) => Ok((a, b)),
        _ => Err(wrong("two operands are needed")),
    }
}

fn wrong(message: &str) -> EvalError {
    EvalError::new(EvalErrorKind::Type, message)
}
