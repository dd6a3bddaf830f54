//! Shell variables that hold values of templates: a value does not lose its danger by being assigned first.

use super::words::{is_name, own_words};

/// Stands for the positional parameters: `$1`, `$@`, `$*`.
pub(super) const PARAMETERS: &str = "@";

/// Programs whose arguments may be assignments.
const DECLARATIONS: [&str; 5] = ["export", "declare", "typeset", "local", "readonly"];
/// Forms of `${NAME…}` that do not contain the value as it is: quoted for a shell, or only tested.
const HARMLESS: [&str; 3] = ["@Q}", "+", ":+"];

/// Returns the variable at the beginning of the text, which starts with `$`, if its value is inserted as it is.
pub(super) fn expanded_variable(text: &str) -> Option<&str> {
    let after = text.strip_prefix('$')?;
    let Some(inner) = after.strip_prefix('{') else {
        let is_digit = after.starts_with(|letter: char| letter.is_ascii_digit());
        return variable_name(if is_digit { &after[..1] } else { after }).map(|(name, _)| name);
    };
    let (name, rest) = variable_name(inner.strip_prefix('!').unwrap_or(inner))?;
    (!HARMLESS.iter().any(|form| rest.starts_with(form))).then_some(name)
}

/// Splits the text after the name of a variable.
fn variable_name(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix(['@', '*']) {
        return Some((PARAMETERS, rest));
    }
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let (name, rest) = text.split_at(text.find(|letter| !is_part(letter)).unwrap_or(text.len()));
    if name.parse::<u32>().is_ok_and(|number| number > 0) {
        return Some((PARAMETERS, rest));
    }
    is_name(name).then_some((name, rest))
}

/// Returns the variable that receives a value after these words and the beginning of its own word.
pub(super) fn assigned_variable<'w>(
    words: &'w [String],
    current: &'w str,
    is_function: impl Fn(&str) -> bool,
) -> Option<&'w str> {
    let own = own_words(words);
    match own {
        [] => assignment(current),
        [first, ..] if DECLARATIONS.contains(&first.as_str()) => assignment(current),
        [first, name, _, ..] if first == "for" || first == "select" => Some(name),
        [first, option, name, ..] if first == "printf" && option == "-v" => Some(name),
        [first, ..] if first == "set" || is_function(first) => Some(PARAMETERS),
        _ => None,
    }
}

/// Returns the name in `NAME=…`, `NAME+=…` and `NAME[…]=…`.
fn assignment(word: &str) -> Option<&str> {
    let (target, _) = word.split_once('=')?;
    let name = target.strip_suffix('+').unwrap_or(target);
    let name = name.split_once('[').map_or(name, |(name, _)| name);
    is_name(name).then_some(name)
}

/// Returns the variables that a command with these words fills from its standard input.
pub(super) fn filled_variables(words: &[String]) -> Vec<String> {
    let Some((first, rest)) = own_words(words).split_first() else { return Vec::new() };
    let default = match first.as_str() {
        "read" => "REPLY",
        "mapfile" | "readarray" => "MAPFILE",
        _ => return Vec::new(),
    };
    // The value of an option may look like a name too.
    let names: Vec<String> = rest.iter().filter(|word| is_name(word)).cloned().collect();
    if names.is_empty() { vec![default.to_owned()] } else { names }
}
