//! Static types: the types that operators and functions accept and return, checked before any value exists.

use super::lower::with_article;
use super::node::{CelFunction, CelOperator};
use super::value::CelType;

/// Returns an operator's result type if it is certain, or an error with a hint if the operand types never work.
pub(super) fn operator_result_type(
    operator: CelOperator,
    left: Option<CelType>,
    right: Option<CelType>,
) -> Result<Option<CelType>, Option<String>> {
    let (Some(one), Some(other)) = (left, right) else { return partial_operator_result_type(operator, left, right) };
    let numbers = one.is_number() && other.is_number();
    match operator {
        CelOperator::Equal | CelOperator::Unequal => {
            match one == other || numbers || one == CelType::Null || other == CelType::Null {
                true => Ok(Some(CelType::Bool)),
                false => Err(conversion_hint(one, other)),
            }
        }
        CelOperator::Less | CelOperator::LessEqual | CelOperator::Greater | CelOperator::GreaterEqual => {
            match numbers || (one == other && is_ordered(one)) {
                true => Ok(Some(CelType::Bool)),
                false => Err(conversion_hint(one, other)),
            }
        }
        CelOperator::In => match other {
            CelType::List | CelType::Map => Ok(Some(CelType::Bool)),
            CelType::Str => Err(Some("`in` is for lists and maps: for a text write text.contains(x)".to_owned())),
            _ => Err(None),
        },
        CelOperator::Add => match (one, other) {
            (CelType::Timestamp, CelType::Duration) | (CelType::Duration, CelType::Timestamp) => {
                Ok(Some(CelType::Timestamp))
            }
            (CelType::Str | CelType::Bytes | CelType::List | CelType::Duration, same) if same == one => Ok(Some(one)),
            _ => arithmetic(one, other),
        },
        CelOperator::Subtract => match (one, other) {
            (CelType::Timestamp, CelType::Timestamp) | (CelType::Duration, CelType::Duration) => {
                Ok(Some(CelType::Duration))
            }
            (CelType::Timestamp, CelType::Duration) => Ok(Some(CelType::Timestamp)),
            _ => arithmetic(one, other),
        },
        CelOperator::Multiply | CelOperator::Divide => arithmetic(one, other),
        CelOperator::Remainder => match numbers {
            true => arithmetic(one, other).map(|kind| kind.filter(|kind| *kind != CelType::Double)),
            false => Err(conversion_hint(one, other)),
        },
    }
}

fn partial_operator_result_type(
    operator: CelOperator,
    left: Option<CelType>,
    right: Option<CelType>,
) -> Result<Option<CelType>, Option<String>> {
    let known = left.or(right);
    match operator {
        CelOperator::In => match right {
            Some(CelType::List | CelType::Map) | None => Ok(Some(CelType::Bool)),
            Some(CelType::Str) => Err(Some("`in` is for lists and maps: for a text write text.contains(x)".to_owned())),
            Some(_) => Err(None),
        },
        CelOperator::Equal | CelOperator::Unequal => Ok(Some(CelType::Bool)),
        CelOperator::Less | CelOperator::LessEqual | CelOperator::Greater | CelOperator::GreaterEqual => match known {
            Some(kind) if !kind.is_number() && !is_ordered(kind) => Err(None),
            _ => Ok(Some(CelType::Bool)),
        },
        CelOperator::Add => match known {
            Some(kind @ (CelType::Str | CelType::Bytes | CelType::List)) => Ok(Some(kind)),
            Some(CelType::Bool | CelType::Null | CelType::Map | CelType::Type) => Err(None),
            _ => Ok(None),
        },
        CelOperator::Subtract => match known {
            Some(kind) if !kind.is_number() && !matches!(kind, CelType::Timestamp | CelType::Duration) => Err(None),
            _ => Ok(None),
        },
        CelOperator::Multiply | CelOperator::Divide | CelOperator::Remainder => match known {
            Some(kind) if !kind.is_number() => Err(None),
            _ => Ok(None),
        },
    }
}

fn is_ordered(kind: CelType) -> bool {
    matches!(kind, CelType::Bool | CelType::Str | CelType::Bytes | CelType::Timestamp | CelType::Duration)
}

