//! `windlass limits`

use windlass_value::{Value, parse_json};

use crate::args::Global;
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::{out, text};

pub(crate) fn limits(global: &Global) -> Result<Exit, Failure> {
    let settings = Settings::load(global)?;
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
    Ok(Exit::Good)
}

/// Name, value and meaning.
type Described = (&'static str, String, &'static str);

fn show(limits: Vec<Described>) -> String {
    let row = |(name, value, meaning): Described| vec![name.to_owned(), value, meaning.trim().to_owned()];
    text::table(&limits.into_iter().map(row).collect::<Vec<_>>())
}

fn to_value(limits: Vec<Described>) -> Value {
    let entry = |(name, value, meaning): Described| {
        let value = parse_json(&value).unwrap_or_else(|_| Value::from(value));
        (name, Value::object([("value", value), ("meaning", Value::from(meaning.trim()))]))
    };
    Value::object(limits.into_iter().map(entry))
}
