//! Settings from `windlass.toml`, then from the environment.

mod lines;
mod mcp;
mod models;
mod retention;
mod server;
mod services;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use mcp::McpSettings;
pub(crate) use retention::RetentionSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use server::{OUTBOUND, ServerSettings};
pub(crate) use services::{AuthSettings, ConfiguredActivity, ConfiguredTarget, ModelSettings, SecretSetting};
use windlass_agents::chat::{ModelService, TokenPrice};
use windlass_core::{LIMIT_CEILINGS, Limits, ProcessLimits, ServerLimits};
use windlass_syntax::nearest;
use windlass_tools::{CredentialVault, Destinations};
use windlass_value::Duration;

use crate::agent_options::AgentRunOptions;
use crate::args::GlobalArgs;
use crate::failure::{CliFailure, codes};
use crate::mocks::ActiveMocks;

/// The sections a settings file may have.
const SECTIONS: [&str; 12] = [
    "activities",
    "auth",
    "credentials",
    "dev",
    "limits",
    "mcp",
    "model",
    "models",
    "prices",
    "retention",
    "server",
    "settings",
];

#[derive(Default)]
pub(crate) struct CliSettings {
    /// Limits of definitions and runs, stored with each plan.
    pub limits: Limits,
    /// Limits of this process.
    pub process_limits: ProcessLimits,
    /// The health of the servers that tools and models call, observed by all of them together.
    pub destinations: Destinations,
    /// Activities that definitions may call by name.
    pub activities: Vec<ConfiguredActivity>,
    /// Credentials by alias.
    pub auth: AuthSettings,
    /// The file with the key of stored credentials, instead of the one in the store.
    pub credential_key_file: Option<PathBuf>,
    /// The credentials of the store.
    pub vault: CredentialVault,
    /// MCP servers that offer tools to agents.
    pub mcp: Vec<McpSettings>,
    pub model: ModelSettings,
    /// Model services for agents.
    pub models: Vec<ModelService>,
    /// Prices by model name.
    pub prices: BTreeMap<String, TokenPrice>,
    /// The values that `appsetting` reads.
    pub app_settings: BTreeMap<String, String>,
    /// Which ended runs are removed.
    pub retention: RetentionSettings,
    /// The server section.
    pub server: ServerSettings,
    /// Command-line options for agents.
    pub agent_options: AgentRunOptions,
    /// The mock file of `[dev]`, which `windlass dev` uses.
    pub dev_mocks: Option<PathBuf>,
    /// The mock file in use.
    pub mocks: Option<ActiveMocks>,
    /// Absolute path of the store, beside which the settings file is looked for by default. Agents have no access to
    /// the store.
    pub store: Option<PathBuf>,
    pub file: Option<PathBuf>,
}

impl CliSettings {
    pub(crate) fn load(global: &GlobalArgs) -> Result<CliSettings, CliFailure> {
        let mut limits = default_limits()?;
        let store = crate::stores::directory(global);
        let file = global.config.clone().unwrap_or_else(|| default_settings_path(&store));
        let absolute = |path: PathBuf| std::path::absolute(path).ok();
        let mut settings = CliSettings { store: absolute(store), file: absolute(file), ..CliSettings::default() };
        if let Some((path, text)) = read_settings_file(global)? {
            read_file(&path, &text, &mut limits, &mut settings)?;
        }
        read_environment(&mut limits)?;
        check_limits(&limits)?;
        (settings.limits, settings.process_limits) = (extract_limits(&limits)?, extract_limits(&limits)?);
        settings.destinations = Destinations::from_limits(&settings.process_limits);
        settings.vault = crate::credentials::vault(&settings);
        Ok(settings)
    }
}

