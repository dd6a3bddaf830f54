//! Settings of `windlass serve` and what it permits definitions: `[server]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use windlass_core::ServerLimits;
use windlass_tools::outbound::{AddressRange, OutboundRule};
use windlass_value::Duration;

use super::services::wrong_kind;
use super::unknown_name;
use crate::failure::CliFailure;

/// The section that lists the addresses definitions may reach, for hints.
pub(crate) const OUTBOUND: &str = "server.outbound";

const KEYS: [&str; 15] = [
    "agents",
    "bind",
    "max_connections",
    "max_connections_per_address",
    "drain",
    "hosts",
    "labels",
    "lease",
    "outbound",
    "proxies",
    "rate_per_second",
    "scrub_every",
    "scrub_percent",
    "tools",
    "workdir",
];
const OUTBOUND_KEYS: [&str; 2] = ["allow", "deny"];
const AGENTS_KEYS: [&str; 3] = ["allow", "deny", "sandbox"];

/// The `[server]` section. An option left out is set by the command line, else by the server's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerSettings {
    pub bind: Option<SocketAddr>,
    /// Host names under which the server is reached.
    pub hosts: Vec<String>,
    /// Reverse proxies whose forwarding headers are trusted.
    pub proxies: Vec<AddressRange>,
    /// Maximum number of concurrent connections.
    pub max_connections: Option<u32>,
    /// Maximum number of concurrent connections from one address.
    pub max_connections_per_address: Option<u32>,
    /// Tools that the server runs itself in addition to the safe ones.
    pub tools: Vec<String>,
    pub outbound: OutboundRules,
    /// Work directory of agents and base of `contextFiles`.
    pub workdir: Option<PathBuf>,
    /// Rate limit: requests per second and token.
    pub rate_per_second: Option<u32>,
    /// Labels of the server's built-in worker, for jobs that require them.
    pub labels: BTreeMap<String, String>,
    /// Time after which the lease of a silent remote worker expires.
    pub lease: Option<Duration>,
    /// Time that a shutdown waits for running work.
    pub drain: Option<Duration>,
    /// Time between two searches for damage in the store; zero for none.
    pub scrub_every: Option<Duration>,
    /// Share of time that a search for damage works.
    pub scrub_percent: Option<u32>,
    pub agents: AgentRules,
    pub limits: ServerLimits,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OutboundRules {
    pub allow: Vec<OutboundRule>,
    pub deny: Vec<OutboundRule>,
}

/// Permissions of agents: a server has no terminal at which to ask for approval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentRules {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    /// Allows the file tools inside the work directory without naming them.
    pub sandbox: bool,
}

pub(crate) fn parse_server(table: toml::Value, file: &Path) -> Result<ServerSettings, CliFailure> {
    let mut server = ServerSettings::default();
    let (mut limits, known) = (super::as_json(&server.limits)?, server.limits.describe());
    for (key, value) in section_entries(table, "server")? {
        match key.as_str() {
            "bind" => server.bind = Some(parse_bind(&text(value, &key)?)?),
            "hosts" => server.hosts = texts(value, &key)?,
            "tools" => server.tools = texts(value, &key)?.into_iter().map(parse_tool).collect::<Result<_, _>>()?,
            "outbound" => server.outbound = parse_outbound(value)?,
            "workdir" => server.workdir = Some(parse_folder(&text(value, &key)?, file)?),
            "proxies" => {
                server.proxies = texts(value, &key)?.iter().map(|text| parse_proxy(text)).collect::<Result<_, _>>()?
            }
            "rate_per_second" => {
                server.rate_per_second = Some(parse_count(&value, &key, "the number of requests per second and token")?)
            }
            "max_connections" => {
                server.max_connections =
                    Some(parse_count(&value, &key, "the maximum number of concurrent connections")?)
            }
            "max_connections_per_address" => {
                server.max_connections_per_address =
                    Some(parse_count(&value, &key, "the maximum number of concurrent connections of one address")?);
            }
            "labels" => server.labels = parse_labels(value)?,
            "lease" => server.lease = Some(parse_duration(&value, &key)?),
            "drain" => server.drain = Some(parse_duration(&value, &key)?),
            "scrub_every" => server.scrub_every = Some(parse_interval(&value, &key)?),
            "scrub_percent" => server.scrub_percent = Some(parse_percent(&value, &key)?),
            "agents" => server.agents = parse_agents(value)?,
            key if known.iter().any(|(name, _, _)| *name == key) => {
                super::set_limit(&mut limits, &known, key, super::limit_value(key, &value)?)?;
                if limits[key] == 0 {
                    let hint = "give 1 or more, or leave it out";
                    return Err(CliFailure::setting(format!("`{key}` under [server] cannot be 0")).hint(hint));
                }
            }
            _ => {
                let names = KEYS.into_iter().chain(known.iter().map(|(name, _, _)| *name));
                return Err(unknown_name("setting under [server]", &key, names));
            }
        }
    }
    server.limits = super::extract_limits(&limits)?;
    Ok(server)
}

