//! The functions and macros that there are, and what to write instead of those that there are not.

use super::node::{Function, How};
use super::value::Kind;

/// `name(…)`, with how many arguments.
pub(super) const GLOBALS: [(&str, Function, usize); 12] = [
    ("size", Function::Size, 1),
    ("matches", Function::Matches, 2),
    ("int", Function::Int, 1),
    ("uint", Function::Uint, 1),
    ("double", Function::Double, 1),
    ("string", Function::Str, 1),
    ("bytes", Function::Bytes, 1),
    ("bool", Function::Bool, 1),
    ("timestamp", Function::Timestamp, 1),
    ("duration", Function::Duration, 1),
    ("type", Function::Type, 1),
    ("dyn", Function::Dyn, 1),
];

/// `x.name(…)`, with the least and the most arguments.
pub(super) const METHODS: [(&str, Function, usize, usize); 15] = [
    ("size", Function::Size, 0, 0),
    ("contains", Function::Contains, 1, 1),
    ("startsWith", Function::StartsWith, 1, 1),
    ("endsWith", Function::EndsWith, 1, 1),
    ("matches", Function::Matches, 1, 1),
    ("getFullYear", Function::Getter("getFullYear"), 0, 1),
    ("getMonth", Function::Getter("getMonth"), 0, 1),
    ("getDate", Function::Getter("getDate"), 0, 1),
    ("getDayOfMonth", Function::Getter("getDayOfMonth"), 0, 1),
    ("getDayOfWeek", Function::Getter("getDayOfWeek"), 0, 1),
    ("getDayOfYear", Function::Getter("getDayOfYear"), 0, 1),
    ("getHours", Function::Getter("getHours"), 0, 1),
    ("getMinutes", Function::Getter("getMinutes"), 0, 1),
    ("getSeconds", Function::Getter("getSeconds"), 0, 1),
    ("getMilliseconds", Function::Getter("getMilliseconds"), 0, 1),
];

/// `list.name(x, …)`, with the least and the most arguments, the variable among them.
pub(super) const MACROS: [(&str, How, usize, usize); 6] = [
    ("all", How::All, 2, 2),
    ("exists", How::Exists, 2, 2),
    ("exists_one", How::ExistsOne, 2, 2),
    ("existsOne", How::ExistsOne, 2, 2),
    ("map", How::Map, 2, 3),
    ("filter", How::Filter, 2, 2),
];

/// Names of types, which are values too.
pub(super) const TYPES: [(&str, Kind); 12] = [
    ("int", Kind::Int),
    ("uint", Kind::Uint),
    ("double", Kind::Double),
    ("string", Kind::Str),
    ("bytes", Kind::Bytes),
    ("bool", Kind::Bool),
    ("list", Kind::List),
    ("map", Kind::Map),
    ("null_type", Kind::Null),
    ("type", Kind::Type),
    ("google.protobuf.Timestamp", Kind::Timestamp),
    ("google.protobuf.Duration", Kind::Duration),
];

const NO_TEXTS: &str =
    "texts are not taken apart here: let the step give a result with fields, or use contains and matches";

/// Functions of other languages, in small letters.
const FOREIGN: [(&str, &str); 33] = [
    ("len", "write size(x)"),
    ("length", "write size(x)"),
    ("count", "write size(x), or size(list.filter(e, …))"),
    ("isempty", "write size(x) == 0"),
    ("empty", "write size(x) == 0"),
    ("lower", "matches('(?i)word') does not look at letter case"),
    ("upper", "matches('(?i)word') does not look at letter case"),
    ("tolower", "matches('(?i)word') does not look at letter case"),
    ("toupper", "matches('(?i)word') does not look at letter case"),
    ("tolowercase", "matches('(?i)word') does not look at letter case"),
    ("touppercase", "matches('(?i)word') does not look at letter case"),
    ("lowerascii", "matches('(?i)word') does not look at letter case"),
    ("upperascii", "matches('(?i)word') does not look at letter case"),
    ("includes", "write x in list for a list, text.contains(x) for a text"),
    ("any", "write list.exists(e, …)"),
    ("some", "write list.exists(e, …)"),
    ("every", "write list.all(e, …)"),
    ("find", "write list.filter(e, …)[0]"),
    ("reduce", "there are all, exists, exists_one, map and filter"),
    ("foreach", "write list.map(e, …)"),
    ("keys", "a macro over a map goes over its keys: m.map(k, k)"),
    ("values", "a macro over a map goes over its keys: m.map(k, m[k])"),
    ("now", "there is no clock: a condition must say the same whenever it is asked"),
    ("env", "give it to the run as an input, and write inputs.name"),
    ("split", NO_TEXTS),
    ("join", NO_TEXTS),
    ("trim", NO_TEXTS),
    ("replace", NO_TEXTS),
    ("substring", NO_TEXTS),
    ("indexof", NO_TEXTS),
    ("format", "texts are put together with +, numbers with string(n)"),
    ("parse", "let the step give a result with fields: resultSchema"),
    ("json", "let the step give a result with fields: resultSchema"),
];

pub(super) fn instead_of(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    FOREIGN.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead)
}