#[cfg(test)]
impl CliSettings {
    /// Reads the settings from text, without the environment.
    pub(crate) fn from_text(path: &Path, text: &str) -> Result<CliSettings, CliFailure> {
        let mut settings = CliSettings::default();
        let mut limits = default_limits()?;
        read_file(path, text, &mut limits, &mut settings)?;
        (settings.limits, settings.process_limits) = (extract_limits(&limits)?, extract_limits(&limits)?);
        settings.destinations = Destinations::from_limits(&settings.process_limits);
        Ok(settings)
    }
}

/// Reads the settings file. A file named on the command line must exist; the one beside the store need not.
fn read_settings_file(global: &GlobalArgs) -> Result<Option<(PathBuf, String)>, CliFailure> {
    let named = global.config.clone();
    let path = named.clone().unwrap_or_else(|| default_settings_path(&crate::stores::directory(global)));
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliFailure::setting(format!("could not read the settings: {error}"))
            .code(codes::UNREADABLE_SETTINGS)
            .location(path.display().to_string())),
    }
}

fn default_settings_path(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new("")).join("windlass.toml")
}

fn read_file(
    path: &Path,
    text: &str,
    limits: &mut serde_json::Value,
    settings: &mut CliSettings,
) -> Result<(), CliFailure> {
    let location = |line: usize| format!("{}:{line}", path.display());
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| lines::line_at(text, span.start));
        CliFailure::setting(format!("the settings are not valid TOML: {}", error.message()))
            .code(codes::SETTINGS_SYNTAX)
            .location(location(line))
    })?;
    for (section, content) in table {
        read_section(path, &section, content.clone(), limits, settings).map_err(|failure| {
            let is_wrong = |part: toml::Value| {
                let read = read_section(path, &section, part, &mut limits.clone(), &mut CliSettings::default());
                read.is_err_and(|other| other.message() == failure.message())
            };
            let key_path = lines::path_to_error(&content, &is_wrong);
            let full_path = std::iter::once(section.as_str()).chain(key_path.iter().map(String::as_str));
            failure.location(location(lines::line_of(text, full_path)))
        })?;
    }
    Ok(())
}

fn read_section(
    path: &Path,
    section: &str,
    content: toml::Value,
    limits: &mut serde_json::Value,
    settings: &mut CliSettings,
) -> Result<(), CliFailure> {
    match (section, content) {
        ("limits", toml::Value::Table(entries)) => read_limits(&entries, limits),
        ("activities", entries) => services::parse_activities(entries, path).map(|read| settings.activities = read),
        ("auth", entries) => services::parse_auth(entries).map(|read| settings.auth = read),
        ("credentials", entries) => {
            services::parse_credentials(entries, path).map(|read| settings.credential_key_file = read)
        }
        ("dev", entries) => services::parse_dev(entries, path).map(|read| settings.dev_mocks = read),
        ("mcp", entries) => mcp::mcp(entries, path).map(|read| settings.mcp = read),
        ("model", entries) => services::parse_model(entries).map(|read| settings.model = read),
        ("models", entries) => models::models(entries).map(|read| settings.models = read),
        ("prices", entries) => models::prices(entries).map(|read| settings.prices = read),
        ("retention", entries) => retention::parse_retention(entries).map(|read| settings.retention = read),
        ("server", entries) => server::parse_server(entries, path).map(|read| settings.server = read),
        ("settings", entries) => services::parse_app_settings(entries).map(|read| settings.app_settings = read),
        _ => Err(unknown_name("section", section, SECTIONS)),
    }
}

/// A limit: its name, its default and its meaning.
type LimitDescription = (&'static str, String, &'static str);

/// The limits that `[limits]` may name.
fn known_limits() -> Vec<LimitDescription> {
    let mut known = Limits::default().describe();
    known.extend(ProcessLimits::default().describe());
    known
}

/// Returns the defaults of all limits in one object, by name.
fn default_limits() -> Result<serde_json::Value, CliFailure> {
    let mut all = as_json(&Limits::default())?;
    if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), as_json(&ProcessLimits::default())?) {
        all.extend(more);
    }
    Ok(all)
}

