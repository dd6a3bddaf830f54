//! Settings: `windlass.toml`, then the environment.

mod lines;
mod mcp;
mod models;
mod server;
mod services;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use mcp::Mcp;
use serde::Serialize;
use serde::de::DeserializeOwned;
pub(crate) use server::{OUTBOUND, Server};
pub(crate) use services::{Activity, Auth, Model, SecretSetting, Target};
use windlass_agents::chat::{ModelService, Price};
use windlass_core::{Limits, ProcessLimits};
use windlass_syntax::nearest;
use windlass_value::Duration;

use crate::args::Global;
use crate::failure::Failure;
use crate::flow::Flow;

/// The sections a settings file may have.
const SECTIONS: [&str; 9] = ["activities", "auth", "limits", "mcp", "model", "models", "prices", "server", "settings"];

#[derive(Default)]
pub(crate) struct Settings {
    /// Of definitions and runs, stored with each plan.
    pub limits: Limits,
    /// Of what this process does.
    pub process_limits: ProcessLimits,
    /// What definitions may call by name.
    pub activities: Vec<Activity>,
    /// Credentials by alias.
    pub auth: Auth,
    /// Servers that offer tools to agents.
    pub mcp: Vec<Mcp>,
    pub model: Model,
    /// Services of models for agents.
    pub models: Vec<ModelService>,
    /// What models cost, by their names.
    pub prices: BTreeMap<String, Price>,
    /// What `appsetting` reads.
    pub app: BTreeMap<String, String>,
    /// How a server serves.
    pub server: Server,
    /// What the command line says of agents.
    pub flow: Flow,
    /// Where runs are kept and where settings are looked for, absolute: nothing for agents.
    pub store: Option<PathBuf>,
    pub file: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn load(global: &Global) -> Result<Settings, Failure> {
        let mut limits = usual_limits()?;
        let store = crate::stores::directory(global);
        let file = global.config.clone().unwrap_or_else(|| beside(&store));
        let absolute = |path: PathBuf| std::path::absolute(path).ok();
        let mut settings = Settings { store: absolute(store), file: absolute(file), ..Settings::default() };
        if let Some((path, text)) = settings_file(global)? {
            read_file(&path, &text, &mut limits, &mut settings)?;
        }
        read_environment(&mut limits)?;
        check(&limits)?;
        (settings.limits, settings.process_limits) = (taken(&limits)?, taken(&limits)?);
        Ok(settings)
    }
}

#[cfg(test)]
impl Settings {
    /// As a file of settings has them, without the environment.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let mut limits = usual_limits()?;
        read_file(path, text, &mut limits, &mut settings)?;
        (settings.limits, settings.process_limits) = (taken(&limits)?, taken(&limits)?);
        Ok(settings)
    }
}

/// A file that was named must be there; the one beside the store need not.
fn settings_file(global: &Global) -> Result<Option<(PathBuf, String)>, Failure> {
    let named = global.config.clone();
    let path = named.clone().unwrap_or_else(|| beside(&crate::stores::directory(global)));
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            Err(Failure::usage(format!("could not read the settings: {error}")).place(path.display().to_string()))
        }
    }
}

fn beside(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new("")).join("windlass.toml")
}

fn read_file(path: &Path, text: &str, limits: &mut serde_json::Value, settings: &mut Settings) -> Result<(), Failure> {
    let place = |line: usize| format!("{}:{line}", path.display());
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| lines::line_at(text, span.start));
        Failure::usage(format!("the settings are not valid TOML: {}", error.message())).place(place(line))
    })?;
    for (section, content) in table {
        read_section(path, &section, content.clone(), limits, settings).map_err(|failure| {
            let is_wrong = |part: toml::Value| {
                let read = read_section(path, &section, part, &mut limits.clone(), &mut Settings::default());
                read.is_err_and(|other| other.message() == failure.message())
            };
            let way = lines::way_to(&content, &is_wrong);
            let way = std::iter::once(section.as_str()).chain(way.iter().map(String::as_str));
            failure.place(place(lines::line_of(text, way)))
        })?;
    }
    Ok(())
}