fn section_entries(value: toml::Value, section: &str) -> Result<toml::Table, CliFailure> {
    match value {
        toml::Value::Table(table) => Ok(table),
        other => Err(wrong_kind(section, &other)),
    }
}

fn text(value: toml::Value, key: &str) -> Result<String, CliFailure> {
    match value {
        toml::Value::String(text) => Ok(text),
        other => Err(CliFailure::setting(format!("`{key}` under [server] must be a string, not {}", other.type_str()))),
    }
}

fn texts(value: toml::Value, key: &str) -> Result<Vec<String>, CliFailure> {
    let wrong = |found: &str| {
        CliFailure::setting(format!("`{key}` under [server] must be a list of strings, not {found}"))
            .hint(format!("such as {key} = [\"…\"]"))
    };
    let toml::Value::Array(items) = value else { return Err(wrong(value.type_str())) };
    let each = items.into_iter().map(|item| match item {
        toml::Value::String(text) => Ok(text),
        other => Err(wrong(&format!("list with {}", other.type_str()))),
    });
    each.collect()
}

fn parse_bind(text: &str) -> Result<SocketAddr, CliFailure> {
    text.parse().map_err(|_| {
        CliFailure::setting(format!("`bind` under [server] is not an address and port: {text}"))
            .hint("such as \"127.0.0.1:7117\" or \"[::1]:7117\"; names under which it is reached go into `hosts`")
    })
}

fn parse_tool(name: String) -> Result<String, CliFailure> {
    match crate::tools::names().contains(&name.as_str()) {
        true => Ok(name),
        false => Err(unknown_name("tool", &name, crate::tools::names())),
    }
}

/// Resolves a path relative to the settings file. It need not exist when a definition is only checked.
fn parse_folder(text: &str, file: &Path) -> Result<PathBuf, CliFailure> {
    let path = file.parent().unwrap_or(Path::new("")).join(text);
    std::path::absolute(&path)
        .map_err(|error| CliFailure::setting(format!("`workdir` under [server] is not a folder: {text}: {error}")))
}

fn parse_count(value: &toml::Value, key: &str, meaning: &str) -> Result<u32, CliFailure> {
    let number = value.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| {
        CliFailure::setting(format!("`{key}` under [server] must be a whole number, 1 or more"))
            .hint(format!("it is {meaning}"))
    })
}

fn parse_proxy(text: &str) -> Result<AddressRange, CliFailure> {
    text.parse().map_err(|bad: windlass_tools::outbound::InvalidOutboundRule| {
        CliFailure::setting(format!("in `proxies` under [server]: {}", bad.message)).hint(bad.hint)
    })
}

fn parse_duration(value: &toml::Value, key: &str) -> Result<Duration, CliFailure> {
    let given = match value {
        toml::Value::Integer(secs) => u64::try_from(*secs).ok().map(Duration::from_secs),
        toml::Value::String(text) => Duration::parse_iso(text),
        _ => None,
    };
    given.filter(|span| *span > Duration::ZERO).ok_or_else(|| {
        CliFailure::setting(format!("`{key}` under [server] must be a duration above zero"))
            .hint("such as \"PT30S\", or a number of seconds")
    })
}

/// Parses the time between two repetitions, which is zero for none.
fn parse_interval(value: &toml::Value, key: &str) -> Result<Duration, CliFailure> {
    match value.as_integer() {
        Some(0) => Ok(Duration::ZERO),
        _ => parse_duration(value, key),
    }
}

fn parse_percent(value: &toml::Value, key: &str) -> Result<u32, CliFailure> {
    parse_count(value, key, "a share of time in percent").and_then(|percent| match percent {
        1..=100 => Ok(percent),
        _ => Err(CliFailure::setting(format!("`{key}` under [server] must be a whole number from 1 to 100"))),
    })
}

fn parse_labels(value: toml::Value) -> Result<BTreeMap<String, String>, CliFailure> {
    let table = section_entries(value, "server.labels")?;
    table.into_iter().map(|(name, value)| Ok((name, text(value, "labels")?))).collect()
}

fn parse_outbound(value: toml::Value) -> Result<OutboundRules, CliFailure> {
    let mut rules = OutboundRules::default();
    for (key, value) in section_entries(value, OUTBOUND)? {
        let read = |value| -> Result<Vec<OutboundRule>, CliFailure> {
            texts(value, &format!("outbound.{key}"))?.iter().map(|text| parse_rule(text)).collect()
        };
        match key.as_str() {
            "allow" => rules.allow = read(value)?,
            "deny" => rules.deny = read(value)?,
            _ => return Err(unknown_name("setting under [server.outbound]", &key, OUTBOUND_KEYS)),
        }
    }
    Ok(rules)
}

fn parse_rule(text: &str) -> Result<OutboundRule, CliFailure> {
    text.parse().map_err(|bad: windlass_tools::outbound::InvalidOutboundRule| {
        CliFailure::setting(format!("in [server.outbound]: {}", bad.message)).hint(bad.hint)
    })
}

