//! `windlass start NAME[@VERSION]`, and `windlass run FILE` on a server: a run of a registered definition.

use std::path::Path;
use std::sync::Arc;

use windlass_core::plan::{Parameter, VariableKind};
use windlass_syntax::SourceText;
use windlass_value::Value;

use super::run::{check_id, print_run_id, reject_terminal_options};
use crate::agent_options;
use crate::args::{self, GlobalArgs};
use crate::catalog_compiler::NO_NAME;
use crate::config::CliSettings;
use crate::definition;
use crate::failure::{CliExit, CliFailure, codes};
use crate::runs::api::segment;
use crate::runs::follow::{FollowOptions, follow_to_end};
use crate::runs::{self, ServerRuns, decode};
use crate::{inputs, out};

pub(crate) fn start(global: &GlobalArgs, args: &args::StartArgs) -> Result<CliExit, CliFailure> {
    check_id(args.id.as_deref())?;
    inputs::check_stdin(None, &args.input)?;
    let settings = CliSettings::load(global)?;
    let server = runs::server_or_local(global, "start")?;
    let (name, version) = split_version(&args.name)?;
    let definition = find_definition(&server, name, version)?;
    let input = inputs::gather(&args.input, &parameters(&definition)?, &settings)?;
    let new = NewServerRun { name, version, input, id: args.id.as_deref(), labels: &args.labels };
    if args.detach {
        return start_run(global, &server, &new).map(|_| CliExit::Success);
    }
    start_and_follow(global, &server, &new, &settings, args.quiet)
}

/// Splits `NAME@3`. A name may contain `@` itself, if no number follows it.
pub(crate) fn split_version(text: &str) -> Result<(&str, Option<u64>), CliFailure> {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = version.parse().ok().filter(|number| *number > 0);
            let wrong =
                || CliFailure::usage(format!("`{version}` is not a version")).hint("versions count from 1: NAME@1");
            number.map(|number| (name, Some(number))).ok_or_else(wrong)
        }
        _ => Ok((text, None)),
    }
}

/// Advice for a definition that does not exist.
pub(crate) const NO_DEFINITION_HINT: &str = "`windlass definitions list` shows the definitions of the server";

/// Returns a version of a definition; the current one if none is given.
pub(crate) fn find_definition(server: &ServerRuns, name: &str, version: Option<u64>) -> Result<Value, CliFailure> {
    let path = match version {
        Some(version) => format!("definitions/{}/versions/{version}", segment(name)),
        None => format!("definitions/{}", segment(name)),
    };
    server.block_on(server.api.get(&path)).map_err(|error| match error.is_status(404) {
        true => server.api.failure_with_hint(error, NO_DEFINITION_HINT),
        false => server.api.failure(error),
    })
}

/// Reads the declared inputs of a definition.
fn parameters(definition: &Value) -> Result<Vec<Parameter>, CliFailure> {
    let one = |value: &Value| {
        let parameter = Parameter::new(decode::text(value, "name")?, VariableKind::Any);
        Ok(Parameter { default: value.get("default").cloned(), ..parameter })
    };
    decode::list(definition, "parameters")?.iter().map(one).collect()
}

/// A run to be started on a server.
struct NewServerRun<'a> {
    name: &'a str,
    version: Option<u64>,
    input: Value,
    id: Option<&'a str>,
    labels: &'a [(String, String)],
}

/// Starts a run and prints its id.
fn start_run(global: &GlobalArgs, server: &ServerRuns, new: &NewServerRun<'_>) -> Result<Arc<str>, CliFailure> {
    let mut fields = vec![("definition", Value::from(new.name)), ("input", new.input.clone())];
    fields.extend(new.version.map(|version| ("version", Value::from(version))));
    fields.extend(new.id.map(|id| ("id", Value::from(id))));
    let labels = new.labels.iter().map(|(name, value)| (name.as_str(), Value::from(value.as_str())));
    fields.extend((!new.labels.is_empty()).then(|| ("labels", Value::object(labels))));
    let started = server.post("runs", &Value::object(fields))?;
    for warning in started.get("warnings").and_then(Value::as_list).unwrap_or_default() {
        let (message, hint) = (decode::text(warning, "message")?, decode::text(warning, "hint")?);
        out::note(&format!("warning[{}]: {message}\n  hint: {hint}", codes::UNUSED_INPUT));
    }
    let run: Arc<str> = decode::text(&started, "run")?.into();
    print_run_id(global, &run)?;
    Ok(run)
}

