//! Tables of the supported functions and macros, and hints for unsupported ones.

use super::node::{CelFunction, FoldKind};
use super::value::CelType;

/// `name(…)`, with the number of arguments.
pub(super) const GLOBALS: [(&str, CelFunction, usize); 12] = [
    ("size", CelFunction::Size, 1),
    ("matches", CelFunction::Matches, 2),
    ("int", CelFunction::Int, 1),
    ("uint", CelFunction::Uint, 1),
    ("double", CelFunction::Double, 1),
    ("string", CelFunction::Str, 1),
    ("bytes", CelFunction::Bytes, 1),
    ("bool", CelFunction::Bool, 1),
    ("timestamp", CelFunction::Timestamp, 1),
    ("duration", CelFunction::Duration, 1),
    ("type", CelFunction::Type, 1),
    ("dyn", CelFunction::Dyn, 1),
];

/// `x.name(…)`, with the minimum and maximum number of arguments.
pub(super) const METHODS: [(&str, CelFunction, usize, usize); 15] = [
    ("size", CelFunction::Size, 0, 0),
    ("contains", CelFunction::Contains, 1, 1),
    ("startsWith", CelFunction::StartsWith, 1, 1),
    ("endsWith", CelFunction::EndsWith, 1, 1),
    ("matches", CelFunction::Matches, 1, 1),
    ("getFullYear", CelFunction::Getter("getFullYear"), 0, 1),
    ("getMonth", CelFunction::Getter("getMonth"), 0, 1),
    ("getDate", CelFunction::Getter("getDate"), 0, 1),
    ("getDayOfMonth", CelFunction::Getter("getDayOfMonth"), 0, 1),
    ("getDayOfWeek", CelFunction::Getter("getDayOfWeek"), 0, 1),
    ("getDayOfYear", CelFunction::Getter("getDayOfYear"), 0, 1),
    ("getHours", CelFunction::Getter("getHours"), 0, 1),
    ("getMinutes", CelFunction::Getter("getMinutes"), 0, 1),
    ("getSeconds", CelFunction::Getter("getSeconds"), 0, 1),
    ("getMilliseconds", CelFunction::Getter("getMilliseconds"), 0, 1),
];

/// `list.name(x, …)`, with the minimum and maximum number of arguments, including the variable.
pub(super) const MACROS: [(&str, FoldKind, usize, usize); 6] = [
    ("all", FoldKind::All, 2, 2),
    ("exists", FoldKind::Exists, 2, 2),
    ("exists_one", FoldKind::ExistsOne, 2, 2),
    ("existsOne", FoldKind::ExistsOne, 2, 2),
    ("map", FoldKind::Map, 2, 3),
    ("filter", FoldKind::Filter, 2, 2),
];

/// Names of types, which are values too.
pub(super) const TYPES: [(&str, CelType); 12] = [
    ("int", CelType::Int),
    ("uint", CelType::Uint),
    ("double", CelType::Double),
    ("string", CelType::Str),
    ("bytes", CelType::Bytes),
    ("bool", CelType::Bool),
    ("list", CelType::List),
    ("map", CelType::Map),
    ("null_type", CelType::Null),
    ("type", CelType::Type),
    ("google.protobuf.Timestamp", CelType::Timestamp),
    ("google.protobuf.Duration", CelType::Duration),
];

const NO_STRING_FUNCTIONS: &str =
    "splitting texts is not supported: let the step return a result with fields, or use contains and matches";

/// Functions of other languages, in lower case.
const FOREIGN: [(&str, &str); 33] = [
    ("len", "write size(x)"),
    ("length", "write size(x)"),
    ("count", "write size(x), or size(list.filter(e, …))"),
    ("isempty", "write size(x) == 0"),
    ("empty", "write size(x) == 0"),
    ("lower", "matches('(?i)word') ignores letter case"),
    ("upper", "matches('(?i)word') ignores letter case"),
    ("tolower", "matches('(?i)word') ignores letter case"),
    ("toupper", "matches('(?i)word') ignores letter case"),
    ("tolowercase", "matches('(?i)word') ignores letter case"),
    ("touppercase", "matches('(?i)word') ignores letter case"),
    ("lowerascii", "matches('(?i)word') ignores letter case"),
    ("upperascii", "matches('(?i)word') ignores letter case"),
    ("includes", "write x in list for a list, text.contains(x) for a text"),
    ("any", "write list.exists(e, …)"),
    ("some", "write list.exists(e, …)"),
    ("every", "write list.all(e, …)"),
    ("find", "write list.filter(e, …)[0]"),
    ("reduce", "the macros are all, exists, exists_one, map and filter"),
    ("foreach", "write list.map(e, …)"),
    ("keys", "a macro over a map iterates over its keys: m.map(k, k)"),
    ("values", "a macro over a map iterates over its keys: m.map(k, m[k])"),
    ("now", "there is no clock: a condition must give the same result at every evaluation"),
    ("env", "pass it to the run as an input, and write inputs.name"),
    ("split", NO_STRING_FUNCTIONS),
    ("join", NO_STRING_FUNCTIONS),
    ("trim", NO_STRING_FUNCTIONS),
    ("replace", NO_STRING_FUNCTIONS),
    ("substring", NO_STRING_FUNCTIONS),
    ("indexof", NO_STRING_FUNCTIONS),
    ("format", "texts are concatenated with +, numbers after string(n)"),
    ("parse", "let the step return a result with fields: resultSchema"),
    ("json", "let the step return a result with fields: resultSchema"),
];

pub(super) fn replacement_hint(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    FOREIGN.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}