/// An int combined with a double becomes a double; an int and a uint do not mix.
fn arithmetic(one: CelType, other: CelType) -> Result<Option<CelType>, Option<String>> {
    match (one, other) {
        (one, other) if one == other && one.is_number() => Ok(Some(one)),
        (CelType::Double, other) | (other, CelType::Double) if other.is_number() => Ok(Some(CelType::Double)),
        _ => Err(conversion_hint(one, other)),
    }
}

/// Suggests a conversion that makes two types compatible.
pub(super) fn conversion_hint(one: CelType, other: CelType) -> Option<String> {
    match (one, other) {
        (CelType::Str, other) | (other, CelType::Str) if other.is_number() => {
            Some(format!("convert one to the other: string(n), or {}(text)", other.name()))
        }
        (CelType::Int, CelType::Uint) | (CelType::Uint, CelType::Int) => Some("write int(x) or uint(x)".to_owned()),
        (CelType::Str, CelType::Bool) | (CelType::Bool, CelType::Str) => {
            Some("write true and false without quotes".to_owned())
        }
        _ => None,
    }
}

pub(super) fn function_result_type(function: CelFunction) -> Option<CelType> {
    Some(match function {
        CelFunction::Size | CelFunction::Int | CelFunction::Getter(_) => CelType::Int,
        CelFunction::Contains
        | CelFunction::StartsWith
        | CelFunction::EndsWith
        | CelFunction::Matches
        | CelFunction::Bool => CelType::Bool,
        CelFunction::Uint => CelType::Uint,
        CelFunction::Double => CelType::Double,
        CelFunction::Str => CelType::Str,
        CelFunction::Bytes => CelType::Bytes,
        CelFunction::Timestamp => CelType::Timestamp,
        CelFunction::Duration => CelType::Duration,
        CelFunction::Type => CelType::Type,
        CelFunction::Dyn => return None,
    })
}

/// Rejects arguments whose types never fit, with a message and a hint.
pub(super) fn check_arguments(
    name: &str,
    function: CelFunction,
    kinds: &[Option<CelType>],
) -> Result<(), (String, Option<String>)> {
    let first = kinds.first().copied().flatten();
    let takes: &[CelType] = match function {
        CelFunction::Size => &[CelType::Str, CelType::Bytes, CelType::List, CelType::Map],
        CelFunction::Contains | CelFunction::StartsWith | CelFunction::EndsWith | CelFunction::Matches => {
            return match kinds.iter().flatten().find(|kind| **kind != CelType::Str) {
                Some(kind) => Err((strings_only_message(name, *kind), string_function_hint(function, *kind))),
                None => Ok(()),
            };
        }
        CelFunction::Int => &[CelType::Int, CelType::Uint, CelType::Double, CelType::Str, CelType::Timestamp],
        CelFunction::Uint | CelFunction::Double => &[CelType::Int, CelType::Uint, CelType::Double, CelType::Str],
        CelFunction::Str => &[
            CelType::Str,
            CelType::Int,
            CelType::Uint,
            CelType::Double,
            CelType::Bool,
            CelType::Bytes,
            CelType::Timestamp,
            CelType::Duration,
        ],
        CelFunction::Bytes => &[CelType::Str, CelType::Bytes],
        CelFunction::Bool => &[CelType::Bool, CelType::Str],
        CelFunction::Timestamp => &[CelType::Timestamp, CelType::Str, CelType::Int],
        CelFunction::Duration => &[CelType::Duration, CelType::Str],
        CelFunction::Getter(_) => &[CelType::Timestamp, CelType::Duration],
        CelFunction::Type | CelFunction::Dyn => return Ok(()),
    };
    match first {
        Some(kind) if !takes.contains(&kind) => {
            let known: Vec<String> = takes.iter().map(|kind| with_article(*kind)).collect();
            Err((
                format!("`{name}` does not work with {}", with_article(kind)),
                Some(format!("it takes {}", known.join(", "))),
            ))
        }
        _ => Ok(()),
    }
}

pub(super) fn strings_only_message(name: &str, kind: CelType) -> String {
    format!("`{name}` is for texts, not for {}", with_article(kind))
}

pub(super) fn string_function_hint(function: CelFunction, kind: CelType) -> Option<String> {
    match (function, kind) {
        (CelFunction::Contains, CelType::List) => Some("write x in list, or list.exists(e, …)".to_owned()),
        (CelFunction::Contains, CelType::Map) => Some("write key in map, or has(map.key)".to_owned()),
        (_, kind) if kind.is_number() => Some("write string(n)".to_owned()),
        _ => None,
    }
}
