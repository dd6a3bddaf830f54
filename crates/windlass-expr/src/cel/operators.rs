//! Operators, by the kinds of what they work on.

use std::cmp::Ordering;
use std::sync::Arc;

use windlass_value::EvalError;

use super::eval::Eval;
use super::kinds::convert;
use super::node::Operator;
use super::value::{Number, Outcome, Val, tell, type_error};

fn overflow(sign: &str, left: impl std::fmt::Display, right: impl std::fmt::Display) -> EvalError {
    type_error(format!("integer overflow: {left} {sign} {right}"))
}

impl Eval<'_> {
    pub(crate) fn binary(&mut self, operator: Operator, left: Val, right: Val) -> Outcome {
        match operator {
            Operator::Equal => return self.equal(&left, &right).map(Val::Bool),
            Operator::Unequal => return self.equal(&left, &right).map(|same| Val::Bool(!same)),
            Operator::In => return self.is_in(&left, right).map(Val::Bool),
            _ => {}
        }
        let (left, right) = (self.content(left)?, self.content(right)?);
        match operator {
            Operator::Less => self.compare(operator, &left, &right, Ordering::is_lt),
            Operator::LessEqual => self.compare(operator, &left, &right, Ordering::is_le),
            Operator::Greater => self.compare(operator, &left, &right, Ordering::is_gt),
            Operator::GreaterEqual => self.compare(operator, &left, &right, Ordering::is_ge),
            Operator::Add => self.add(left, right),
            Operator::Subtract => subtract(&left, &right),
            operator => arithmetic(operator, &left, &right),
        }
    }

    /// Numbers of all kinds have one order; nothing compares with what is not a number.
    fn compare(&mut self, operator: Operator, left: &Val, right: &Val, holds: fn(Ordering) -> bool) -> Outcome {
        let order = match (left, right) {
            (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
            (Val::Str(a), Val::Str(b)) => {
                self.reads(a.len().min(b.len()))?;
                a.cmp(b)
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.reads(a.len().min(b.len()))?;
                a.cmp(b)
            }
            (Val::Time(a), Val::Time(b)) => a.cmp(b),
            (Val::Span(a), Val::Span(b)) => a.cmp(b),
            _ => match (left.number(), right.number()) {
                (Some(a), Some(b)) => match a.compare(b) {
                    Some(order) => order,
                    None => return Ok(Val::Bool(false)),
                },
                _ => return Err(no_overload(operator, left, right)),
            },
        };
        Ok(Val::Bool(holds(order)))
    }

    fn is_in(&mut self, needle: &Val, hay: Val) -> Result<bool, EvalError> {
        let hay = self.content(hay)?;
        if let Some(length) = hay.items() {
            self.items(length)?;
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
            Val::Object(_) | Val::Map(_) => {
                let needle = self.content(needle.clone())?;
                Ok(hay.under(&needle).is_some())
            }
            other => {
                let error = type_error(format!("`in` looks into a list or a map, not into {}", tell(other)));
                Err(match other {
                    Val::Str(_) => error.hint("for a text write text.contains(x)"),
                    _ => error,
                })
            }
        }
    }

    fn add(&mut self, left: Val, right: Val) -> Outcome {
        Ok(match (&left, &right) {
            (Val::Str(a), Val::Str(b)) => {
                self.makes(a.len().saturating_add(b.len()))?;
                let mut text = String::with_capacity(a.len() + b.len());
                text.push_str(a);
                text.push_str(b);
                Val::Str(text.into())
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.makes(a.len().saturating_add(b.len()))?;
                Val::Bytes(a.iter().chain(b.iter()).copied().collect())
            }
            (Val::Time(moment), Val::Span(span)) | (Val::Span(span), Val::Time(moment)) => {
                Val::Time(moment.add(*span, 1)?)
            }
            (Val::Span(a), Val::Span(b)) => Val::Span(a.add(*b)?),
            _ => match (left.items(), right.items()) {
                (Some(a), Some(b)) => {
                    let count = a.saturating_add(b);
                    self.meter.check_size(count.saturating_mul(2))?;
                    self.items(count)?;
                    let items = (0..a).filter_map(|at| left.item(at)).chain((0..b).filter_map(|at| right.item(at)));
                    Val::List(Arc::new(items.collect()))
                }
                _ => return arithmetic(Operator::Add, &left, &right),
            },
        })
    }

    pub(crate) fn negative(&mut self, value: &Val) -> Outcome {
        Ok(match (value, value.number()) {
            (Val::Span(span), _) => Val::Span(span.negative()?),
            (_, Some(Number::Int(number))) => {
                Val::Int(number.checked_neg().ok_or_else(|| type_error(format!("integer overflow: -({number})")))?)
            }
            (_, Some(Number::Double(number))) => Val::Double(-number),
            _ => return Err(type_error(format!("{} cannot be negative", tell(value)))),
        })
    }
}

