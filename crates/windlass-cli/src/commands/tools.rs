//! `windlass tools [NAME]`

use windlass_agents::ToolSpec;
use windlass_syntax::nearest;
use windlass_tools::{ToolField, ToolInfo};
use windlass_value::{Map, Value};

use crate::args::{self, GlobalArgs};
use crate::config::{CliSettings, McpSettings};
use crate::failure::{CliExit, CliFailure};
use crate::kinds::{self, TASK_KINDS, TaskKind};
use crate::tools::{infos, is_internal};
use crate::{agents, out, text};

pub(crate) fn tools(global: &GlobalArgs, args: &args::ToolsArgs) -> Result<CliExit, CliFailure> {
    let all = infos();
    let specs = agents::specs()?;
    let Some(name) = &args.name else {
        let servers = CliSettings::load(global)?.mcp;
        match global.json {
            true => {
                let tools = all.iter().map(|info| to_value(info)).chain(TASK_KINDS.iter().map(kind_value));
                let servers = servers.iter().map(|server| Value::object([("mcp", server.name.as_str())]));
                out::print_json(&tools.chain(specs.iter().map(spec_value)).chain(servers).collect::<Vec<_>>().into())?;
            }
            false => {
                out::print(&listing(&all, &specs, &servers))?;
                out::note("`windlass tools NAME` shows the inputs and results of one");
            }
        }
        return Ok(CliExit::Success);
    };
    let (info, kind) = (all.iter().find(|info| info.name == name), kinds::find(name));
    let spec = specs.iter().find(|spec| spec.name == *name);
    if info.is_none() && kind.is_none() && spec.is_none() {
        return Err(no_such_tool(name, &all, &specs));
    }
    match global.json {
        true => {
            let values =
                info.map(|info| to_value(info)).into_iter().chain(kind.map(kind_value)).chain(spec.map(spec_value));
            out::print_json(&values.collect::<Vec<_>>().into())?;
        }
        false => {
            let pages = [kind.map(kind_page), info.map(|info| tool_page(info)), spec.map(spec_page)];
            out::print(&pages.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))?;
        }
    }
    Ok(CliExit::Success)
}

fn listing(all: &[&ToolInfo], specs: &[ToolSpec], servers: &[McpSettings]) -> String {
    let tools = all
        .iter()
        .filter(|info| !is_internal(info))
        .map(|info| vec![format!("  {}", info.name), info.description.to_owned()]);
    let kinds = TASK_KINDS.iter().map(|kind| vec![format!("  {}", kind.name), kind.what.to_owned()]);
    let (kinds, tools) = (kinds.collect::<Vec<_>>(), tools.collect::<Vec<_>>());
    let own = specs.iter().map(|spec| vec![format!("  {}", spec.name), first_sentence(&spec.description).to_owned()]);
    let mcp = servers.iter().map(|server| {
        vec![format!("  {}__*", server.name), format!("the tools of the configured MCP server `{}`", server.name)]
    });
    format!(
        "kinds of a playbook's tasks\n{}\n\ntools below them; Loom calls http, model and noop itself\n{}\n\n\
         tools that agents of a workflow may call, if they are permitted to (--allow, --sandbox, --yolo)\n{}",
        text::table(&kinds),
        text::table(&tools),
        text::table(&own.chain(mcp).collect::<Vec<_>>())
    )
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}

/// The tool's description and parameters as a model sees them.
fn spec_page(spec: &ToolSpec) -> String {
    let required = spec.parameters.get("required").and_then(Value::as_list).unwrap_or_default();
    let row = |(name, parameter): (&std::sync::Arc<str>, &Value)| {
        let word = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
        let needed = if required.iter().any(|one| one.as_str() == Some(&**name)) { ", required" } else { "" };
        let kind = if word("type").is_empty() { "anything" } else { word("type") };
        vec![format!("  {name}"), format!("{kind}{needed}"), word("description").to_owned()]
    };
    let rows = spec.parameters.get("properties").and_then(Value::as_map).into_iter().flat_map(Map::iter).map(row);
    let table = text::table(&rows.collect::<Vec<_>>());
    format!("{} as a tool of agents: {}\n\ntakes\n{table}", spec.name, spec.description)
}

