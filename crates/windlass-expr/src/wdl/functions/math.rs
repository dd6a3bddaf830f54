//! Arithmetic. Integers stay integers of 64 bits and never wrap; any float makes the result a float.

use windlass_value::{EvalError, Value};

use super::{ANY, Function, int_at, pure, state, wrong};
use crate::wdl::values::{Context, Outcome, describe, order, type_error};

pub(crate) const FUNCTIONS: &[Function] = &[
    pure("add", 2, 2, add),
    pure("sub", 2, 2, sub),
    pure("mul", 2, 2, mul),
    pure("div", 2, 2, div),
    pure("mod", 2, 2, modulo),
    pure("max", 1, ANY, max),
    pure("min", 1, ANY, min),
    pure("range", 2, 2, range),
    state("rand", 2, 2, rand),
];

const RANGE_MAX: usize = 100_000;

fn number_at(function: &str, arguments: &[Value], index: usize) -> Result<f64, EvalError> {
    arguments[index].as_f64().ok_or_else(|| match &arguments[index] {
        Value::Big(text) => type_error(format!("`{function}` cannot calculate with {text}: it has more than 64 bits")),
        _ => wrong(function, arguments, index, "a number"),
    })
}

fn out_of_range(function: &str, arguments: &[Value]) -> EvalError {
    let (left, right) = (describe(&arguments[0]), describe(&arguments[1]));
    type_error(format!("the result of `{function}` of {left} and {right} is out of range"))
        .hint("integers have 64 bits; use float(…) for larger numbers")
}

fn calculate(
    function: &str,
    arguments: &[Value],
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
) -> Outcome {
    if let (Value::Int(a), Value::Int(b)) = (&arguments[0], &arguments[1]) {
        return ints(*a, *b).map(Value::Int).ok_or_else(|| out_of_range(function, arguments));
    }
    let (a, b) = (number_at(function, arguments, 0)?, number_at(function, arguments, 1)?);
    Value::float(floats(a, b)).ok_or_else(|| out_of_range(function, arguments))
}

fn add(_context: &mut Context, arguments: &[Value]) -> Outcome {
    calculate("add", arguments, i64::checked_add, |a, b| a + b)
}

fn sub(_context: &mut Context, arguments: &[Value]) -> Outcome {
    calculate("sub", arguments, i64::checked_sub, |a, b| a - b)
}

fn mul(_context: &mut Context, arguments: &[Value]) -> Outcome {
    calculate("mul", arguments, i64::checked_mul, |a, b| a * b)
}

fn check_divisor(function: &str, arguments: &[Value]) -> Result<(), EvalError> {
    match number_at(function, arguments, 1)? == 0.0 {
        false => Ok(()),
        true => Err(type_error(format!("`{function}` of {} divides by zero", describe(&arguments[0])))),
    }
}

fn div(_context: &mut Context, arguments: &[Value]) -> Outcome {
    check_divisor("div", arguments)?;
    calculate("div", arguments, i64::checked_div, |a, b| a / b)
}

/// The result has the sign of the dividend.
fn modulo(_context: &mut Context, arguments: &[Value]) -> Outcome {
    check_divisor("mod", arguments)?;
    calculate("mod", arguments, |a, b| Some(a.wrapping_rem(b)), |a, b| a % b)
}

fn max(context: &mut Context, arguments: &[Value]) -> Outcome {
    best("max", context, arguments, |candidate, best| order(candidate, best).is_some_and(|order| order.is_gt()))
}

fn min(context: &mut Context, arguments: &[Value]) -> Outcome {
    best("min", context, arguments, |candidate, best| order(candidate, best).is_some_and(|order| order.is_lt()))
}

/// Of several numbers, or of the numbers of one array.
fn best(function: &str, context: &mut Context, arguments: &[Value], better: fn(&Value, &Value) -> bool) -> Outcome {
    let numbers = match arguments {
        [Value::List(items)] => items.as_slice(),
        _ => arguments,
    };
    context.items(numbers.len())?;
    let mut best: Option<&Value> = None;
    for number in numbers {
        if !matches!(number, Value::Int(_) | Value::Float(_)) {
            return Err(type_error(format!("`{function}` needs numbers, got {}", describe(number)))
                .hint("use int(…) or float(…) to read a number from a text"));
        }
        if best.is_none_or(|best| better(number, best)) {
            best = Some(number);
        }
    }
    best.cloned().ok_or_else(|| type_error(format!("`{function}` of an empty array")))
}

fn range(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (start, count) = (int_at("range", arguments, 0)?, int_at("range", arguments, 1)?);
    let Some(count) = usize::try_from(count).ok().filter(|count| *count <= RANGE_MAX) else {
        return Err(type_error(format!("`range` takes a count from 0 to {RANGE_MAX}, got {count}")));
    };
    if start.checked_add(count as i64).is_none() {
        return Err(out_of_range("range", arguments));
    }
    context.room_for_items(count)?;
    Ok(Value::list((0..count).map(|offset| Value::Int(start + offset as i64)).collect()))
}

/// From the lower bound up to, not including, the upper one.
fn rand(context: &mut Context, arguments: &[Value]) -> Outcome {
    let (low, high) = (int_at("rand", arguments, 0)?, int_at("rand", arguments, 1)?);
    if high <= low {
        return Err(type_error(format!("`rand` needs a first number below the second, got {low} and {high}")));
    }
    let span = (i128::from(high) - i128::from(low)) as u128;
    let offset = (u128::from(context.scope.random()) * span) >> 64;
    Ok(Value::Int((i128::from(low) + offset as i128) as i64))
}
