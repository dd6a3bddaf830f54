//! What can be said of values before there are any: kinds that operators and functions take and give.

use super::lower::a;
use super::node::{Function, Operator};
use super::value::Kind;

/// What an operator gives, if that is certain; an error with a hint if it never works.
pub(super) fn of_operator(
    operator: Operator,
    left: Option<Kind>,
    right: Option<Kind>,
) -> Result<Option<Kind>, Option<String>> {
    let (Some(one), Some(other)) = (left, right) else { return half_known(operator, left, right) };
    let numbers = one.is_number() && other.is_number();
    match operator {
        Operator::Equal | Operator::Unequal => {
            match one == other || numbers || one == Kind::Null || other == Kind::Null {
                true => Ok(Some(Kind::Bool)),
                false => Err(convert(one, other)),
            }
        }
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            match numbers || (one == other && is_ordered(one)) {
                true => Ok(Some(Kind::Bool)),
                false => Err(convert(one, other)),
            }
        }
        Operator::In => match other {
            Kind::List | Kind::Map => Ok(Some(Kind::Bool)),
            Kind::Str => Err(Some("`in` is for lists and maps: for a text write text.contains(x)".to_owned())),
            _ => Err(None),
        },
        Operator::Add => match (one, other) {
            (Kind::Timestamp, Kind::Duration) | (Kind::Duration, Kind::Timestamp) => Ok(Some(Kind::Timestamp)),
            (Kind::Str | Kind::Bytes | Kind::List | Kind::Duration, same) if same == one => Ok(Some(one)),
            _ => arithmetic(one, other),
        },
        Operator::Subtract => match (one, other) {
            (Kind::Timestamp, Kind::Timestamp) | (Kind::Duration, Kind::Duration) => Ok(Some(Kind::Duration)),
            (Kind::Timestamp, Kind::Duration) => Ok(Some(Kind::Timestamp)),
            _ => arithmetic(one, other),
        },
        Operator::Multiply | Operator::Divide => arithmetic(one, other),
        Operator::Remainder => match numbers {
            true => arithmetic(one, other).map(|kind| kind.filter(|kind| *kind != Kind::Double)),
            false => Err(convert(one, other)),
        },
    }
}

fn half_known(operator: Operator, left: Option<Kind>, right: Option<Kind>) -> Result<Option<Kind>, Option<String>> {
    let known = left.or(right);
    match operator {
        Operator::In => match right {
            Some(Kind::List | Kind::Map) | None => Ok(Some(Kind::Bool)),
            Some(Kind::Str) => Err(Some("`in` is for lists and maps: for a text write text.contains(x)".to_owned())),
            Some(_) => Err(None),
        },
        Operator::Equal | Operator::Unequal => Ok(Some(Kind::Bool)),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => match known {
            Some(kind) if !kind.is_number() && !is_ordered(kind) => Err(None),
            _ => Ok(Some(Kind::Bool)),
        },
        Operator::Add => match known {
            Some(kind @ (Kind::Str | Kind::Bytes | Kind::List)) => Ok(Some(kind)),
            Some(Kind::Bool | Kind::Null | Kind::Map | Kind::Type) => Err(None),
            _ => Ok(None),
        },
        Operator::Subtract => match known {
            Some(kind) if !kind.is_number() && !matches!(kind, Kind::Timestamp | Kind::Duration) => Err(None),
            _ => Ok(None),
        },
        Operator::Multiply | Operator::Divide | Operator::Remainder => match known {
            Some(kind) if !kind.is_number() => Err(None),
            _ => Ok(None),
        },
    }
}

fn is_ordered(kind: Kind) -> bool {
    matches!(kind, Kind::Bool | Kind::Str | Kind::Bytes | Kind::Timestamp | Kind::Duration)
}

