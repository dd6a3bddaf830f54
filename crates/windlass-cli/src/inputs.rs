//! The input of a run: a file, JSON on the command line, single values; later ones win.

use std::io::Read;
use std::path::Path;

use windlass_core::plan::{ExpressionSource, Plan};
use windlass_syntax::nearest;
use windlass_value::{Map, Value, parse_json, to_json};

use crate::args;
use crate::definition::is_stdin;
use crate::failure::Failure;

/// Standard input holds one thing only. To be asked before anything reads it.
pub fn check_stdin(args: &args::Run) -> Result<(), Failure> {
    let from_stdin = [
        is_stdin(&args.source.file),
        args.input.as_deref() == Some("-"),
        args.input_file.as_deref().is_some_and(is_stdin),
    ];
    if from_stdin.into_iter().filter(|wants| *wants).count() > 1 {
        return Err(Failure::usage("standard input can be read only once").hint("put one of the two into a file"));
    }
    Ok(())
}

pub fn gather(args: &args::Run) -> Result<Value, Failure> {
    let mut whole = None;
    if let Some(path) = &args.input_file {
        merge(&mut whole, parsed(&read(path)?, &format!("--input-file {}", path.display()))?)?;
    }
    if let Some(text) = &args.input {
        let text = if text == "-" { read(Path::new("-"))? } else { text.clone() };
        merge(&mut whole, parsed(&text, "--input")?)?;
    }
    if !args.set.is_empty() {
        merge(&mut whole, Value::map(singles(&args.set)?))?;
    }
    Ok(whole.unwrap_or_else(|| Value::map(Map::new())))
}

/// What is given and never read is most likely a slip. Only a definition that declares parameters says what it reads,
/// and one that reads its trigger may read anything.
pub fn unread(plan: &Plan, input: &Value) -> Vec<String> {
    let Value::Map(given) = input else { return Vec::new() };
    let reads_trigger = |expression: &ExpressionSource| to_json(&expression.source).to_lowercase().contains("trigger");
    if !declares_parameters(plan) || plan.expressions.iter().any(reads_trigger) {
        return Vec::new();
    }
    let names = || plan.parameters.iter().map(|parameter| &*parameter.name);
    let unknown = given.iter().filter(|(key, _)| names().all(|name| *name != ***key));
    let told = unknown.map(|(key, _)| {
        let hint = nearest(key, names()).map_or_else(
            || format!("its parameters: {}", names().collect::<Vec<_>>().join(", ")),
            |near| format!("did you mean `{near}`?"),
        );
        format!("warning: the definition does not read the input `{key}`\n  hint: {hint}")
    });
    told.collect()
}

/// A single action, or actions alone, take whatever they read from the input, variables too.
fn declares_parameters(plan: &Plan) -> bool {
    let whole = parse_json(plan.source.trim_start_matches('\u{feff}')).unwrap_or_default();
    let declared = |of: &Value| matches!(of.get("parameters"), Some(Value::Map(map)) if !map.is_empty());
    declared(&whole) || whole.get("definition").is_some_and(declared)
}

fn read(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let done = match is_stdin(path) {
        true => std::io::stdin().read_to_string(&mut text).map(|_| text),
        false => std::fs::read_to_string(path),
    };
    done.map_err(|error| Failure::usage(format!("could not read the input: {error}")).place(path.display().to_string()))
}

pub fn parsed(text: &str, place: &str) -> Result<Value, Failure> {
    parse_json(text).map_err(|error| Failure::usage(error.to_string()).place(place))
}

fn singles(set: &[String]) -> Result<Map, Failure> {
    let mut map = Map::new();
    for pair in set {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::usage(format!("--set takes key=value; `{pair}` has no key or no `=`")));
        };
        map.insert(key, parse_json(value).unwrap_or_else(|_| Value::from(value)));
    }
    Ok(map)
}

/// Properties of objects come together; anything else stands alone.
fn merge(whole: &mut Option<Value>, part: Value) -> Result<(), Failure> {
    let merged = match (whole.take(), part) {
        (None, part) => part,
        (Some(Value::Map(before)), Value::Map(after)) => {
            let mut map = (*before).clone();
            after.iter().for_each(|(key, value)| {
                map.insert(key.clone(), value.clone());
            });
            Value::map(map)
        }
        (Some(before), after) => {
            let message =
                format!("an input of kind {} cannot be put together with one of kind {}", before.kind(), after.kind());
            return Err(Failure::usage(message).hint("give an object, or only one of --input-file, --input and --set"));
        }
    };
    *whole = Some(merged);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_values_are_json_or_text() {
        let set = ["a=1", "b=x y", "c={\"d\":[true]}", "e=", "f=a=b"].map(str::to_owned);
        let map = Value::map(singles(&set).expect("valid"));
        assert_eq!(windlass_value::to_json(&map), r#"{"a":1,"b":"x y","c":{"d":[true]},"e":"","f":"a=b"}"#);
        assert!(singles(&["a".to_owned()]).is_err());
        assert!(singles(&["=a".to_owned()]).is_err());
    }

    #[test]
    fn later_parts_win_and_kinds_do_not_mix() {
        let mut whole = Some(parse_json(r#"{"a":1,"b":2}"#).expect("JSON"));
        merge(&mut whole, parse_json(r#"{"b":3}"#).expect("JSON")).expect("objects");
        assert_eq!(whole.as_ref().map(windlass_value::to_json).as_deref(), Some(r#"{"a":1,"b":3}"#));
        assert!(merge(&mut whole, Value::Int(1)).is_err());
    }
}
