//! Assembles the input of a run from a file, JSON on the command line and single values; later ones win.

use std::io::Read;
use std::path::Path;

use windlass_core::plan::{Parameter, Plan};
use windlass_dialect::InputWarning;
use windlass_value::{Map, Value, parse_json};

use crate::args;
use crate::config::CliSettings;
use crate::definition::is_stdin;
use crate::dialects::registry;
use crate::failure::{CliFailure, codes};

/// Checks that standard input is used only once. Must be called before anything reads it.
pub(crate) fn check_stdin(definition: Option<&Path>, args: &args::InputArgs) -> Result<(), CliFailure> {
    let from_stdin = [
        definition.is_some_and(is_stdin),
        args.input.as_deref() == Some("-"),
        args.input_file.as_deref().is_some_and(is_stdin),
    ];
    if from_stdin.into_iter().filter(|wants| *wants).count() > 1 {
        return Err(CliFailure::input("standard input can be read only once").hint("put one of the two into a file"));
    }
    Ok(())
}

/// Gathers the input. Without any, it is that of the mock file.
pub(crate) fn gather(
    args: &args::InputArgs,
    parameters: &[Parameter],
    settings: &CliSettings,
) -> Result<Value, CliFailure> {
    let mut whole = None;
    if let Some(path) = &args.input_file {
        merge(&mut whole, parse_input(&read(path)?, &format!("--input-file {}", path.display()))?)?;
    }
    if let Some(text) = &args.input {
        let text = if text == "-" { read(Path::new("-"))? } else { text.clone() };
        merge(&mut whole, parse_input(&text, "--input")?)?;
    }
    if !args.set.is_empty() {
        let set = parse_assignments(&args.set, parameters, whole.as_ref().and_then(Value::as_map))?;
        merge(&mut whole, Value::map(set))?;
    }
    let mocked = || settings.mocks.as_ref().and_then(|mocks| mocks.input());
    Ok(whole.or_else(mocked).unwrap_or_else(|| Value::map(Map::new())))
}

/// Returns warnings about inputs that the definition does not use.
pub(crate) fn unused_input_warnings(plan: &Plan, input: &Value) -> Vec<String> {
    let warnings = registry().for_plan(plan).check_input(plan, input).into_iter();
    warnings
        .map(|InputWarning { message, hint }| format!("warning[{}]: {message}\n  hint: {hint}", codes::UNUSED_INPUT))
        .collect()
}

fn read(path: &Path) -> Result<String, CliFailure> {
    let mut text = String::new();
    let done = match is_stdin(path) {
        true => std::io::stdin().read_to_string(&mut text).map(|_| text),
        false => std::fs::read_to_string(path),
    };
    done.map_err(|error| {
        CliFailure::input(format!("could not read the input: {error}")).location(path.display().to_string())
    })
}

pub(crate) fn parse_input(text: &str, location: &str) -> Result<Value, CliFailure> {
    parse_json(text).map_err(|error| CliFailure::input(error.to_string()).location(location))
}

/// Builds an answer from a whole value and single properties. Returns `None` if neither is given.
pub(crate) fn merge_answer(whole: Option<Value>, set: &[String]) -> Result<Option<Value>, CliFailure> {
    let mut whole = whole;
    if !set.is_empty() {
        let set = parse_assignments(set, &[], None)?;
        merge(&mut whole, Value::map(set))?;
    }
    Ok(whole)
}

fn parse_assignments(set: &[String], parameters: &[Parameter], given: Option<&Map>) -> Result<Map, CliFailure> {
    let mut map = Map::new();
    for pair in set {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(CliFailure::input(format!("--set takes key=value; `{pair}` has no key or no `=`")));
        };
        let value = parse_json(value).unwrap_or_else(|_| Value::from(value));
        match parameter_path(key, parameters) {
            None => map.insert(key, value),
            Some((parameter, path)) => {
                let name = &*parameter.name;
                // A value that is merged over the default needs no copy of it.
                let default = parameter.default.as_ref().filter(|_| !parameter.merge);
                let before = map.get(name).or_else(|| given?.get(name)).or(default);
                let changed = with_value_at(before, &path, value);
                map.insert(name, changed)
            }
        };
    }
    Ok(map)
}

