//! `windlass limits`

use windlass_core::Limits;
use windlass_value::{Value, parse_json};

use crate::args::Global;
use crate::config::Settings;
use crate::failure::{Exit, Failure};
use crate::{out, text};

pub(crate) fn limits(global: &Global) -> Result<Exit, Failure> {
    let limits = Settings::load(global)?.limits;
    match global.json {
        true => out::print_json(&to_value(&limits))?,
        false => {
            out::print(&show(&limits))?;
            out::note("change one in windlass.toml, section [limits], or as WINDLASS_<NAME>");
        }
    }
    Ok(Exit::Good)
}

fn show(limits: &Limits) -> String {
    let row = |(name, value, meaning): (&str, String, &str)| vec![name.to_owned(), value, meaning.trim().to_owned()];
    text::table(&limits.describe().into_iter().map(row).collect::<Vec<_>>())
}

fn to_value(limits: &Limits) -> Value {
    let entry = |(name, value, meaning): (&'static str, String, &str)| {
        let value = parse_json(&value).unwrap_or_else(|_| Value::from(value));
        (name, Value::object([("value", value), ("meaning", Value::from(meaning.trim()))]))
    };
    Value::object(limits.describe().into_iter().map(entry))
}
