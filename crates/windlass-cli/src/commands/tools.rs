//! `windlass tools [NAME]`

use windlass_syntax::nearest;
use windlass_tools::{Field, ToolInfo, tool_infos};
use windlass_value::Value;

use crate::args::{self, Global};
use crate::failure::{Exit, Failure};
use crate::{out, text};

pub fn tools(global: &Global, args: &args::Tools) -> Result<Exit, Failure> {
    let all = tool_infos();
    let shown: Vec<&ToolInfo> = match &args.name {
        None => all,
        Some(name) => match all.iter().find(|info| info.name == name) {
            Some(info) => vec![info],
            None => return Err(no_such_tool(name, &all)),
        },
    };
    match (global.json, &args.name) {
        (true, _) => out::print_json(&shown.iter().map(|info| to_value(info)).collect::<Vec<_>>().into())?,
        (false, Some(_)) => shown.iter().try_for_each(|info| out::print(&whole(info)))?,
        (false, None) => {
            let row = |info: &&ToolInfo| vec![info.name.to_owned(), info.what.to_owned()];
            out::print(&text::table(&shown.iter().map(row).collect::<Vec<_>>()))?;
            out::note("`windlass tools NAME` shows what one takes and gives");
        }
    }
    Ok(Exit::Good)
}

fn no_such_tool(name: &str, all: &[&ToolInfo]) -> Failure {
    let names = || all.iter().map(|info| info.name);
    let hint = match nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
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
    let errors = info.errors.iter().map(|(kind, when)| vec![format!("  {kind}"), (*when).to_owned()]);
    let errors = format!("kinds of errors\n{}", text::table(&errors.collect::<Vec<_>>()));
    [format!("{}: {}", info.name, info.what), fields("takes", info.inputs), fields("gives", info.outputs), errors]
        .join("\n\n")
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