fn start_and_follow(
    global: &GlobalArgs,
    server: &ServerRuns,
    new: &NewServerRun<'_>,
    settings: &CliSettings,
    quiet: bool,
) -> Result<CliExit, CliFailure> {
    let interrupts = server.listen()?;
    let run = start_run(global, server, new)?;
    let options = FollowOptions { settings, interrupts, quiet, with_duration: true, from_now: false };
    follow_to_end(global, server, &run, options)
}

/// Runs a file on a server: registers it, unless the same text is registered already, and follows its run.
pub(crate) fn run_on_server(
    global: &GlobalArgs,
    server: &ServerRuns,
    args: &args::RunArgs,
    settings: &CliSettings,
) -> Result<CliExit, CliFailure> {
    let flags = args.permissions.to_flags();
    reject_terminal_options(&[
        ("--ephemeral", args.ephemeral),
        ("--virtual-time", args.virtual_time),
        ("--trigger", args.trigger.is_some()),
        ("--static", args.mocking.static_file.is_some()),
        ("--model", args.agents.model.is_some()),
        ("--workdir", args.agents.workdir.is_some()),
        ("--coordinator", args.agents.coordinator.is_some()),
        ("--max-concurrency", args.agents.max_concurrency.is_some()),
        ("--stream", args.agents.stream),
        (flags.trim(), !flags.is_empty()),
    ])?;
    check_id(args.id.as_deref())?;
    let source = definition::read(&args.source.file, &settings.limits)?;
    let file = Some(&*args.source.file).filter(|file| !definition::is_stdin(file));
    let (name, version) = register(server, &source, file, args.source.dialect.as_deref())?;
    let definition = find_definition(server, &name, Some(version))?;
    let input = inputs::gather(&args.input, &parameters(&definition)?, settings)?;
    let input = agent_options::with_context(input, args);
    let new = NewServerRun { name: &name, version: Some(version), input, id: args.id.as_deref(), labels: &args.labels };
    start_and_follow(global, server, &new, settings, args.quiet)
}

/// Returns name and version of the definition with this text. It is registered first if the server's current version
/// differs, which needs a token with the scope `admin`.
fn register(
    server: &ServerRuns,
    source: &SourceText,
    file: Option<&Path>,
    dialect: Option<&str>,
) -> Result<(String, u64), CliFailure> {
    let mut fields = vec![("source", Value::from(&*source.text))];
    fields.extend(dialect.map(|dialect| ("dialect", Value::from(dialect))));
    let mut checked = server.post("definitions/check", &Value::object(fields.clone()))?;
    let problems = decode::list(&checked, "problems")?;
    let is_nameless = problems.iter().any(|problem| decode::optional_text(problem, "code") == Some(NO_NAME));
    if let Some(name) = file.and_then(definition::default_name).filter(|_| is_nameless) {
        // A definition without a name is named after its file.
        fields.push(("name", Value::from(name)));
        checked = server.post("definitions/check", &Value::object(fields.clone()))?;
    }
    let current = match decode::optional_text(&checked, "name") {
        Some(name) => server.block_on(server.api.get(&format!("definitions/{}", segment(name)))).ok(),
        None => None,
    };
    if let Some(current) = current.filter(|current| decode::optional_text(current, "source") == Some(&source.text)) {
        return Ok((decode::text(&current, "name")?.to_owned(), decode::number(&current, "version")?));
    }
    let registered = server.block_on(server.api.post("definitions", &Value::object(fields)));
    let registered = registered.map_err(|error| match error.is_status(403) {
        true => server.api.failure(error).hint(
            "registering needs the scope `admin`; `windlass start NAME` starts what is registered with the scope `run`",
        ),
        false => server.api.failure(error).location(source.name.to_string()),
    })?;
    Ok((decode::text(&registered, "name")?.to_owned(), decode::number(&registered, "version")?))
}

#[cfg(test)]
mod tests {
    use super::split_version;

    #[test]
    fn a_version_follows_the_last_at_sign() {
        let split = |text| split_version(text).ok();
        assert_eq!(split("daily"), Some(("daily", None)));
        assert_eq!(split("daily@3"), Some(("daily", Some(3))));
        assert_eq!(split("team/daily@12"), Some(("team/daily", Some(12))));
        assert_eq!(split("a@b"), Some(("a@b", None)));
        assert_eq!(split("a@b@2"), Some(("a@b", Some(2))));
        assert_eq!(split("@2"), Some(("@2", None)));
        assert_eq!(split("daily@0"), None);
    }
}
