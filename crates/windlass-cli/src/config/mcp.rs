//! MCP servers that offer tools to agents: `[mcp.NAME]`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_agents::{McpServer, McpTransport, is_server_name};
use windlass_tools::basic_environment;
use windlass_value::Duration;

use super::SecretSetting;
use super::services::{check_http_url, parse_timeout, read, wrong_kind};
use crate::failure::CliFailure;

/// An MCP server as configured. Environment variables are read when the server is needed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct McpSettings {
    pub name: String,
    endpoint: McpEndpoint,
    timeout: Option<Duration>,
    optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum McpEndpoint {
    Program { command: String, args: Vec<String>, env: BTreeMap<String, SecretSetting>, folder: Option<PathBuf> },
    Url { url: String, headers: BTreeMap<String, SecretSetting> },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct McpEntry {
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

pub(crate) fn mcp(table: toml::Value, file: &Path) -> Result<Vec<McpSettings>, CliFailure> {
    match table {
        toml::Value::Table(table) => table.into_iter().map(|(name, entry)| server(name, entry, file)).collect(),
        other => Err(wrong_kind("mcp", &other)),
    }
}

fn server(name: String, entry: toml::Value, file: &Path) -> Result<McpSettings, CliFailure> {
    if !is_server_name(&name) {
        let message = format!("an MCP server cannot be called `{name}`");
        let hint = "its tools are called NAME__tool: letters, digits, `-` and single `_`, 32 at most";
        return Err(CliFailure::setting(message).hint(hint));
    }
    let entry: McpEntry = read(entry, &format!("mcp.{name}"))?;
    let what = format!("MCP server `{name}`");
    let misplaced = |fields: &str, way: &str| {
        CliFailure::setting(format!("the {what} is reached by `{way}`: {fields} have no effect")).hint("remove them")
    };
    let endpoint = match (entry.command, entry.url) {
        (Some(_), None) if !entry.headers.is_empty() => return Err(misplaced("`headers`", "command")),
        (Some(command), None) => {
            let relative_to_file = |folder: PathBuf| file.parent().unwrap_or(Path::new("")).join(folder);
            McpEndpoint::Program {
                command,
                args: entry.args,
                env: entry.env,
                folder: entry.folder.map(relative_to_file),
            }
        }
        (None, Some(_)) if !entry.args.is_empty() || !entry.env.is_empty() || entry.folder.is_some() => {
            return Err(misplaced("`args`, `env`, `folder`", "url"));
        }
        (None, Some(url)) => McpEndpoint::Url { url: check_http_url(url, &what)?, headers: entry.headers },
        (Some(_), Some(_)) => {
            return Err(CliFailure::setting(format!("the {what} has `command` and `url`")).hint("keep one"));
        }
        (None, None) => {
            let hint = "set `command` for a program to start, or `url` for a service";
            return Err(CliFailure::setting(format!("the {what} has neither `command` nor `url`")).hint(hint));
        }
    };
    let timeout = entry.timeout.map(|text| parse_timeout(&text, &what)).transpose()?;
    Ok(McpSettings { name, endpoint, timeout, optional: entry.optional })
}

impl McpSettings {
    /// Returns the secrets passed to the server, as far as they can be read.
    pub(crate) fn secrets(&self) -> Vec<windlass_tools::Secret> {
        let entries = match &self.endpoint {
            McpEndpoint::Program { env, .. } => env,
            McpEndpoint::Url { headers, .. } => headers,
        };
        entries.iter().filter_map(|(name, value)| value.to_secret(name).ok()).collect()
    }

    /// Returns the URL of a server that is reached over HTTP.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.endpoint {
            McpEndpoint::Url { url, .. } => Some(url),
            McpEndpoint::Program { .. } => None,
        }
    }

    /// Resolves the environment variables. A program gets PATH, HOME and LANG, and the variables that its entry names.
    pub(crate) fn to_server(&self, variable: impl Fn(&str) -> Option<String>) -> Result<McpServer, CliFailure> {
        let at_section = |failure: CliFailure| failure.location(format!("[mcp.{}]", self.name));
        let all = |entries: &BTreeMap<String, SecretSetting>| {
            let read = entries.iter().map(|(name, value)| Ok((name.clone(), value.to_secret(name)?)));
            read.collect::<Result<Vec<_>, CliFailure>>().map_err(at_section)
        };
        let reach = match &self.endpoint {
            McpEndpoint::Program { command, args, env, folder } => {
                let basic = basic_environment(variable).into_iter();
                let basic = basic.map(|(name, value)| (name, windlass_tools::Secret::plain(value)));
                let env = basic.chain(all(env)?).collect();
                McpTransport::Program { command: command.clone(), args: args.clone(), env, folder: folder.clone() }
            }
            McpEndpoint::Url { url, headers } => McpTransport::Url { url: url.clone(), headers: all(headers)? },
        };
        let server = McpServer::new(&self.name, reach);
        let timeout = self.timeout.unwrap_or(server.timeout);
        Ok(McpServer { timeout, optional: self.optional, ..server })
    }
}
