//! Servers that offer tools to agents: `[mcp.NAME]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_agents::{McpServer, Reach, is_server_name};
use windlass_tools::basic_environment;
use windlass_value::Duration;

use super::SecretSetting;
use super::services::{http_address, read, span, wrong_kind};
use crate::failure::Failure;

/// A server as the settings have it: what is in the environment is read when it is needed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mcp {
    pub name: String,
    place: Place,
    timeout: Option<Duration>,
    optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Program { command: String, args: Vec<String>, env: BTreeMap<String, SecretSetting>, folder: Option<PathBuf> },
    Url { url: String, headers: BTreeMap<String, SecretSetting> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, SecretSetting>,
    folder: Option<PathBuf>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretSetting>,
    timeout: Option<String>,
    #[serde(default)]
    optional: bool,
}

pub(crate) fn mcp(table: toml::Value, file: &Path) -> Result<Vec<Mcp>, Failure> {
    match table {
        toml::Value::Table(table) => table.into_iter().map(|(name, entry)| server(name, entry, file)).collect(),
        other => Err(wrong_kind("mcp", &other)),
    }
}

fn server(name: String, entry: toml::Value, file: &Path) -> Result<Mcp, Failure> {
    if !is_server_name(&name) {
        let message = format!("an MCP server cannot be called `{name}`");
        let hint = "its tools are called NAME__tool: letters, digits, `-` and single `_`, 32 at most";
        return Err(Failure::usage(message).hint(hint));
    }
    let entry: Entry = read(entry, &format!("mcp.{name}"))?;
    let what = format!("MCP server `{name}`");
    let misplaced = |fields: &str, way: &str| {
        Failure::usage(format!("the {what} is reached by `{way}`: {fields} mean nothing")).hint("remove them")
    };
    let place = match (entry.command, entry.url) {
        (Some(_), None) if !entry.headers.is_empty() => return Err(misplaced("`headers`", "command")),
        (Some(command), None) => {
            let beside = |folder: PathBuf| file.parent().unwrap_or(Path::new("")).join(folder);
            Place::Program { command, args: entry.args, env: entry.env, folder: entry.folder.map(beside) }
        }
        (None, Some(_)) if !entry.args.is_empty() || !entry.env.is_empty() || entry.folder.is_some() => {
            return Err(misplaced("`args`, `env`, `folder`", "url"));
        }
        (None, Some(url)) => Place::Url { url: http_address(url, &what)?, headers: entry.headers },
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!("the {what} has `command` and `url`")).hint("keep one"));
        }
        (None, None) => {
            let hint = "give `command` for a program that is started, or `url` for a service";
            return Err(Failure::usage(format!("the {what} is nowhere")).hint(hint));
        }
    };
    let timeout = entry.timeout.map(|text| span(&text, &what)).transpose()?;
    Ok(Mcp { name, place, timeout, optional: entry.optional })
}

impl Mcp {
    /// What it is given that is secret, as far as it is there.
    pub(crate) fn secrets(&self) -> Vec<windlass_tools::Secret> {
        let entries = match &self.place {
            Place::Program { env, .. } => env,
            Place::Url { headers, .. } => headers,
        };
        entries.iter().filter_map(|(name, value)| value.to_secret(name).ok()).collect()
    }

    /// Where it is, if it is a service.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.place {
            Place::Url { url, .. } => Some(url),
            Place::Program { .. } => None,
        }
    }

    /// With what the environment holds. A program gets PATH, HOME and LANG of it, and what its entry names.
    pub(crate) fn server(&self, variable: impl Fn(&str) -> Option<String>) -> Result<McpServer, Failure> {
        let place = |failure: Failure| failure.place(format!("[mcp.{}]", self.name));
        let all = |entries: &BTreeMap<String, SecretSetting>| {
            let read = entries.iter().map(|(name, value)| Ok((name.clone(), value.to_secret(name)?)));
            read.collect::<Result<Vec<_>, Failure>>().map_err(place)
        };
        let reach = match &self.place {
            Place::Program { command, args, env, folder } => {
                let basic = basic_environment(variable).into_iter();
                let basic = basic.map(|(name, value)| (name, windlass_tools::Secret::plain(value)));
                let env = basic.chain(all(env)?).collect();
                Reach::Program { command: command.clone(), args: args.clone(), env, folder: folder.clone() }
            }
            Place::Url { url, headers } => Reach::Url { url: url.clone(), headers: all(headers)? },
        };
        let server = McpServer::new(&self.name, reach);
        let timeout = self.timeout.unwrap_or(server.timeout);
        Ok(McpServer { timeout, optional: self.optional, ..server })
    }
}
