//! The names that a template may use. Any other name is rejected when the template is compiled.

use windlass_value::nearest;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum CallableKind {
    Filter,
    Test,
    Function,
    Method,
}

pub(super) const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "b64decode",
    "b64encode",
    "batch",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "fromjson",
    "get",
    "groupby",
    "identifier",
    "int",
    "items",
    "join",
    "keys",
    "last",
    "len",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "present",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "values",
    "zip",
];

/// Filters that spend fuel for what they read, or read next to nothing.
pub(super) const SELF_METERED: &[&str] = &[
    "attr",
    "bool",
    "d",
    "default",
    "first",
    "fromjson",
    "get",
    "identifier",
    "join",
    "keys",
    "last",
    "replace",
    "safe",
    "tojson",
    "values",
];

/// Filters that read a string once and create little from it.
pub(super) const LIGHT: &[&str] = &[
    "b64decode",
    "b64encode",
    "count",
    "float",
    "int",
    "len",
    "length",
    "lower",
    "string",
    "trim",
    "upper",
    "urlencode",
];

pub(super) const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

pub(super) const FUNCTIONS: &[&str] = &["dict", "now", "range", "uuid"];

pub(super) const METHODS: &[&str] = &[
    "capitalize",
    "count",
    "endswith",
    "find",
    "get",
    "isdigit",
    "items",
    "join",
    "keys",
    "lower",
    "lstrip",
    "replace",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
    "values",
];

fn names(kind: CallableKind) -> &'static [&'static str] {
    match kind {
        CallableKind::Filter => FILTERS,
        CallableKind::Test => TESTS,
        CallableKind::Function => FUNCTIONS,
        CallableKind::Method => METHODS,
    }
}

pub(super) fn is_known(kind: CallableKind, name: &str) -> bool {
    names(kind).binary_search(&name).is_ok()
}

/// Returns the message for an unknown name, and a suggestion.
pub(super) fn unknown_message(kind: CallableKind, name: &str) -> (String, Option<String>) {
    let word = match kind {
        CallableKind::Filter => "filter",
        CallableKind::Test => "test",
        CallableKind::Function => "function",
        CallableKind::Method => "method",
    };
    let message = format!("there is no {word} `{name}`");
    if let Some(instead) = replacement_hint(kind, name) {
        return (message, Some(instead.to_owned()));
    }
    let hint = match nearest(name, names(kind).iter().copied()) {
        Some(close) => format!("did you mean `{close}`?"),
        None => {
            let letters = |name: &&&str| name.starts_with(|c: char| c.is_alphabetic());
            let listed: Vec<&str> = names(kind).iter().filter(letters).copied().collect();
            format!("there are {}", listed.join(", "))
        }
    };
    (message, Some(hint))
}

fn replacement_hint(kind: CallableKind, name: &str) -> Option<&'static str> {
    Some(match (kind, name) {
        (CallableKind::Filter, "raw") => "`raw` is allowed only at the end of a template in SQL text",
        (CallableKind::Filter, "from_json" | "parse_json" | "loads") => "it is called `fromjson`",
        (CallableKind::Filter, "to_json" | "json" | "dumps") => "it is called `tojson`",
        (CallableKind::Filter, "random" | "shuffle") => "a run must be repeatable: only `uuid()` is random",
        (CallableKind::Test, "null" | "nil") => "write `is none`",
        (CallableKind::Function, "utcnow" | "today" | "datetime" | "time") => {
            "`now()` is the time of this step of the run"
        }
        (CallableKind::Function, "namespace") => {
            "values cannot be changed in a template; use filters, or write them with a rule"
        }
        (CallableKind::Function, "len") => "write `x | length`",
        (CallableKind::Function, "str") => "write `x | string`",
        (CallableKind::Function, "int" | "float" | "list" | "min" | "max" | "sum" | "abs" | "round" | "bool") => {
            "it is a filter: `x | name`"
        }
        (
            CallableKind::Method,
            "append" | "extend" | "insert" | "pop" | "update" | "remove" | "clear" | "setdefault" | "sort",
        ) => "values cannot be changed in a template: write `list + [item]`, or let a rule of the task write it",
        (CallableKind::Method, "format") => "concatenate the parts with `~`",
        (CallableKind::Method, "length" | "len" | "size") => "write `x | length`",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        for list in [FILTERS, TESTS, FUNCTIONS, METHODS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}