/// Extracts the limits of one type from an object of all limits.
fn extract_limits<T: Default + Serialize + DeserializeOwned>(all: &serde_json::Value) -> Result<T, CliFailure> {
    let mut own = as_json(&T::default())?;
    for (name, value) in own.as_object_mut().into_iter().flatten() {
        *value = all[name].clone();
    }
    serde_json::from_value(own).map_err(|error| CliFailure::setting(error.to_string()))
}

fn as_json(limits: &impl Serialize) -> Result<serde_json::Value, CliFailure> {
    serde_json::to_value(limits).map_err(|error| CliFailure::setting(error.to_string()))
}

fn read_limits(entries: &toml::Table, limits: &mut serde_json::Value) -> Result<(), CliFailure> {
    let known = known_limits();
    for (name, value) in entries {
        set_limit(limits, &known, name, limit_value(name, value)?)?;
    }
    Ok(())
}

fn limit_value<'a>(name: &str, value: &'a toml::Value) -> Result<LimitValue<'a>, CliFailure> {
    match value {
        toml::Value::Integer(number) => Ok(LimitValue::Number(*number)),
        toml::Value::String(text) => Ok(LimitValue::Text(text)),
        other => Err(CliFailure::setting(format!(
            "the limit `{name}` must be a whole number or a string, not {}",
            other.type_str()
        ))),
    }
}

/// Reads limits from the environment, such as `WINDLASS_MAX_LOOP_ITERATIONS=5000`.
fn read_environment(limits: &mut serde_json::Value) -> Result<(), CliFailure> {
    let known = known_limits();
    for (name, _, _) in &known {
        let variable = format!("WINDLASS_{}", name.to_uppercase());
        let Some(value) = std::env::var_os(&variable) else { continue };
        let text = value.to_string_lossy();
        let given = text.parse().map_or(LimitValue::Text(&text), LimitValue::Number);
        set_limit(limits, &known, name, given).map_err(|failure| failure.location(variable))?;
    }
    let mut variables = std::env::vars_os().filter_map(|(variable, _)| variable.into_string().ok());
    variables.try_for_each(|variable| check_variable(&variable, &known))
}

/// Rejects a variable that is meant as a limit: an ignored limit would not protect anything. Variables that are named
/// like no limit are not ours to judge.
fn check_variable(variable: &str, known: &[LimitDescription]) -> Result<(), CliFailure> {
    let Some(name) = variable.strip_prefix("WINDLASS_").map(str::to_lowercase) else { return Ok(()) };
    let names = known.iter().map(|(name, _, _)| *name);
    if names.clone().any(|known| known == name) {
        return Ok(());
    }
    let is_server_limit = ServerLimits::default().describe().iter().any(|(known, _, _)| *known == name);
    if is_server_limit {
        return Err(CliFailure::setting(format!("the limit `{name}` of a server is not read from the environment"))
            .code(codes::UNKNOWN_SETTING)
            .location(variable.to_owned())
            .hint("set it in windlass.toml, section [server]"));
    }
    match ["max_", "default_"].iter().any(|begin| name.starts_with(begin)) || nearest(&name, names.clone()).is_some() {
        true => Err(unknown_name("limit", &name, names).location(variable.to_owned())),
        false => Ok(()),
    }
}

/// The default of each loop limit and the maximum that a loop may set. A maximum below the built-in default is no
/// mistake: it then applies to both.
const LOOP_LIMIT_PAIRS: [(&str, &str); 3] = [
    ("default_loop_iterations", "max_loop_iterations"),
    ("default_loop_time", "max_loop_time"),
    ("default_loop_concurrency", "max_loop_concurrency"),
];

