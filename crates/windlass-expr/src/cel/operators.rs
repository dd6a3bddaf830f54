//! Operators, by the types of their operands.

use std::cmp::Ordering;
use std::sync::Arc;

use windlass_value::EvalError;

use super::eval::CelEvaluator;
use super::node::CelOperator;
use super::types::conversion_hint;
use super::value::{CelNumber, CelResult, CelValue, describe, type_error};

fn overflow(sign: &str, left: impl std::fmt::Display, right: impl std::fmt::Display) -> EvalError {
    type_error(format!("integer overflow: {left} {sign} {right}"))
}

impl CelEvaluator<'_> {
    pub(crate) fn binary(&mut self, operator: CelOperator, left: CelValue, right: CelValue) -> CelResult {
        match operator {
            CelOperator::Equal => return self.equal(&left, &right).map(CelValue::Bool),
            CelOperator::Unequal => return self.equal(&left, &right).map(|same| CelValue::Bool(!same)),
            CelOperator::In => return self.is_in(&left, right).map(CelValue::Bool),
            _ => {}
        }
        let (left, right) = (self.content(left)?, self.content(right)?);
        match operator {
            CelOperator::Less => self.compare(operator, &left, &right, Ordering::is_lt),
            CelOperator::LessEqual => self.compare(operator, &left, &right, Ordering::is_le),
            CelOperator::Greater => self.compare(operator, &left, &right, Ordering::is_gt),
            CelOperator::GreaterEqual => self.compare(operator, &left, &right, Ordering::is_ge),
            CelOperator::Add => self.add(left, right),
            CelOperator::Subtract => subtract(&left, &right),
            operator => arithmetic(operator, &left, &right),
        }
    }

    /// Compares two values. All numeric types share one order; every comparison with NaN is false.
    fn compare(
        &mut self,
        operator: CelOperator,
        left: &CelValue,
        right: &CelValue,
        holds: fn(Ordering) -> bool,
    ) -> CelResult {
        let order = match (left, right) {
            (CelValue::Bool(a), CelValue::Bool(b)) => a.cmp(b),
            (CelValue::Str(a), CelValue::Str(b)) => {
                self.charge_read(a.len().min(b.len()))?;
                a.cmp(b)
            }
            (CelValue::Bytes(a), CelValue::Bytes(b)) => {
                self.charge_read(a.len().min(b.len()))?;
                a.cmp(b)
            }
            (CelValue::Time(a), CelValue::Time(b)) => a.cmp(b),
            (CelValue::Span(a), CelValue::Span(b)) => a.cmp(b),
            _ => match (left.number(), right.number()) {
                (Some(a), Some(b)) => match a.compare(b) {
                    Some(order) => order,
                    None => return Ok(CelValue::Bool(false)),
                },
                _ => return Err(no_overload(operator, left, right)),
            },
        };
        Ok(CelValue::Bool(holds(order)))
    }

    fn is_in(&mut self, needle: &CelValue, hay: CelValue) -> Result<bool, EvalError> {
        let hay = self.content(hay)?;
        if let Some(length) = hay.list_len() {
            self.charge_items(length)?;
            for at in 0..length {
                if let Some(item) = hay.item(at)
                    && self.equal(needle, &item)?
                {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        match &hay {
            CelValue::Object(_) | CelValue::Map(_) => {
                let needle = self.content(needle.clone())?;
                Ok(hay.get_key(&needle).is_some())
            }
            other => {
                let error = type_error(format!("`in` searches a list or a map, not {}", describe(other)));
                Err(match other {
                    CelValue::Str(_) => error.with_hint("for a text write text.contains(x)"),
                    _ => error,
                })
            }
        }
    }

    fn add(&mut self, left: CelValue, right: CelValue) -> CelResult {
        Ok(match (&left, &right) {
            (CelValue::Str(a), CelValue::Str(b)) => {
                self.charge_created(a.len().saturating_add(b.len()))?;
                let mut text = String::with_capacity(a.len() + b.len());
                text.push_str(a);
                text.push_str(b);
                CelValue::Str(text.into())
            }
            (CelValue::Bytes(a), CelValue::Bytes(b)) => {
                self.charge_created(a.len().saturating_add(b.len()))?;
                CelValue::Bytes(a.iter().chain(b.iter()).copied().collect())
            }
            (CelValue::Time(moment), CelValue::Span(span)) | (CelValue::Span(span), CelValue::Time(moment)) => {
                CelValue::Time(moment.add(*span, 1)?)
            }
            (CelValue::Span(a), CelValue::Span(b)) => CelValue::Span(a.add(*b)?),
            _ => match (left.list_len(), right.list_len()) {
                (Some(a), Some(b)) => {
                    let count = a.saturating_add(b);
                    self.meter.check_size(count.saturating_mul(2))?;
                    self.charge_items(count)?;
                    let items = (0..a).filter_map(|at| left.item(at)).chain((0..b).filter_map(|at| right.item(at)));
                    CelValue::List(Arc::new(items.collect()))
                }
                _ => return arithmetic(CelOperator::Add, &left, &right),
            },
        })
    }

    pub(crate) fn negative(&mut self, value: &CelValue) -> CelResult {
        Ok(match (value, value.number()) {
            (CelValue::Span(span), _) => CelValue::Span(span.negate()?),
            (_, Some(CelNumber::Int(number))) => {
                CelValue::Int(number.checked_neg().ok_or_else(|| type_error(format!("integer overflow: -({number})")))?)
            }
            (_, Some(CelNumber::Double(number))) => CelValue::Double(-number),
            _ => return Err(type_error(format!("{} cannot be negative", describe(value)))),
        })
    }
}

fn no_overload(operator: CelOperator, left: &CelValue, right: &CelValue) -> EvalError {
    let message = format!("`{}` does not work between {} and {}", operator.sign(), describe(left), describe(right));
    let error = type_error(message);
    match (left.kind(), right.kind()) {
        (Some(left), Some(right)) => match conversion_hint(left, right) {
            Some(hint) => error.with_hint(hint),
            None => error,
        },
        _ => error,
    }
}

fn subtract(left: &CelValue, right: &CelValue) -> CelResult {
    match (left, right) {
        (CelValue::Time(a), CelValue::Time(b)) => a.since(*b).map(CelValue::Span),
        (CelValue::Time(moment), CelValue::Span(span)) => moment.add(*span, -1).map(CelValue::Time),
        (CelValue::Span(a), CelValue::Span(b)) => a.minus(*b).map(CelValue::Span),
        _ => arithmetic(CelOperator::Subtract, left, right),
    }
}

fn arithmetic(operator: CelOperator, left: &CelValue, right: &CelValue) -> CelResult {
    let sign = operator.sign();
    match (left.number(), right.number()) {
        (Some(CelNumber::Int(a)), Some(CelNumber::Int(b))) => {
            let result = match operator {
                CelOperator::Add => a.checked_add(b),
                CelOperator::Subtract => a.checked_sub(b),
                CelOperator::Multiply => a.checked_mul(b),
                CelOperator::Divide if b == 0 => return Err(type_error(format!("division by zero: {a} / 0"))),
                CelOperator::Divide => a.checked_div(b),
                _ if b == 0 => return Err(type_error(format!("modulus by zero: {a} % 0"))),
                _ => a.checked_rem(b),
            };
            result.map(CelValue::Int).ok_or_else(|| overflow(sign, a, b))
        }
        (Some(CelNumber::Uint(a)), Some(CelNumber::Uint(b))) => {
            let result = match operator {
                CelOperator::Add => a.checked_add(b),
                CelOperator::Subtract => a.checked_sub(b),
                CelOperator::Multiply => a.checked_mul(b),
                CelOperator::Divide if b == 0 => return Err(type_error(format!("division by zero: {a}u / 0u"))),
                CelOperator::Divide => a.checked_div(b),
                _ if b == 0 => return Err(type_error(format!("modulus by zero: {a}u % 0u"))),
                _ => a.checked_rem(b),
            };
            result.map(CelValue::Uint).ok_or_else(|| overflow(sign, a, b))
        }
        // A number that a model wrote as 4.0 is as integral as 4.
        (Some(a), Some(b)) if operator == CelOperator::Remainder => match (as_int(a), as_int(b)) {
            (Some(a), Some(b)) => arithmetic(operator, &CelValue::Int(a), &CelValue::Int(b)),
            _ => Err(no_overload(operator, left, right)),
        },
        (Some(CelNumber::Int(_)), Some(CelNumber::Uint(_))) | (Some(CelNumber::Uint(_)), Some(CelNumber::Int(_))) => {
            Err(no_overload(operator, left, right))
        }
        (Some(a), Some(b)) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            Ok(CelValue::Double(match operator {
                CelOperator::Add => a + b,
                CelOperator::Subtract => a - b,
                CelOperator::Multiply => a * b,
                _ => a / b,
            }))
        }
        _ => Err(no_overload(operator, left, right)),
    }
}

/// Returns an int, or a double without a fraction, as an i64. A uint is not converted.
fn as_int(number: CelNumber) -> Option<i64> {
    match number {
        CelNumber::Int(number) => Some(number),
        CelNumber::Double(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
        CelNumber::Double(_) | CelNumber::Uint(_) => None,
    }
}
