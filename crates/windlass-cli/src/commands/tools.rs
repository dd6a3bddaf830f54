//! `windlass tools [NAME]`

use windlass_syntax::nearest;
use windlass_tools::{Field, ToolInfo};
use windlass_value::Value;

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::kinds::{self, KINDS, Kind};
use crate::tools::infos;
use crate::{out, text};

pub fn tools(global: &Global, args: &args::Tools) -> Result<Exit, Failure> {
    let all = infos();
    let Some(name) = &args.name else {
        let both = [all.iter().map(|info| to_value(info)).collect::<Vec<_>>(), KINDS.iter().map(kind_value).collect()];
        match global.json {
            true => out::print_json(&both.concat().into())?,
            false => {
                out::print(&listing(&all))?;
                out::note("`windlass tools NAME` shows what one takes and gives");
            }
        }
        return Ok(Exit::Good);
    };
    let (info, kind) = (all.iter().find(|info| info.name == name), kinds::find(name));
    if info.is_none() && kind.is_none() {
        return Err(no_such_tool(name, &all));
    }
    match global.json {
        true => {
            let values = info.map(|info| to_value(info)).into_iter().chain(kind.map(kind_value));
            out::print_json(&values.collect::<Vec<_>>().into())?;
        }
        false => {
            let pages = [kind.map(kind_page), info.map(|info| whole(info))];
            out::print(&pages.into_iter().flatten().collect::<Vec<_>>().join("\n\n"))?;
        }
    }
    Ok(Exit::Good)
}

fn listing(all: &[&ToolInfo]) -> String {
    let tools = all.iter().map(|info| vec![format!("  {}", info.name), info.what.to_owned()]);
    let kinds = KINDS.iter().map(|kind| vec![format!("  {}", kind.name), kind.what.to_owned()]);
    let (kinds, tools) = (kinds.collect::<Vec<_>>(), tools.collect::<Vec<_>>());
    format!(
        "kinds of a playbook's tasks\n{}\n\ntools below them; Loom calls http, model and noop itself\n{}",
        text::table(&kinds),
        text::table(&tools)
    )
}

/// What a playbook writes.
fn kind_page(kind: &Kind) -> String {
    let rows: Vec<_> = kind.fields.iter().map(|(name, what)| vec![format!("  {name}"), (*what).to_owned()]).collect();
    let head = format!("{} in a playbook (`kind: {}`): {}", kind.name, kind.name, kind.what);
    format!("{head}\n\ntakes\n{}\n\ngives\n  {}", text::table(&rows), kind.gives)
}

fn kind_value(kind: &Kind) -> Value {
    let field = |(name, what): &(&str, &str)| Value::object([("name", *name), ("what", *what)]);
    Value::object([
        ("kind", Value::from(kind.name)),
        ("what", Value::from(kind.what)),
        ("fields", kind.fields.iter().map(field).collect::<Vec<_>>().into()),
        ("gives", Value::from(kind.gives)),
    ])
}

fn no_such_tool(name: &str, all: &[&ToolInfo]) -> Failure {
    let names = || all.iter().map(|info| info.name).chain(KINDS.iter().map(|kind| kind.name));
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut names: Vec<&str> = names().collect();
            names.sort_unstable();
            names.dedup();
            format!("there are: {}", names.join(", "))
        }
    };
    Failure::usage(format!("there is no tool `{name}`")).hint(hint)
}

fn whole(info: &ToolInfo) -> String {
    let fields = |title: &str, fields: &[Field]| {
        let row = |field: &Field| {
            let kind = if field.required { format!("{}, required", field.kind) } else { field.kind.to_owned() };
            vec![format!("  {}", field.name), kind, field.what.to_owned()]
        };
        format!("{title}\n{}", text::table(&fields.iter().map(row).collect::<Vec<_>>()))
    };
    let head = format!("{} as a tool: {}", info.name, info.what);
    let mut parts = vec![head, fields("takes", info.inputs), fields("gives", info.outputs)];
    if !info.errors.is_empty() {
        let errors = info.errors.iter().map(|(kind, when)| vec![format!("  {kind}"), (*when).to_owned()]);
        parts.push(format!("kinds of errors\n{}", text::table(&errors.collect::<Vec<_>>())));
    }
    parts.join("\n\n")
}

fn to_value(info: &ToolInfo) -> Value {
    let fields = |fields: &[Field]| -> Value {
        let field = |field: &Field| {
            Value::object([
                ("name", Value::from(field.name)),
                ("kind", Value::from(field.kind)),
                ("required", Value::from(field.required)),
                ("what", Value::from(field.what)),
            ])
        };
        fields.iter().map(field).collect::<Vec<_>>().into()
    };
    let error = |(kind, when): &(&str, &str)| Value::object([("kind", *kind), ("when", *when)]);
    Value::object([
        ("name", Value::from(info.name)),
        ("what", Value::from(info.what)),
        ("inputs", fields(info.inputs)),
        ("outputs", fields(info.outputs)),
        ("errors", info.errors.iter().map(error).collect::<Vec<_>>().into()),
    ])
}
