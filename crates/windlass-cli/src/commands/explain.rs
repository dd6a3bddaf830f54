//! `windlass explain [CODE]`

use windlass_errors::{ErrorCode, all, lookup};
use windlass_syntax::nearest;
use windlass_value::Value;

use crate::args::{ExplainArgs, GlobalArgs};
use crate::failure::{CliExit, CliFailure};
use crate::{out, text};

/// Printed between two pages: a line, as Markdown writes it.
const SEPARATOR: &str = "\n---\n\n";

/// Maximum number of names in a suggestion.
const MAX_SUGGESTIONS: usize = 3;

pub(crate) fn explain(global: &GlobalArgs, args: &ExplainArgs) -> Result<CliExit, CliFailure> {
    let Some(wanted) = &args.code else {
        match global.json {
            true => out::print_json(&all().iter().map(summary).collect::<Vec<_>>().into())?,
            false => {
                out::print(&listing())?;
                out::note("`windlass explain CODE` shows the cause of one, an example and the fix");
            }
        }
        return Ok(CliExit::Success);
    };
    let found = lookup(wanted);
    match (global.json, &found[..]) {
        (_, []) => return Err(unknown_code(wanted)),
        (true, [one]) => out::print_json(&to_value(one))?,
        // Only a name can have several codes; a code has one page.
        (true, several) => out::print_json(&several.iter().map(|entry| to_value(entry)).collect::<Vec<_>>().into())?,
        (false, pages) => {
            let pages: Vec<&str> = pages.iter().map(|entry| entry.page).collect();
            out::print(pages.join(SEPARATOR).trim_end())?;
        }
    }
    Ok(CliExit::Success)
}

fn listing() -> String {
    let row = |entry: &ErrorCode| {
        let title = match entry.names {
            [] => entry.title.to_owned(),
            names => format!("{} ({})", entry.title, names.join(", ")),
        };
        vec![entry.code.to_owned(), entry.severity.as_str().to_owned(), title]
    };
    text::table(&all().iter().map(row).collect::<Vec<_>>())
}

fn summary(entry: &ErrorCode) -> Value {
    Value::object(fields(entry))
}

fn to_value(entry: &ErrorCode) -> Value {
    Value::object(fields(entry).into_iter().chain([("page", Value::from(entry.page))]))
}

fn fields(entry: &ErrorCode) -> [(&'static str, Value); 4] {
    let names: Vec<Value> = entry.names.iter().map(|name| Value::from(*name)).collect();
    [
        ("code", Value::from(entry.code)),
        ("names", names.into()),
        ("severity", Value::from(entry.severity.as_str())),
        ("title", Value::from(entry.title)),
    ]
}

fn unknown_code(wanted: &str) -> CliFailure {
    let is_number = !wanted.is_empty() && wanted.bytes().all(|byte| byte.is_ascii_digit());
    let compared = if is_number { format!("WND-{wanted}") } else { wanted.to_owned() };
    let mut known: Vec<&str> = all().iter().flat_map(|entry| entry.names.iter().copied().chain([entry.code])).collect();
    let mut near = Vec::new();
    while near.len() < MAX_SUGGESTIONS
        && let Some(found) = nearest(&compared, known.iter().copied())
    {
        near.push(format!("`{found}`"));
        known.retain(|name| *name != found);
    }
    let suggestion = match near.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", near.join(" or ")),
    };
    CliFailure::usage(format!("there is no error code `{wanted}`"))
        .hint(format!("{suggestion}`windlass explain` lists them"))
}