/// An int that meets a double becomes one; an int and a uint do not mix.
fn arithmetic(one: Kind, other: Kind) -> Result<Option<Kind>, Option<String>> {
    match (one, other) {
        (one, other) if one == other && one.is_number() => Ok(Some(one)),
        (Kind::Double, other) | (other, Kind::Double) if other.is_number() => Ok(Some(Kind::Double)),
        _ => Err(convert(one, other)),
    }
}

/// How to bring two kinds together.
pub(super) fn convert(one: Kind, other: Kind) -> Option<String> {
    match (one, other) {
        (Kind::Str, other) | (other, Kind::Str) if other.is_number() => {
            Some(format!("turn one into the other: string(n), or {}(text)", other.name()))
        }
        (Kind::Int, Kind::Uint) | (Kind::Uint, Kind::Int) => Some("write int(x) or uint(x)".to_owned()),
        (Kind::Str, Kind::Bool) | (Kind::Bool, Kind::Str) => Some("write true and false without quotes".to_owned()),
        _ => None,
    }
}

pub(super) fn of_function(function: Function) -> Option<Kind> {
    Some(match function {
        Function::Size | Function::Int | Function::Getter(_) => Kind::Int,
        Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches | Function::Bool => {
            Kind::Bool
        }
        Function::Uint => Kind::Uint,
        Function::Double => Kind::Double,
        Function::Str => Kind::Str,
        Function::Bytes => Kind::Bytes,
        Function::Timestamp => Kind::Timestamp,
        Function::Duration => Kind::Duration,
        Function::Type => Kind::Type,
        Function::Dyn => return None,
    })
}

/// Refuses arguments that never fit, with a message and a hint.
pub(super) fn of_arguments(
    name: &str,
    function: Function,
    kinds: &[Option<Kind>],
) -> Result<(), (String, Option<String>)> {
    let first = kinds.first().copied().flatten();
    let takes: &[Kind] = match function {
        Function::Size => &[Kind::Str, Kind::Bytes, Kind::List, Kind::Map],
        Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches => {
            return match kinds.iter().flatten().find(|kind| **kind != Kind::Str) {
                Some(kind) => Err((for_texts(name, *kind), instead_of_text(function, *kind))),
                None => Ok(()),
            };
        }
        Function::Int => &[Kind::Int, Kind::Uint, Kind::Double, Kind::Str, Kind::Timestamp],
        Function::Uint | Function::Double => &[Kind::Int, Kind::Uint, Kind::Double, Kind::Str],
        Function::Str => {
            &[Kind::Str, Kind::Int, Kind::Uint, Kind::Double, Kind::Bool, Kind::Bytes, Kind::Timestamp, Kind::Duration]
        }
        Function::Bytes => &[Kind::Str, Kind::Bytes],
        Function::Bool => &[Kind::Bool, Kind::Str],
        Function::Timestamp => &[Kind::Timestamp, Kind::Str, Kind::Int],
        Function::Duration => &[Kind::Duration, Kind::Str],
        Function::Getter(_) => &[Kind::Timestamp, Kind::Duration],
        Function::Type | Function::Dyn => return Ok(()),
    };
    match first {
        Some(kind) if !takes.contains(&kind) => {
            let known: Vec<String> = takes.iter().map(|kind| a(*kind)).collect();
            Err((format!("`{name}` does not work with {}", a(kind)), Some(format!("it takes {}", known.join(", ")))))
        }
        _ => Ok(()),
    }
}

pub(super) fn for_texts(name: &str, kind: Kind) -> String {
    format!("`{name}` is for texts, not for {}", a(kind))
}

pub(super) fn instead_of_text(function: Function, kind: Kind) -> Option<String> {
    match (function, kind) {
        (Function::Contains, Kind::List) => Some("write x in list, or list.exists(e, …)".to_owned()),
        (Function::Contains, Kind::Map) => Some("write key in map, or has(map.key)".to_owned()),
        (_, kind) if kind.is_number() => Some("write string(n)".to_owned()),
        _ => None,
    }
}