/// Resolves `base.b.c` if `base` is an object parameter and no parameter has the whole key as its name.
fn parameter_path<'a, 'b>(key: &'b str, parameters: &'a [Parameter]) -> Option<(&'a Parameter, Vec<&'b str>)> {
    let (first, rest) = key.split_once('.').filter(|(_, rest)| rest.split('.').all(|part| !part.is_empty()))?;
    let named = |name: &str| parameters.iter().find(|parameter| *parameter.name == *name);
    let is_object = |parameter: &&Parameter| matches!(parameter.default, Some(Value::Map(_)));
    let parameter = named(first).filter(is_object).filter(|_| named(key).is_none())?;
    Some((parameter, rest.split('.').collect()))
}

fn with_value_at(before: Option<&Value>, path: &[&str], value: Value) -> Value {
    let Some((first, rest)) = path.split_first() else { return value };
    let mut map = before.and_then(Value::as_map).cloned().unwrap_or_default();
    let changed = with_value_at(map.get(first), rest, value);
    map.insert(*first, changed);
    Value::map(map)
}

/// Merges two inputs. The properties of objects are combined; any other value must be the only one.
fn merge(whole: &mut Option<Value>, part: Value) -> Result<(), CliFailure> {
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
                format!("an input of kind {} cannot be merged with one of kind {}", before.kind(), after.kind());
            return Err(
                CliFailure::input(message).hint("give an object, or only one of --input-file, --input and --set")
            );
        }
    };
    *whole = Some(merged);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::plan::VariableKind;
    use windlass_value::to_json;

    #[test]
    fn single_values_are_json_or_text() {
        let set = ["a=1", "b=x y", "c={\"d\":[true]}", "e=", "f=a=b"].map(str::to_owned);
        let map = Value::map(parse_assignments(&set, &[], None).expect("valid"));
        assert_eq!(windlass_value::to_json(&map), r#"{"a":1,"b":"x y","c":{"d":[true]},"e":"","f":"a=b"}"#);
        assert!(parse_assignments(&["a".to_owned()], &[], None).is_err());
        assert!(parse_assignments(&["=a".to_owned()], &[], None).is_err());
    }

    #[test]
    fn a_dotted_key_leads_into_an_object() {
        let declared = |default: &str, merge| {
            let default = Some(parse_json(default).expect("JSON"));
            [Parameter { default, merge, ..Parameter::new("base", VariableKind::Any) }]
        };
        let set = ["base.b.c=9", "base.b.d=1", "other.b=2"].map(str::to_owned);
        let all = |parameters: &[Parameter], given: Option<&Map>| {
            to_json(&Value::map(parse_assignments(&set, parameters, given).expect("valid")))
        };
        let layered = declared(r#"{"a": 1, "b": {"c": 2}}"#, true);
        assert_eq!(all(&layered, None), r#"{"base":{"b":{"c":9,"d":1}},"other.b":2}"#, "laid over the default later");
        let whole = declared(r#"{"a": 1, "b": {"c": 2}}"#, false);
        assert_eq!(all(&whole, None), r#"{"base":{"a":1,"b":{"c":9,"d":1}},"other.b":2}"#);
        let given = parse_json(r#"{"base": {"z": 0}}"#).expect("JSON");
        assert_eq!(all(&layered, given.as_map()), r#"{"base":{"z":0,"b":{"c":9,"d":1}},"other.b":2}"#);
        assert_eq!(all(&declared("1", true), None), r#"{"base.b.c":9,"base.b.d":1,"other.b":2}"#);
    }

    #[test]
    fn later_parts_win_and_kinds_do_not_mix() {
        let mut whole = Some(parse_json(r#"{"a":1,"b":2}"#).expect("JSON"));
        merge(&mut whole, parse_json(r#"{"b":3}"#).expect("JSON")).expect("objects");
        assert_eq!(whole.as_ref().map(windlass_value::to_json).as_deref(), Some(r#"{"a":1,"b":3}"#));
        assert!(merge(&mut whole, Value::Int(1)).is_err());
    }
}