/// Rejects limits that contradict each other or would let nothing run.
fn check_limits(limits: &serde_json::Value) -> Result<(), CliFailure> {
    let defaults = default_limits()?;
    for (name, max_name) in LOOP_LIMIT_PAIRS {
        let (given, max) = (limits[name].as_u64().unwrap_or(0), limits[max_name].as_u64().unwrap_or(0));
        if given == 0 {
            let message = format!("the limit `{name}` cannot be 0: no loop could start an iteration");
            return Err(CliFailure::setting(message)
                .code(codes::LIMITS)
                .hint(format!("give 1 up to `{max_name}`, or leave it out")));
        }
        if given > max && limits[name] != defaults[name] {
            return Err(CliFailure::setting(format!("the limit `{name}` is larger than `{max_name}`"))
                .code(codes::LIMITS)
                .hint(format!("lower it, or raise `{max_name}`; `windlass limits` shows them")));
        }
    }
    for (name, ceiling) in LIMIT_CEILINGS {
        if limits[name].as_u64().is_some_and(|given| given > ceiling) {
            let message =
                format!("the limit `{name}` cannot be above {ceiling}: values that nest deeper cannot be decoded");
            return Err(CliFailure::setting(message)
                .code(codes::LIMITS)
                .hint(format!("give a number up to {ceiling}, or leave it out")));
        }
    }
    Ok(())
}

enum LimitValue<'a> {
    Number(i64),
    Text(&'a str),
}

fn set_limit(
    limits: &mut serde_json::Value,
    known: &[LimitDescription],
    name: &str,
    given: LimitValue<'_>,
) -> Result<(), CliFailure> {
    let Some((name, value, _)) = known.iter().find(|(known, _, _)| *known == name) else {
        return Err(unknown_name("limit", name, known.iter().map(|(name, _, _)| *name)));
    };
    let is_count = value.parse::<u64>().is_ok();
    limits[*name] = match (is_count, given) {
        (true, LimitValue::Number(number)) if number >= 0 => number.into(),
        (false, LimitValue::Number(secs)) if secs >= 0 => Duration::from_secs(secs as u64).0.into(),
        (false, LimitValue::Text(text)) if Duration::parse_iso(text).is_some() => {
            Duration::parse_iso(text).unwrap_or_default().0.into()
        }
        (true, _) => return Err(CliFailure::setting(format!("the limit `{name}` must be a whole number, 0 or more"))),
        (false, _) => {
            let message = format!("the limit `{name}` must be a duration");
            return Err(CliFailure::setting(message).hint("such as \"PT1H30M\", or a number of seconds"));
        }
    };
    Ok(())
}