fn no_overload(operator: Operator, left: &Val, right: &Val) -> EvalError {
    let message = format!("`{}` does not work between {} and {}", operator.sign(), tell(left), tell(right));
    let error = type_error(message);
    match (left.kind(), right.kind()) {
        (Some(left), Some(right)) => match convert(left, right) {
            Some(hint) => error.hint(hint),
            None => error,
        },
        _ => error,
    }
}

fn subtract(left: &Val, right: &Val) -> Outcome {
    match (left, right) {
        (Val::Time(a), Val::Time(b)) => a.since(*b).map(Val::Span),
        (Val::Time(moment), Val::Span(span)) => moment.add(*span, -1).map(Val::Time),
        (Val::Span(a), Val::Span(b)) => a.minus(*b).map(Val::Span),
        _ => arithmetic(Operator::Subtract, left, right),
    }
}

fn arithmetic(operator: Operator, left: &Val, right: &Val) -> Outcome {
    let sign = operator.sign();
    match (left.number(), right.number()) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            let done = match operator {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide if b == 0 => return Err(type_error(format!("division by zero: {a} / 0"))),
                Operator::Divide => a.checked_div(b),
                _ if b == 0 => return Err(type_error(format!("modulus by zero: {a} % 0"))),
                _ => a.checked_rem(b),
            };
            done.map(Val::Int).ok_or_else(|| overflow(sign, a, b))
        }
        (Some(Number::Uint(a)), Some(Number::Uint(b))) => {
            let done = match operator {
                Operator::Add => a.checked_add(b),
                Operator::Subtract => a.checked_sub(b),
                Operator::Multiply => a.checked_mul(b),
                Operator::Divide if b == 0 => return Err(type_error(format!("division by zero: {a}u / 0u"))),
                Operator::Divide => a.checked_div(b),
                _ if b == 0 => return Err(type_error(format!("modulus by zero: {a}u % 0u"))),
                _ => a.checked_rem(b),
            };
            done.map(Val::Uint).ok_or_else(|| overflow(sign, a, b))
        }
        // A number that a model wrote as 4.0 is as whole as 4.
        (Some(a), Some(b)) if operator == Operator::Remainder => match (whole(a), whole(b)) {
            (Some(a), Some(b)) => arithmetic(operator, &Val::Int(a), &Val::Int(b)),
            _ => Err(no_overload(operator, left, right)),
        },
        (Some(Number::Int(_)), Some(Number::Uint(_))) | (Some(Number::Uint(_)), Some(Number::Int(_))) => {
            Err(no_overload(operator, left, right))
        }
        (Some(a), Some(b)) => {
            let (a, b) = (a.as_f64(), b.as_f64());
            Ok(Val::Double(match operator {
                Operator::Add => a + b,
                Operator::Subtract => a - b,
                Operator::Multiply => a * b,
                _ => a / b,
            }))
        }
        _ => Err(no_overload(operator, left, right)),
    }
}

/// An int, or a double without a fraction. A uint stays what it is.
fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Int(number) => Some(number),
        Number::Double(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
        Number::Double(_) | Number::Uint(_) => None,
    }
}