fn spec_value(spec: &ToolSpec) -> Value {
    Value::object([
        ("agent_tool", Value::from(spec.name.as_str())),
        ("description", Value::from(spec.description.as_str())),
        ("parameters", spec.parameters.clone()),
    ])
}

/// The task kind as a playbook author writes it.
fn kind_page(kind: &TaskKind) -> String {
    let rows: Vec<_> = kind.fields.iter().map(|(name, what)| vec![format!("  {name}"), (*what).to_owned()]).collect();
    let head = format!("{} in a playbook (`kind: {}`): {}", kind.name, kind.name, kind.what);
    format!("{head}\n\ntakes\n{}\n\nreturns\n  {}", text::table(&rows), kind.returns)
}

fn kind_value(kind: &TaskKind) -> Value {
    let field = |(name, what): &(&str, &str)| Value::object([("name", *name), ("description", *what)]);
    Value::object([
        ("kind", Value::from(kind.name)),
        ("description", Value::from(kind.what)),
        ("fields", kind.fields.iter().map(field).collect::<Vec<_>>().into()),
        ("returns", Value::from(kind.returns)),
    ])
}

fn no_such_tool(name: &str, all: &[&ToolInfo], specs: &[ToolSpec]) -> CliFailure {
    let tools = || all.iter().filter(|info| !is_internal(info)).map(|info| info.name);
    let names =
        || tools().chain(TASK_KINDS.iter().map(|kind| kind.name)).chain(specs.iter().map(|spec| spec.name.as_str()));
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut names: Vec<&str> = names().collect();
            names.sort_unstable();
            names.dedup();
            format!("there are: {}", names.join(", "))
        }
    };
    CliFailure::usage(format!("there is no tool `{name}`")).hint(hint)
}

fn tool_page(info: &ToolInfo) -> String {
    let fields = |title: &str, fields: &[ToolField]| {
        let row = |field: &ToolField| {
            let kind = if field.required { format!("{}, required", field.kind) } else { field.kind.to_owned() };
            vec![format!("  {}", field.name), kind, field.description.to_owned()]
        };
        format!("{title}\n{}", text::table(&fields.iter().map(row).collect::<Vec<_>>()))
    };
    let part = if is_internal(info) { "an internal part of agent workflows" } else { "a tool" };
    let head = format!("{} as {part}: {}", info.name, info.description);
    let mut parts = vec![head, fields("takes", info.inputs), fields("returns", info.outputs)];
    if !info.errors.is_empty() {
        let errors = info.errors.iter().map(|(kind, when)| vec![format!("  {kind}"), (*when).to_owned()]);
        parts.push(format!("kinds of errors\n{}", text::table(&errors.collect::<Vec<_>>())));
    }
    parts.join("\n\n")
}

fn to_value(info: &ToolInfo) -> Value {
    let fields = |fields: &[ToolField]| -> Value {
        let field = |field: &ToolField| {
            Value::object([
                ("name", Value::from(field.name)),
                ("kind", Value::from(field.kind)),
                ("required", Value::from(field.required)),
                ("description", Value::from(field.description)),
            ])
        };
        fields.iter().map(field).collect::<Vec<_>>().into()
    };
    let error = |(kind, when): &(&str, &str)| Value::object([("kind", *kind), ("when", *when)]);
    Value::object([
        ("name", Value::from(info.name)),
        ("description", Value::from(info.description)),
        ("inputs", fields(info.inputs)),
        ("outputs", fields(info.outputs)),
        ("errors", info.errors.iter().map(error).collect::<Vec<_>>().into()),
        ("internal", Value::from(is_internal(info))),
    ])
}