fn read_section(
    path: &Path,
    section: &str,
    content: toml::Value,
    limits: &mut serde_json::Value,
    settings: &mut Settings,
) -> Result<(), Failure> {
    match (section, content) {
        ("limits", toml::Value::Table(entries)) => read_limits(&entries, limits),
        ("activities", entries) => services::activities(entries, path).map(|read| settings.activities = read),
        ("auth", entries) => services::auth(entries).map(|read| settings.auth = read),
        ("mcp", entries) => mcp::mcp(entries, path).map(|read| settings.mcp = read),
        ("model", entries) => services::model(entries).map(|read| settings.model = read),
        ("models", entries) => models::models(entries).map(|read| settings.models = read),
        ("prices", entries) => models::prices(entries).map(|read| settings.prices = read),
        ("server", entries) => server::server(entries, path).map(|read| settings.server = read),
        ("settings", entries) => services::app_settings(entries).map(|read| settings.app = read),
        _ => Err(unknown("section", section, SECTIONS)),
    }
}

/// A limit: its name, its default and what it means.
type Described = (&'static str, String, &'static str);

/// Those that `[limits]` may name.
fn known_limits() -> Vec<Described> {
    let mut known = Limits::default().describe();
    known.extend(ProcessLimits::default().describe());
    known
}

/// All of them in one object, by name.
fn usual_limits() -> Result<serde_json::Value, Failure> {
    let mut all = as_json(&Limits::default())?;
    if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), as_json(&ProcessLimits::default())?) {
        all.extend(more);
    }
    Ok(all)
}

/// The part of such an object that is of one kind.
fn taken<T: Default + Serialize + DeserializeOwned>(all: &serde_json::Value) -> Result<T, Failure> {
    let mut own = as_json(&T::default())?;
    for (name, value) in own.as_object_mut().into_iter().flatten() {
        *value = all[name].clone();
    }
    serde_json::from_value(own).map_err(|error| Failure::usage(error.to_string()))
}

fn as_json(limits: &impl Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(limits).map_err(|error| Failure::usage(error.to_string()))
}

fn read_limits(entries: &toml::Table, limits: &mut serde_json::Value) -> Result<(), Failure> {
    let known = known_limits();
    for (name, value) in entries {
        set(limits, &known, name, given(name, value)?)?;
    }
    Ok(())
}

fn given<'a>(name: &str, value: &'a toml::Value) -> Result<Given<'a>, Failure> {
    match value {
        toml::Value::Integer(number) => Ok(Given::Number(*number)),
        toml::Value::String(text) => Ok(Given::Text(text)),
        other => Err(Failure::usage(format!("the limit `{name}` cannot be of kind {}", other.type_str()))),
    }
}

/// `WINDLASS_LOOP_TURNS_MAX=5000` and the like.
fn read_environment(limits: &mut serde_json::Value) -> Result<(), Failure> {
    let known = known_limits();
    for (name, _, _) in &known {
        let variable = format!("WINDLASS_{}", name.to_uppercase());
        let Some(value) = std::env::var_os(&variable) else { continue };
        let text = value.to_string_lossy();
        let given = text.parse().map_or(Given::Text(&text), Given::Number);
        set(limits, &known, name, given).map_err(|failure| failure.place(variable))?;
    }
    Ok(())
}

/// What a loop gets that asks for nothing, and the most that one may ask for. A largest below the usual default is no
/// slip: it holds for both.
const LOOP_LIMIT_PAIRS: [(&str, &str); 2] = [("loop_turns_default", "loop_turns_max"), ("loop_time_default", "loop_time_max")];

/// Limits that contradict each other, or would let nothing run.
fn check(limits: &serde_json::Value) -> Result<(), Failure> {
    let usual = usual_limits()?;
    for (name, max_name) in LOOP_LIMIT_PAIRS {
        let (given, max) = (limits[name].as_u64().unwrap_or(0), limits[max_name].as_u64().unwrap_or(0));
        if given == 0 {
            let message = format!("the limit `{name}` cannot be 0: no loop could begin a turn");
            return Err(Failure::usage(message).hint(format!("give 1 up to `{max_name}`, or leave it out")));
        }
        if given > max && limits[name] != usual[name] {
            return Err(Failure::usage(format!("the limit `{name}` is larger than `{max_name}`"))
                .hint(format!("lower it, or raise `{max_name}`; `windlass limits` shows them")));
        }
    }
    Ok(())
}

enum Given<'a> {
    Number(i64),
    Text(&'a str),
}

fn set(limits: &mut serde_json::Value, known: &[Described], name: &str, given: Given<'_>) -> Result<(), Failure> {
    let Some((name, value, _)) = known.iter().find(|(known, _, _)| *known == name) else {
        return Err(unknown("limit", name, known.iter().map(|(name, _, _)| *name)));
    };
    let is_count = value.parse::<u64>().is_ok();
    limits[*name] = match (is_count, given) {
        (true, Given::Number(number)) if number >= 0 => number.into(),
        (false, Given::Number(secs)) if secs >= 0 => Duration::from_secs(secs as u64).0.into(),
        (false, Given::Text(text)) if Duration::parse_iso(text).is_some() => {
            Duration::parse_iso(text).unwrap_or_default().0.into()
        }
        (true, _) => return Err(Failure::usage(format!("the limit `{name}` must be a whole number, 0 or more"))),
        (false, _) => {
            let message = format!("the limit `{name}` must be a span of time");
            return Err(Failure::usage(message).hint("such as \"PT1H30M\", or a number of seconds"));
        }
    };
    Ok(())
}

fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Failure {
    let failure = Failure::usage(format!("there is no {what} `{name}`"));
    match nearest(name, known.clone()) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None if what == "limit" => failure.hint("`windlass limits` shows all of them"),
        None => failure.hint(format!("there are: {}", known.into_iter().collect::<Vec<_>>().join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits_of(text: &str) -> Result<Limits, String> {
        let mut limits = usual_limits().map_err(|failure| format!("{failure:?}"))?;
        read_file(Path::new("windlass.toml"), text, &mut limits, &mut Settings::default())
            .map_err(|failure| format!("{failure:?}"))?;
        check(&limits).map_err(|failure| format!("{failure:?}"))?;
        taken(&limits).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn counts_and_spans_are_read() {
        let limits = limits_of("[limits]\nloop_turns_max = 7\nloop_time_max = \"PT2H\"\ncancel_grace = 3\n");
        let limits = limits.expect("valid");
        assert_eq!((limits.max_loop_iterations, limits.max_loop_time), (7, Duration::from_secs(7_200)));
        assert_eq!(limits.cancel_grace, Duration::from_secs(3));
    }

    #[test]
    fn defaults_lie_between_one_and_their_maximum() {
        assert!(limits_of("[limits]\nloop_turns_default = 0\n").expect_err("none").contains("cannot be 0"));
        assert!(limits_of("[limits]\nloop_turns_default = 1001\n").expect_err("many").contains("loop_turns_max"));
        assert!(limits_of("[limits]\nloop_time_default = \"P2D\"\n").expect_err("long").contains("loop_time_max"));
        assert!(limits_of("[limits]\nloop_turns_default = 2000\nloop_turns_max = 2000\n").is_ok());
    }

    #[test]
    fn what_is_unknown_is_refused_with_the_nearest_name() {
        let wrong = limits_of("[limits]\nloop_turn_max = 7\n").expect_err("unknown");
        assert!(wrong.contains("loop_turns_max"), "{wrong}");
        assert!(limits_of("[limit]\n").expect_err("unknown").contains("limits"));
        assert!(limits_of("[limits]\nloop_turns_max = \"many\"\n").is_err());
        assert!(limits_of("[limits]\nloop_turns_max = -1\n").is_err());
        assert!(limits_of("[limits\n").expect_err("not TOML").contains("windlass.toml:1"));
    }

    fn activities_of(text: &str) -> Result<Vec<Activity>, String> {
        let mut settings = Settings::default();
        let read = read_file(Path::new("here/windlass.toml"), text, &mut serde_json::Value::Null, &mut settings);
        read.map(|()| settings.activities).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn activities_are_services_or_definitions() {
        let read = activities_of(
            "[activities.search]\nurl = \"http://127.0.0.1:1/s\"\nheaders = { a = \"b\", c = { env = \"D\" } }\n\
             [activities.child]\nworkflow = \"child.json\"\n",
        );
        let read = read.expect("valid");
        assert_eq!(read[0].target, Target::Workflow("here/child.json".into()), "relative to the settings");
        let Target::Endpoint { method, headers, .. } = &read[1].target else { panic!("a service") };
        assert_eq!(method, "POST");
        assert_eq!(headers[1], ("c".to_owned(), SecretSetting::Environment { env: "D".to_owned() }));
    }

    #[test]
    fn activities_that_cannot_be_are_refused() {
        for (text, why) in [
            ("[activities.a]\n", "goes nowhere"),
            ("[activities.http]\nurl = \"http://x\"\n", "cannot be called"),
            ("[activities.a]\nurl = \"x\"\n", "no address"),
            ("[activities.a]\nurl = \"http://x\"\nworkflow = \"y\"\n", "keep one"),
            ("[activities.a]\nurl = \"http://x\"\nworker = true\n", "done by workers"),
            ("[activities.a]\nadress = \"http://x\"\n", "unknown field"),
            ("[activities.a]\nurl = \"http://x\"\ntimeout = \"soon\"\n", "no span of time"),
            ("[limits]\n\n[activities.a]\n", "windlass.toml:3"),
            ("activities = 3\n", "must be a section"),
        ] {
            let wrong = activities_of(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_found_by_its_line() {
        for (text, line) in [
            ("[server]\nhosts = []\nbnid = \"x\"\nrate = 3\n", 3),
            ("[server]\nbind = \"127.0.0.1:1\"\nrate = 0\n", 3),
            ("[server]\nrate = 1\n\n[server.outbound]\nallow = []\ndenny = []\n", 6),
            ("[server]\nrate = 1\nagents = { sandbox = true, alow = [] }\n", 3),
            ("[limits]\nloop_turns_max = 7\nloop_turn_max = 7\n", 3),
            ("[server]\nrate = 1\n[servr]\n", 3),
            ("[limits]\n\n[activities.a]\n", 3),
            ("[limits]\n\n[activities.a]\nmethod = \"GET\"\n", 3),
        ] {
            let wrong = limits_of(text).expect_err(text);
            assert!(wrong.contains(&format!("windlass.toml:{line}\"")), "{text}: {wrong}");
        }
    }

    fn mcp_of(text: &str) -> Result<Vec<Mcp>, String> {
        let mut settings = Settings::default();
        let read = read_file(Path::new("here/windlass.toml"), text, &mut serde_json::Value::Null, &mut settings);
        read.map(|()| settings.mcp).map_err(|failure| format!("{failure:?}"))
    }

    /// Every limit of a process can be set, and reaches the tools.
    #[test]
    fn limits_of_the_process_are_settings() {
        for (name, value, _) in ProcessLimits::default().describe() {
            let given = if value.parse::<u64>().is_ok() { "7".to_owned() } else { "\"PT7S\"".to_owned() };
            let text = format!("[limits]\n{name} = {given}\n");
            let limits = Settings::of_text(Path::new("windlass.toml"), &text).expect(name).process_limits;
            let changed = limits.describe().into_iter().find(|(known, _, _)| *known == name).expect("it is there");
            assert_eq!(changed.1, given.trim_matches('"'), "{name}");
        }
    }

    #[test]
    fn servers_of_tools_are_programs_or_services() {
        let read = mcp_of(
            "[mcp.git]\ncommand = \"git-mcp\"\nargs = [\"-x\"]\nenv = { A = \"b\" }\nfolder = \"tools\"\ntimeout = \"PT5S\"\n\
             [mcp.web]\nurl = \"https://x/mcp\"\nheaders = { a = \"b\" }\noptional = true\n",
        );
        let read = read.expect("valid");
        let path = |name: &str| (name == "PATH").then(|| "/bin".to_owned());
        let git = read[0].server(path).expect("nothing is missing");
        let windlass_agents::Reach::Program { command, env, folder, .. } = &git.reach else { panic!("a program") };
        assert_eq!((command.as_str(), folder.as_deref()), ("git-mcp", Some(Path::new("here/tools"))));
        let env: Vec<_> = env.iter().map(|(name, value)| format!("{name}={}", value.reveal())).collect();
        assert_eq!((env.join(" "), git.timeout), ("PATH=/bin A=b".to_owned(), Duration::from_secs(5)));
        let web = read[1].server(path).expect("nothing is missing");
        assert!(web.optional && matches!(web.reach, windlass_agents::Reach::Url { .. }));
        let read = mcp_of("[mcp.web]\nurl = \"https://x\"\nheaders = { a = { env = \"WINDLASS_NOT_SET\" } }\n");
        let wrong = read.expect("valid")[0].server(path).expect_err("not set");
        assert!(format!("{wrong:?}").contains("WINDLASS_NOT_SET"));
    }

    #[test]
    fn servers_that_cannot_be_are_refused() {
        for (text, why) in [
            ("[mcp.a]\n", "is nowhere"),
            ("[mcp.a__b]\ncommand = \"x\"\n", "cannot be called"),
            ("[mcp.a]\nurl = \"x\"\n", "no address"),
            ("[mcp.a]\nurl = \"http://x\"\ncommand = \"y\"\n", "keep one"),
            ("[mcp.a]\nurl = \"http://x\"\nargs = [\"y\"]\n", "mean nothing"),
            ("[mcp.a]\ncommand = \"x\"\nheaders = { a = \"b\" }\n", "mean nothing"),
            ("[mcp.a]\ncomand = \"x\"\n", "unknown field"),
            ("[mcp.a]\ncommand = \"x\"\ntimeout = \"soon\"\n", "no span of time"),
            ("mcp = 3\n", "must be a section"),
        ] {
            let wrong = mcp_of(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
