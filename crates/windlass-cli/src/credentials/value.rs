//! Values of credentials as users write them: a text, a URL, or fields as JSON, YAML or lines NAME=VALUE.
//!
//! A value is secret: messages say where a problem is, and repeat nothing.

use std::path::Path;

use windlass_syntax::{
    Diagnostics, ParseLimits, SourceText, SyntaxNode, SyntaxNodeKind, YamlRules, parse_yaml, to_value,
};
use windlass_value::{Map, Value, parse_json, to_json};

use crate::args::CredentialFormat;
use crate::failure::{CliFailure, codes};

/// Maximum depth of fields in YAML.
const MAX_DEPTH: usize = 16;

/// Returns the text to store: the text itself, or a JSON object.
pub(crate) fn normalize(
    text: &str,
    format: Option<CredentialFormat>,
    file: Option<&Path>,
) -> Result<String, CliFailure> {
    match format.unwrap_or_else(|| detect(text, file)) {
        CredentialFormat::Text => Ok(text.to_owned()),
        CredentialFormat::Json => json_fields(text),
        CredentialFormat::Yaml => yaml_fields(text),
        CredentialFormat::Fields => line_fields(text),
    }
}

/// Detects the format by the name of the file, or by the form of the text.
fn detect(text: &str, file: Option<&Path>) -> CredentialFormat {
    let extension = file.and_then(|file| file.extension()).and_then(|extension| extension.to_str());
    match extension {
        Some("json") => return CredentialFormat::Json,
        Some("yaml" | "yml") => return CredentialFormat::Yaml,
        Some("env") => return CredentialFormat::Fields,
        _ => {}
    }
    if text.trim_start().starts_with('{') {
        return CredentialFormat::Json;
    }
    let lines: Vec<&str> = content_lines(text).map(|(_, line)| line).collect();
    let is_field = |line: &&str| line.split_once('=').is_some_and(|(name, _)| is_name(name));
    let is_yaml = |line: &&str| is_yaml_entry(line) || line.starts_with(' ');
    match lines.as_slice() {
        // A single line is a text: tokens and URLs have such characters in them.
        [] | [_] => CredentialFormat::Text,
        lines if lines.iter().all(is_field) => CredentialFormat::Fields,
        [first, rest @ ..] if is_yaml_entry(first) && rest.iter().all(is_yaml) => CredentialFormat::Yaml,
        _ => CredentialFormat::Text,
    }
}

/// Returns the lines that are neither empty nor comments, with their numbers.
fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
}

fn is_yaml_entry(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, rest)| is_name(name) && (rest.is_empty() || rest.starts_with(' ')))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

fn json_fields(text: &str) -> Result<String, CliFailure> {
    let value = parse_json(text.trim())
        .map_err(|error| wrong(format!("it is not valid JSON (line {}, column {})", error.line, error.column)))?;
    match value {
        Value::Map(_) => Ok(text.trim().to_owned()),
        _ => Err(wrong("it is JSON, but not an object with fields".to_owned())),
    }
}

fn yaml_fields(text: &str) -> Result<String, CliFailure> {
    let source = SourceText::new("value", text);
    let mut problems = Diagnostics::new();
    let limits = ParseLimits { bytes: text.len(), depth: MAX_DEPTH };
    let node = parse_yaml(&source, limits, YamlRules::GO, &mut problems);
    if let Some(problem) = problems.iter().next() {
        let at = source.position(problem.span.start);
        return Err(wrong(format!("it is not valid YAML (line {}, column {})", at.line, at.column)));
    }
    match node.as_ref().map(|node| as_texts(node, text)) {
        Some(fields @ Value::Map(_)) => Ok(to_json(&fields)),
        _ => Err(wrong("it is YAML, but not fields NAME: VALUE".to_owned())),
    }
}

/// Returns the values with scalars as they are written: the password 0123 is not a number.
fn as_texts(node: &SyntaxNode, text: &str) -> Value {
    if let Some(entries) = node.as_map() {
        let fields: Map = entries.iter().map(|(key, value)| (key.text.as_str(), as_texts(value, text))).collect();
        return Value::map(fields);
    }
    match (&node.kind, text.get(node.span.start..node.span.end)) {
        (SyntaxNodeKind::Bool(_) | SyntaxNodeKind::Number(_), Some(written)) => Value::from(written.trim()),
        _ => to_value(node),
    }
}

fn line_fields(text: &str) -> Result<String, CliFailure> {
    let mut fields = Map::new();
    for (number, line) in content_lines(text) {
        let line = line.trim();
        let (name, value) = line
            .strip_prefix("export ")
            .unwrap_or(line)
            .split_once('=')
            .filter(|(name, _)| is_name(name.trim()))
            .ok_or_else(|| wrong(format!("line {number} is not NAME=VALUE")))?;
        let value = value.trim();
        let quoted = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        if fields.insert(name.trim(), value).is_some() {
            return Err(wrong(format!("line {number} sets a field again")));
        }
    }
    Ok(to_json(&Value::map(fields)))
}

fn wrong(problem: String) -> CliFailure {
    CliFailure::usage(format!("the value cannot be used: {problem}"))
        .code(codes::INVALID_CREDENTIAL)
        .hint("--format text|json|yaml|fields says how it is written")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_recognized_by_their_form() {
        let pem = "-----BEGIN KEY-----\nabc=\n-----END KEY-----";
        for (text, expected) in [
            ("sk-a=b:c", "sk-a=b:c"),
            ("postgres://u:p@h/db?x=1", "postgres://u:p@h/db?x=1"),
            (r#"{"user": "u"}"#, r#"{"user": "u"}"#),
            ("user=u\npassword='p w'\n# note\n", r#"{"user":"u","password":"p w"}"#),
            ("type: postgres\npassword: 0123\n", r#"{"type":"postgres","password":"0123"}"#),
            (
                "type: postgres\ndata:\n  db_host: h\n  db_password: yes\n",
                r#"{"type":"postgres","data":{"db_host":"h","db_password":"yes"}}"#,
            ),
            (pem, pem),
        ] {
            assert_eq!(normalize(text, None, None).expect(text), expected);
        }
        let text = normalize("a=1\nb=2", Some(CredentialFormat::Text), None).expect("a text");
        assert_eq!(text, "a=1\nb=2");
        assert_eq!(normalize("a: 1", None, Some(Path::new("x.yaml"))).expect("YAML"), r#"{"a":"1"}"#);
    }

    #[test]
    fn problems_repeat_nothing_of_the_value() {
        for (text, format, part) in [
            ("{\"password\": canary}", None, "not valid JSON (line 1"),
            ("[\"canary\"]", Some(CredentialFormat::Json), "not an object"),
            ("canary: [", Some(CredentialFormat::Yaml), "not valid YAML (line"),
            ("canary", Some(CredentialFormat::Yaml), "not fields"),
            ("a=1\ncanary", Some(CredentialFormat::Fields), "line 2"),
            ("canary=1\ncanary=2", None, "line 2 sets"),
        ] {
            let failure = normalize(text, format, None).expect_err(text);
            let shown = failure.message();
            assert!(shown.contains(part) && !shown.contains("canary"), "{text}: {shown}");
        }
    }
}
