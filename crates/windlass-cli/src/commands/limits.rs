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
    let server_limits = settings.server.limits.describe();
    match global.json {
        true => {
            let entries = to_entries("limits", limits).chain(to_entries("server", server_limits));
            out::print_json(&Value::object(entries))?;
        }
        false => {
            out::print(&format!("[limits]\n{}\n\n[server]\n{}", show(limits), show(server_limits)))?;
            out::note("change one in its section of windlass.toml, or one of [limits] as WINDLASS_<NAME>");
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

/// Returns the limits by name, with the section of the settings that they belong to.
fn to_entries(section: &'static str, limits: Vec<LimitDescription>) -> impl Iterator<Item = (&'static str, Value)> {
    limits.into_iter().map(move |(name, value, meaning)| {
        let value = parse_json(&value).unwrap_or_else(|_| Value::from(value));
        let (meaning, section) = (Value::from(meaning.trim()), Value::from(section));
        (name, Value::object([("value", value), ("meaning", meaning), ("section", section)]))
    })
}