fn parse_agents(value: toml::Value) -> Result<AgentRules, CliFailure> {
    let mut rules = AgentRules::default();
    for (key, value) in section_entries(value, "server.agents")? {
        match key.as_str() {
            "allow" => rules.allow = texts(value, "agents.allow")?,
            "deny" => rules.deny = texts(value, "agents.deny")?,
            "sandbox" => {
                let wrong = || CliFailure::setting("`agents.sandbox` under [server] must be true or false");
                rules.sandbox = value.as_bool().ok_or_else(wrong)?;
            }
            _ => return Err(unknown_name("setting under [server.agents]", &key, AGENTS_KEYS)),
        }
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_server(text: &str) -> Result<ServerSettings, String> {
        let whole: toml::Table = toml::from_str(text).expect("TOML");
        let section = whole.get("server").cloned().expect("the section");
        parse_server(section, Path::new("/here/windlass.toml")).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn every_server_setting_is_read() {
        let read = read_server(
            "[server]\nbind = \"[::1]:80\"\nhosts = [\"w.example\"]\ntools = [\"shell\"]\nworkdir = \"work\"\nrate_per_second = 5\n\
             proxies = [\"10.0.0.7\", \"fd00::/8\"]\nmax_connections = 9\nmax_connections_per_address = 3\n\
             labels = { zone = \"eu\" }\nlease = \"PT20S\"\ndrain = 3\n[server.outbound]\nallow = [\"10.1.0.0/16\"]\n\
             deny = [\"intranet.example:8443\"]\n[server.agents]\nallow = [\"http\"]\ndeny = [\"bash\"]\nsandbox = true\n",
        );
        let read = read.expect("valid");
        assert_eq!((read.bind, read.rate_per_second), (Some("[::1]:80".parse().expect("an address")), Some(5)));
        assert_eq!(read.workdir.as_deref(), Some(Path::new("/here/work")));
        assert_eq!((read.lease, read.drain), (Some(Duration::from_secs(20)), Some(Duration::from_secs(3))));
        assert_eq!((read.outbound.allow.len(), read.outbound.deny.len()), (1, 1));
        assert_eq!((read.proxies.len(), read.max_connections, read.max_connections_per_address), (2, Some(9), Some(3)));
        assert!(read.agents.sandbox && read.labels["zone"] == "eu" && read.tools == ["shell"]);
    }

    /// Every server limit can be set; the settings code need not change for a new one.
    #[test]
    fn every_limit_of_the_server_is_a_setting() {
        for (name, value, _) in ServerLimits::default().describe() {
            let given = if value.parse::<u64>().is_ok() { "7".to_owned() } else { "\"PT7S\"".to_owned() };
            let limits = read_server(&format!("[server]\n{name} = {given}\n")).expect(name).limits;
            let changed = limits.describe().into_iter().find(|(known, _, _)| *known == name).expect("it is there");
            assert_eq!(changed.1, given.trim_matches('"'), "{name}");
        }
    }

    #[test]
    fn invalid_settings_are_rejected_with_the_nearest_name() {
        for (text, why) in [
            ("[server]\nbnd = \"x\"\n", "did you mean `bind`"),
            ("[server]\nbind = \"localhost\"\n", "not an address and port"),
            ("[server]\nbind = 5\n", "must be a string"),
            ("[server]\ntools = [\"shel\"]\n", "did you mean `shell`"),
            ("[server]\ntools = \"shell\"\n", "list of strings"),
            ("[server]\nrate_per_second = 0\n", "1 or more"),
            ("[server]\nmax_body_byte = 5\n", "did you mean `max_body_bytes`"),
            ("[server]\nmax_body_bytes = 0\n", "cannot be 0"),
            ("[server]\nmax_response_time = \"soon\"\n", "duration"),
            ("[server]\nmax_connections = -1\n", "1 or more"),
            ("[server]\nproxies = [\"proxy.example\"]\n", "not an address or an address range"),
            ("[server]\nproxies = [\"10.1.2.3/8\"]\n", "did you mean `10.0.0.0/8`"),
            ("[server]\nlease = \"soon\"\n", "duration"),
            ("[server]\ndrain = 0\n", "duration"),
            ("[server.outbound]\nalow = []\n", "did you mean `allow`"),
            ("[server.outbound]\nallow = [\"10.1.2.3/16\"]\n", "did you mean `10.1.0.0/16`"),
            ("[server.outbound]\nallow = [\"http://x\"]\n", "omit the scheme"),
            ("[server.outbound]\ndeny = [1]\n", "list of strings"),
            ("[server.agents]\nsandbx = true\n", "did you mean `sandbox`"),
            ("[server]\nagents = 3\n", "must be a section"),
            ("server = 3\n", "must be a section"),
        ] {
            let wrong = read_server(text).expect_err(text);
            assert!(wrong.contains(why), "{text}: {wrong}");
        }
    }
}
