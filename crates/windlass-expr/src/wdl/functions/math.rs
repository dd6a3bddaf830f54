//! Arithmetic. Integers stay 64-bit integers and never wrap; any float makes the result a float, any decimal makes it
//! a decimal of 28 digits.

use std::cmp::Ordering;

use rust_decimal::Decimal;
use windlass_value::{EvalError, EvalErrorKind, Value};

use super::conversion::decimal_of;
use super::{UNLIMITED, WdlFunction, int_at, pure, state, wrong_argument};
use crate::wdl::values::{WdlContext, WdlResult, compare_values, describe, type_error};

pub(crate) const FUNCTIONS: &[WdlFunction] = &[
    pure("add", 2, 2, add),
    pure("sub", 2, 2, sub),
    pure("mul", 2, 2, mul),
    pure("div", 2, 2, div),
    pure("mod", 2, 2, modulo),
    pure("max", 1, UNLIMITED, max),
    pure("min", 1, UNLIMITED, min),
    pure("range", 2, 2, range),
    state("rand", 2, 2, rand),
];

fn number_at(function: &str, arguments: &[Value], index: usize) -> Result<f64, EvalError> {
    arguments[index].as_f64().ok_or_else(|| wrong_argument(function, arguments, index, "a number"))
}

fn decimal_at(function: &str, arguments: &[Value], index: usize) -> Result<Decimal, EvalError> {
    match &arguments[index] {
        number @ (Value::Int(_) | Value::Float(_) | Value::Big(_)) => decimal_of(number).ok_or_else(|| {
            type_error(format!(
                "`{function}` cannot calculate with {}: it does not fit into a decimal",
                describe(number)
            ))
            .with_hint("decimals have 28 digits; use float(…) for larger numbers")
        }),
        _ => Err(wrong_argument(function, arguments, index, "a number")),
    }
}

fn out_of_range(function: &str, arguments: &[Value]) -> EvalError {
    let (left, right) = (describe(&arguments[0]), describe(&arguments[1]));
    type_error(format!("the result of `{function}` of {left} and {right} is out of range"))
        .with_hint("integers have 64 bits; use float(…) for larger numbers")
}

/// One operation, implemented for each type of number.
struct ArithmeticOperation {
    name: &'static str,
    ints: fn(i64, i64) -> Option<i64>,
    floats: fn(f64, f64) -> f64,
    decimals: fn(Decimal, Decimal) -> Option<Decimal>,
}

/// Computes the result: a decimal if any operand is one, otherwise a float if any operand is one.
fn calculate(operation: ArithmeticOperation, arguments: &[Value]) -> WdlResult {
    let name = operation.name;
    let result = match (&arguments[0], &arguments[1]) {
        (Value::Int(a), Value::Int(b)) => (operation.ints)(*a, *b).map(Value::Int),
        (Value::Big(_), _) | (_, Value::Big(_)) => {
            let (a, b) = (decimal_at(name, arguments, 0)?, decimal_at(name, arguments, 1)?);
            (operation.decimals)(a, b).map(|result| Value::Big(result.to_string().into()))
        }
        _ => Value::float((operation.floats)(number_at(name, arguments, 0)?, number_at(name, arguments, 1)?)),
    };
    result.ok_or_else(|| out_of_range(name, arguments))
}

fn add(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let decimals = Decimal::checked_add;
    calculate(ArithmeticOperation { name: "add", ints: i64::checked_add, floats: |a, b| a + b, decimals }, arguments)
}

fn sub(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let decimals = Decimal::checked_sub;
    calculate(ArithmeticOperation { name: "sub", ints: i64::checked_sub, floats: |a, b| a - b, decimals }, arguments)
}

fn mul(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let decimals = Decimal::checked_mul;
    calculate(ArithmeticOperation { name: "mul", ints: i64::checked_mul, floats: |a, b| a * b, decimals }, arguments)
}

fn check_divisor(function: &str, arguments: &[Value]) -> Result<(), EvalError> {
    match compare_values(&arguments[1], &Value::Int(0)) {
        Some(Ordering::Equal) => {
            Err(type_error(format!("`{function}` of {} divides by zero", describe(&arguments[0]))))
        }
        _ => Ok(()),
    }
}

/// Divides without trailing zeros that neither operand had.
fn divide_decimals(a: Decimal, b: Decimal) -> Option<Decimal> {
    let mut result = a.checked_div(b)?.normalize();
    result.rescale(result.scale().max(a.scale().saturating_sub(b.scale())));
    Some(result)
}

fn div(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    check_divisor("div", arguments)?;
    let decimals = divide_decimals;
    calculate(ArithmeticOperation { name: "div", ints: i64::checked_div, floats: |a, b| a / b, decimals }, arguments)
}

/// The result has the sign of the dividend.
fn modulo(_context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    check_divisor("mod", arguments)?;
    let decimals = Decimal::checked_rem;
    let ints = |a: i64, b: i64| Some(a.wrapping_rem(b));
    calculate(ArithmeticOperation { name: "mod", ints, floats: |a, b| a % b, decimals }, arguments)
}

fn max(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    best("max", context, arguments, |candidate, best| {
        compare_values(candidate, best).is_some_and(|order| order.is_gt())
    })
}

fn min(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    best("min", context, arguments, |candidate, best| {
        compare_values(candidate, best).is_some_and(|order| order.is_lt())
    })
}

/// Returns the best of several numbers, or of the numbers in one array.
fn best(
    function: &str,
    context: &mut WdlContext,
    arguments: &[Value],
    better: fn(&Value, &Value) -> bool,
) -> WdlResult {
    let numbers = match arguments {
        [Value::List(items)] => items.as_slice(),
        _ => arguments,
    };
    context.charge_items(numbers.len())?;
    let mut best: Option<&Value> = None;
    for number in numbers {
        if !matches!(number, Value::Int(_) | Value::Float(_) | Value::Big(_)) {
            return Err(type_error(format!("`{function}` needs numbers, got {}", describe(number)))
                .with_hint("use int(…) or float(…) to read a number from a text"));
        }
        if best.is_none_or(|best| better(number, best)) {
            best = Some(number);
        }
    }
    best.cloned().ok_or_else(|| type_error(format!("`{function}` of an empty array")))
}

fn range(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (start, count) = (int_at("range", arguments, 0)?, int_at("range", arguments, 1)?);
    let max_items = context.meter.caps.max_range_items;
    let Ok(count) = usize::try_from(count) else {
        return Err(type_error(format!("`range` needs a count of 0 or more, got {count}")));
    };
    if count > max_items {
        let message = format!("`range` takes a count from 0 to {max_items}, got {count}");
        let hint = "raise `limits.max_range_items` in windlass.toml if this is intended";
        return Err(EvalError::new(EvalErrorKind::Limit, message).with_hint(hint));
    }
    if start.checked_add(count as i64).is_none() {
        return Err(out_of_range("range", arguments));
    }
    context.reserve_items(count)?;
    Ok(Value::list((0..count).map(|offset| Value::Int(start + offset as i64)).collect()))
}

/// Returns a random integer from the lower bound, inclusive, to the upper bound, exclusive.
fn rand(context: &mut WdlContext, arguments: &[Value]) -> WdlResult {
    let (low, high) = (int_at("rand", arguments, 0)?, int_at("rand", arguments, 1)?);
    if high <= low {
        return Err(type_error(format!("`rand` needs a first number below the second, got {low} and {high}")));
    }
    let span = (i128::from(high) - i128::from(low)) as u128;
    let offset = (u128::from(context.scope.random()) * span) >> 64;
    Ok(Value::Int((i128::from(low) + offset as i128) as i64))
}
