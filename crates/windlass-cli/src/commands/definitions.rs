//! `windlass definitions`: the definitions that are registered with a server.

use windlass_value::Value;

use super::start::{NO_DEFINITION_HINT, find_definition, split_version};
use crate::args::{self, DefinitionsCommand, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::runs::api::{segment, with_query};
use crate::runs::{self, ServerRuns, decode};
use crate::{hints, out, text};

/// Definitions per request.
const PAGE_ROWS: u32 = 1_000;

pub(crate) fn definitions(global: &GlobalArgs, args: &args::DefinitionsArgs) -> Result<CliExit, CliFailure> {
    let server = runs::server_or_local(global, "definitions")?;
    match &args.command {
        DefinitionsCommand::List(args) => list(global, &server, args),
        DefinitionsCommand::Show(args) => show(global, &server, args),
        DefinitionsCommand::Remove(args) => remove(global, &server, &args.name),
    }
}

fn list(global: &GlobalArgs, server: &ServerRuns, args: &args::DefinitionListArgs) -> Result<CliExit, CliFailure> {
    let mut query = vec![("limit", PAGE_ROWS.to_string())];
    query.extend(args.search.clone().map(|search| ("search", search)));
    let mut found: Vec<Value> = Vec::new();
    server.pages("definitions", &query, "after", |item| {
        found.push(item.clone());
        Ok(true)
    })?;
    if global.json {
        out::print_json(&Value::list(found))?;
        return Ok(CliExit::Success);
    }
    if found.is_empty() {
        out::print("no definitions")?;
        let note = "`windlass register FILE` registers one; so does `windlass run FILE` on a server";
        out::note(&hints::complete_commands(global, note));
        return Ok(CliExit::Success);
    }
    let head = ["NAME", "VERSION", "DIALECT", "REGISTERED", "BY", "TRIGGERS"].map(str::to_owned).to_vec();
    let lines = found.iter().map(line);
    out::print(&text::table(&std::iter::once(head).chain(lines).collect::<Vec<_>>()))?;
    Ok(CliExit::Success)
}

fn line(definition: &Value) -> Vec<String> {
    let word = |name: &str| decode::optional_text(definition, name).unwrap_or_default().to_owned();
    let triggers = definition.get("triggers").and_then(Value::as_list).unwrap_or_default();
    let triggers: Vec<&str> = triggers.iter().filter_map(|trigger| decode::optional_text(trigger, "name")).collect();
    let is_enabled = definition.get("enabled").and_then(Value::as_bool) == Some(true);
    let disabled = if is_enabled || triggers.is_empty() { "" } else { " (disabled)" };
    let version = match decode::optional_number(definition, "version") {
        Some(0) | None => "invalid".to_owned(),
        Some(version) => version.to_string(),
    };
    let registered_at = word("registered_at");
    let at = registered_at.get(..19).unwrap_or(&registered_at).replace('T', " ");
    vec![word("name"), version, word("dialect"), at, word("by"), format!("{}{disabled}", triggers.join(", "))]
}

fn show(global: &GlobalArgs, server: &ServerRuns, args: &args::DefinitionShowArgs) -> Result<CliExit, CliFailure> {
    let (name, version) = split_version(&args.name)?;
    let definition = find_definition(server, name, version)?;
    if args.source {
        out::print(decode::text(&definition, "source")?.trim_end())?;
    } else if global.json {
        out::print_json(&definition)?;
    } else {
        out::print(&describe(&definition)?)?;
    }
    Ok(CliExit::Success)
}

fn describe(definition: &Value) -> Result<String, CliFailure> {
    let word = |name: &str| decode::text(definition, name);
    let number = |name: &str| decode::number(definition, name);
    let mut lines = vec![
        format!("{} version {} of {} ({})", word("name")?, number("version")?, number("versions")?, word("dialect")?),
        format!("Registered: {} by {}", word("registered_at")?, word("by")?),
    ];
    lines.extend(decode::optional_text(definition, "removed_at").map(|at| format!("Removed: {at}")));
    for parameter in decode::list(definition, "parameters")? {
        let required = parameter.get("required").and_then(Value::as_bool) == Some(true);
        let default = parameter.get("default").map(|value| format!(", default {}", text::format_value(value, 60)));
        let kind = decode::text(parameter, "kind")?;
        let more = if required { ", required".to_owned() } else { default.unwrap_or_default() };
        lines.push(format!("Input: {} ({kind}{more})", decode::text(parameter, "name")?));
    }
    for trigger in decode::list(definition, "triggers")? {
        lines.push(format!("Trigger: {} ({})", decode::text(trigger, "name")?, decode::text(trigger, "kind")?));
    }
    let tools: Vec<&str> = decode::list(definition, "tools")?.iter().filter_map(Value::as_str).collect();
    if !tools.is_empty() {
        lines.push(format!("Tools: {}", tools.join(", ")));
    }
    lines.extend([String::new(), word("source")?.trim_end().to_owned()]);
    Ok(lines.join("\n"))
}

fn remove(global: &GlobalArgs, server: &ServerRuns, name: &str) -> Result<CliExit, CliFailure> {
    let removed = server.delete(&with_query(&format!("definitions/{}", segment(name)), &[]));
    let removed = removed.map_err(|error| match error.is_status(404) {
        true => server.api.failure_with_hint(error, NO_DEFINITION_HINT),
        false => server.api.failure(error),
    })?;
    if global.json {
        out::print_json(&removed)?;
        return Ok(CliExit::Success);
    }
    out::print(&format!("{name} is removed"))?;
    if removed.get("open_runs").and_then(Value::as_bool) == Some(true) {
        out::note("it has unfinished runs, which continue with their version");
    }
    Ok(CliExit::Success)
}
