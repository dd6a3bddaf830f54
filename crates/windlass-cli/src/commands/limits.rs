//! `windlass limits`

use windlass_value::{Value, parse_json};

use crate::args::GlobalArgs;
use crate::config::CliSettings;
use crate::failure::{CliExit, CliFailure};
use crate::{out, text};

pub(crate) fn limits(global: &GlobalArgs) -> Result<CliExit, CliFailure> {
    let settings = CliSettings::load(global)?;
    let mut limits = settings.limits.describe();
    limits.extend(settings.process_limits.describe());
    match global.json {
        true => out::print_json(&to_value(limits))?,
        false => {
            out::print(&show(limits))?;
            out::note(
                "change one in windlass.toml, section [limits], or as WINDLASS_<NAME>; docs/serving.md has those of a server",
            );
        }
    }
    Ok(CliExit::Success)
}

/// Name, value and meaning.
type LimitDescription = (&'static str, String, &'static str);

fn show(limits: Vec<LimitDescription>) -> String {
    let row = |(name, value, meaning): LimitDescription| vec![name.to_owned(), value, meaning.trim().to_owned()];
    text::table(&limits.into_iter().map(row).collect::<Vec<_>>())
}

fn to_value(limits: Vec<LimitDescription>) -> Value {
    let entry = |(name, value, meaning): LimitDescription| {
        let value = parse_json(&value).unwrap_or_else(|_| Value::from(value));
        (name, Value::object([("value", value), ("meaning", Value::from(meaning.trim()))]))
    };
    Value::object(limits.into_iter().map(entry))
}
