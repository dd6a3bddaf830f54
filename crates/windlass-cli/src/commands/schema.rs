//! `windlass schema SUBJECT`

use crate::args::SchemaArgs;
use crate::dialects::{names_with_schema, registry};
use crate::failure::{CliExit, CliFailure};
use crate::out;

/// Generated from the declaration of the event types; a test of `windlass-core` keeps it up to date.
const EVENTS_SCHEMA: &str = include_str!("../../../../docs/events.schema.json");

/// The names that stand for events and for mock files among the names of dialects.
const EVENTS: &str = "events";
const MOCKS: &str = "mocks";

/// The subjects that `windlass schema` accepts.
pub(crate) fn subjects() -> Vec<&'static str> {
    let mut subjects = names_with_schema();
    subjects.extend([EVENTS, MOCKS]);
    subjects
}

pub(crate) fn schema(args: &SchemaArgs) -> Result<CliExit, CliFailure> {
    if args.subject == EVENTS {
        out::print(EVENTS_SCHEMA.trim_end())?;
        return Ok(CliExit::Success);
    }
    if args.subject == MOCKS {
        let schema = serde_json::to_string_pretty(&windlass_testing::mock::schema());
        let schema = schema.map_err(|error| CliFailure::usage(format!("could not print the schema: {error}")))?;
        out::print(&schema)?;
        return Ok(CliExit::Success);
    }
    let schema = registry().get(&args.subject).and_then(|dialect| dialect.schema());
    let none = || CliFailure::usage(format!("the dialect `{}` has no JSON Schema yet", args.subject));
    out::print(schema.ok_or_else(none)?.trim_end())?;
    Ok(CliExit::Success)
}