fn unknown_name<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> CliFailure {
    let failure = CliFailure::setting(format!("there is no {what} `{name}`")).code(codes::UNKNOWN_SETTING);
    match nearest(name, known.clone()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if what == "limit" => failure.hint("`windlass limits` shows all of them"),
        None => failure.hint(format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_limits(text: &str) -> Result<Limits, String> {
        let mut limits = default_limits().map_err(|failure| format!("{failure:?}"))?;
        read_file(Path::new("windlass.toml"), text, &mut limits, &mut CliSettings::default())
            .map_err(|failure| format!("{failure:?}"))?;
        check_limits(&limits).map_err(|failure| format!("{failure:?}"))?;
        extract_limits(&limits).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn counts_and_spans_are_read() {
        let limits = parse_limits("[limits]\nmax_loop_iterations = 7\nmax_loop_time = \"PT2H\"\ncancel_grace = 3\n");
        let limits = limits.expect("valid");
        assert_eq!((limits.max_loop_iterations, limits.max_loop_time), (7, Duration::from_secs(7_200)));
        assert_eq!(limits.cancel_grace, Duration::from_secs(3));
    }

    #[test]
    fn defaults_lie_between_one_and_their_maximum() {
        assert!(parse_limits("[limits]\ndefault_loop_iterations = 0\n").expect_err("none").contains("cannot be 0"));
        assert!(
            parse_limits("[limits]\ndefault_loop_iterations = 1001\n")
                .expect_err("many")
                .contains("max_loop_iterations")
        );
        assert!(parse_limits("[limits]\ndefault_loop_time = \"P2D\"\n").expect_err("long").contains("max_loop_time"));
        assert!(parse_limits("[limits]\ndefault_loop_iterations = 2000\nmax_loop_iterations = 2000\n").is_ok());
    }

    #[test]
    fn limits_have_ceilings() {
        for (name, ceiling) in LIMIT_CEILINGS {
            assert!(parse_limits(&format!("[limits]\n{name} = {ceiling}\n")).is_ok(), "{name}");
            let problem = parse_limits(&format!("[limits]\n{name} = {}\n", ceiling + 1)).expect_err("too high");
            assert!(problem.contains("cannot be above"), "{problem}");
        }
        let problem = parse_limits("[limits]\ndefault_loop_concurrency = 2000\n").expect_err("above the maximum");
        assert!(problem.contains("max_loop_concurrency"), "{problem}");
    }

    #[test]
    fn unknown_names_are_rejected_with_the_nearest_name() {
        let wrong = parse_limits("[limits]\nmax_loop_iteration = 7\n").expect_err("unknown");
        assert!(wrong.contains("max_loop_iterations"), "{wrong}");
        assert!(parse_limits("[limit]\n").expect_err("unknown").contains("limits"));
        assert!(parse_limits("[limits]\nmax_loop_iterations = \"many\"\n").is_err());
        assert!(parse_limits("[limits]\nmax_loop_iterations = -1\n").is_err());
        assert!(parse_limits("[limits\n").expect_err("not TOML").contains("windlass.toml:1"));
    }

    fn parse_activities(text: &str) -> Result<Vec<ConfiguredActivity>, String> {
        let mut settings = CliSettings::default();
        let read = read_file(Path::new("here/windlass.toml"), text, &mut serde_json::Value::Null, &mut settings);
        read.map(|()| settings.activities).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn activities_are_services_or_definitions() {
        let read = parse_activities(
            "[activities.search]\nurl = \"http://127.0.0.1:1/s\"\nheaders = { a = \"b\", c = { env = \"D\" } }\n\
             [activities.child]\nworkflow = \"child.json\"\n",
        );
        let read = read.expect("valid");
        assert_eq!(read[0].target, ConfiguredTarget::Workflow("here/child.json".into()), "relative to the settings");
        let ConfiguredTarget::Endpoint { method, headers, .. } = &read[1].target else { panic!("a service") };
        assert_eq!(method, "POST");
        assert_eq!(headers[1], ("c".to_owned(), SecretSetting::Environment { env: "D".to_owned() }));
    }

    #[test]
    fn invalid_activities_are_rejected() {
        for (text, why) in [
            ("[activities.a]\n", "has neither `url` nor `workflow`"),
            ("[activities.http]\nurl = \"http://x\"\n", "cannot be called"),
            ("[activities.a]\nurl = \"x\"\n", "is not an HTTP URL"),
            ("[activities.a]\nurl = \"http://x\"\nworkflow = \"y\"\n", "keep one"),
            ("[activities.a]\nurl = \"http://x\"\nworker = true\n", "runs on workers"),
            ("[activities.a]\nadress = \"http://x\"\n", "unknown field"),
            ("[activities.a]\nurl = \"http://x\"\ntimeout = \"soon\"\n", "is not a duration"),
            ("[limits]\n\n[activities.a]\n", "windlass.toml:3"),
            ("activities = 3\n", "must be a section"),
        ] {
            let wrong = parse_activities(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in [
            ("[server]\nhosts = []\nbnid = \"x\"\nrate_per_second = 3\n", 3),
            ("[server]\nbind = \"127.0.0.1:1\"\nrate_per_second = 0\n", 3),
            ("[server]\nrate_per_second = 1\n\n[server.outbound]\nallow = []\ndenny = []\n", 6),
            ("[server]\nrate_per_second = 1\nagents = { sandbox = true, alow = [] }\n", 3),
            ("[limits]\nmax_loop_iterations = 7\nmax_loop_iteration = 7\n", 3),
            ("[server]\nrate_per_second = 1\n[servr]\n", 3),
            ("[limits]\n\n[activities.a]\n", 3),
            ("[limits]\n\n[activities.a]\nmethod = \"GET\"\n", 3),
        ] {
            let wrong = parse_limits(text).expect_err(text);
            assert!(wrong.contains(&format!("windlass.toml:{line}\"")), "{text}: {wrong}");
        }
    }

    fn parse_mcp(text: &str) -> Result<Vec<McpSettings>, String> {
        let mut settings = CliSettings::default();
        let read = read_file(Path::new("here/windlass.toml"), text, &mut serde_json::Value::Null, &mut settings);
        read.map(|()| settings.mcp).map_err(|failure| format!("{failure:?}"))
    }

    /// Every process limit can be set in the file.
    #[test]
    fn process_limits_are_settings() {
        for (name, value, _) in ProcessLimits::default().describe() {
            let given = if value.parse::<u64>().is_ok() { "7".to_owned() } else { "\"PT7S\"".to_owned() };
            let text = format!("[limits]\n{name} = {given}\n");
            let limits = CliSettings::from_text(Path::new("windlass.toml"), &text).expect(name).process_limits;
            let changed = limits.describe().into_iter().find(|(known, _, _)| *known == name).expect("it is there");
            assert_eq!(changed.1, given.trim_matches('"'), "{name}");
        }
    }

    #[test]
    fn mcp_servers_are_programs_or_services() {
        let read = parse_mcp(
            "[mcp.git]\ncommand = \"git-mcp\"\nargs = [\"-x\"]\nenv = { A = \"b\" }\nfolder = \"tools\"\ntimeout = \"PT5S\"\n\
             [mcp.web]\nurl = \"https://x/mcp\"\nheaders = { a = \"b\" }\noptional = true\n",
        );
        let read = read.expect("valid");
        let path = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
        let git = read[0].to_server(path).expect("nothing is missing");
        let windlass_agents::McpTransport::Program { command, env, folder, .. } = &git.transport else {
            panic!("a program")
        };
        assert_eq!((command.as_str(), folder.as_deref()), ("git-mcp", Some(Path::new("here/tools"))));
        let env: Vec<_> = env.iter().map(|(name, value)| format!("{name}={}", value.reveal())).collect();
        assert_eq!((env.join(" "), git.timeout), ("PATH=/bin A=b".to_owned(), Duration::from_secs(5)));
        let web = read[1].to_server(path).expect("nothing is missing");
        assert!(web.optional && matches!(web.transport, windlass_agents::McpTransport::Url { .. }));
        let read = parse_mcp("[mcp.web]\nurl = \"https://x\"\nheaders = { a = { env = \"WINDLASS_NOT_SET\" } }\n");
        let wrong = read.expect("valid")[0].to_server(path).expect_err("not set");
        assert!(format!("{wrong:?}").contains("WINDLASS_NOT_SET"));
    }

    #[test]
    fn invalid_mcp_servers_are_rejected() {
        for (text, why) in [
            ("[mcp.a]\n", "has neither `command` nor `url`"),
            ("[mcp.a__b]\ncommand = \"x\"\n", "cannot be called"),
            ("[mcp.a]\nurl = \"x\"\n", "is not an HTTP URL"),
            ("[mcp.a]\nurl = \"http://x\"\ncommand = \"y\"\n", "keep one"),
            ("[mcp.a]\nurl = \"http://x\"\nargs = [\"y\"]\n", "have no effect"),
            ("[mcp.a]\ncommand = \"x\"\nheaders = { a = \"b\" }\n", "have no effect"),
            ("[mcp.a]\ncomand = \"x\"\n", "unknown field"),
            ("[mcp.a]\ncommand = \"x\"\ntimeout = \"soon\"\n", "is not a duration"),
            ("mcp = 3\n", "must be a section"),
        ] {
            let wrong = parse_mcp(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
