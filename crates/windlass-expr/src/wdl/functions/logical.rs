//! Conditional and comparison functions.

use std::cmp::Ordering;

use windlass_value::{EvalError, Value};

use super::{LoadedArguments, UNLIMITED, WdlFunction, lazy, pure};
use crate::wdl::node::{WdlNode, eval};
use crate::wdl::values::{WdlContext, WdlResult, compare_values, describe, equal_values, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    lazy("and", 1, UNLIMITED, and),
    lazy("or", 1, UNLIMITED, or),
    lazy("if", 3, 3, choose),
    pure("not", 1, 1, not),
    pure("equals", 2, 2, equals).loading(LoadedArguments::None),
    pure("greater", 2, 2, greater),
    pure("greaterOrEquals", 2, 2, greater_or_equals),
    pure("less", 2, 2, less),
    pure("lessOrEquals", 2, 2, less_or_equals),
];

fn truth(function: &str, value: &Value) -> Result<bool, EvalError> {
    value.as_bool().ok_or_else(|| {
        type_error(format!("`{function}` needs true or false, got {}", describe(value)))
            .with_hint("compare with equals(…) or convert with bool(…)")
    })
}

fn and(context: &mut WdlContext, arguments: &[WdlNode]) -> WdlResult {
    for argument in arguments {
        if !truth("and", &eval(argument, context)?)? {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn or(context: &mut WdlContext, arguments: &[WdlNode]) -> WdlResult {
    for argument in arguments {
        if truth("or", &eval(argument, context)?)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn choose(context: &mut WdlContext, arguments: &[WdlNode]) -> WdlResult {
    let branch = if truth("if", &eval(&arguments[0], context)?)? { 1 } else { 2 };
    eval(&arguments[branch], context)
}

fn not(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Bool(!truth("not", &arguments[0])?))
}

/// Compares two values. A boolean also equals its text, and 1 or 0; a binary value equals its text. Null equals null
/// only.
fn equals(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let equal = match (&arguments[0], &arguments[1]) {
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bool(flag), Value::Str(text)) | (Value::Str(text), Value::Bool(flag)) => {
            text.eq_ignore_ascii_case(if *flag { "true" } else { "false" })
        }
        (Value::Bool(flag), Value::Int(number)) | (Value::Int(number), Value::Bool(flag)) => {
            *number == i64::from(*flag)
        }
        (a, b) => equal_values(context, a, b)?,
    };
    Ok(Value::Bool(equal))
}

fn compare(function: &str, arguments: &[Value]) -> Result<Ordering, EvalError> {
    compare_values(&arguments[0], &arguments[1]).ok_or_else(|| {
        let (left, right) = (describe(&arguments[0]), describe(&arguments[1]));
        let error = type_error(format!("`{function}` compares two numbers or two strings, got {left} and {right}"));
        match arguments.iter().any(Value::is_null) {
            true => error.with_hint("use coalesce(value, default) if it may be null"),
            false => error.with_hint("use int(…), float(…) or string(…) so that both are of one kind"),
        }
    })
}

fn greater(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Bool(compare("greater", arguments)?.is_gt()))
}

fn greater_or_equals(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Bool(compare("greaterOrEquals", arguments)?.is_ge()))
}

fn less(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Bool(compare("less", arguments)?.is_lt()))
}

fn less_or_equals(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    Ok(Value::Bool(compare("lessOrEquals", arguments)?.is_le()))
}
