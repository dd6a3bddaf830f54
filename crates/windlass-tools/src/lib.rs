//! The tools that tasks call, one file per tool.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod approval;
mod credentials;
mod destinations;
#[cfg(feature = "duckdb")]
mod duckdb;
mod endpoint;
mod http;
mod info;
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "shell", feature = "python")),
    allow(dead_code, reason = "with few tools, not all that they share is used")
)]
mod input;
mod known_secrets;
#[cfg(feature = "process")]
#[cfg_attr(not(feature = "shell"), allow(dead_code, reason = "with few tools, not all that they share is used"))]
mod log_lines;
mod model;
mod noop;
pub mod outbound;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "process")]
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "shell", feature = "python")),
    allow(dead_code, reason = "with few tools, not all that they share is used")
)]
mod process;
#[cfg(feature = "python")]
mod python;
#[cfg_attr(
    not(all(feature = "postgres", feature = "sqlite", feature = "shell", feature = "python")),
    allow(dead_code, reason = "with few tools, not all that they share is used")
)]
mod registry;
pub mod schema;
mod sealed;
mod secret;
mod secret_boundary;
#[cfg(feature = "shell")]
mod shell;
#[cfg(any(feature = "duckdb", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;
pub mod tls;
mod vault;

#[cfg(feature = "duckdb")]
pub use crate::duckdb::DuckdbTool;
pub use credentials::{Credential, Credentials, NamedCredentials, auth_variable, credential_names};
pub use destinations::{Destinations, RefusedCalls};
pub use endpoint::{Endpoint, EndpointTool};
pub use http::{
    ConfiguredRequest, HttpCallTool, HttpOptions, HttpTool, MockedResponse, StreamedReply, escaped_header,
    follow_up_input, is_secret_name, parse_retry_after,
};
pub use info::{ToolField, ToolInfo, field, required, tool_infos};
pub use known_secrets::KnownSecrets;
pub use model::{ModelKey, ModelOptions, ModelTool};
pub use noop::NoopTool;
pub use outbound::Outbound;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresTool};
#[cfg(feature = "process")]
pub use process::{ProcessGroup, basic_environment};
#[cfg(feature = "python")]
pub use python::{PythonOptions, PythonTool};
pub use secret::{Redactor, Secret};
pub use secret_boundary::{SealOutcome, SecretBoundary, SecretSealer};
#[cfg(feature = "shell")]
pub use shell::{ShellOptions, ShellTool};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteTool;
use std::sync::Arc;
pub use vault::{
    CredentialVault, KeyAccess, KeyProblem, StoredCredential, UnopenedCredential, VaultError, VaultKey, VaultLimits,
};

use windlass_core::ProcessLimits;
use windlass_runtime::Tools;

/// Returns the tools that every engine has: `http` and `noop`.
pub fn standard_tools(options: HttpOptions) -> Tools {
    Tools::new().with("http", HttpTool::new(options)).with("noop", NoopTool)
}

/// Returns the playbook tools of this build in addition to the standard ones.
///
/// `environment` looks up a variable. Programs that tools start inherit PATH, HOME and LANG from it and nothing else.
/// `limits` apply to all tools except the HTTP tools, which use `options`.
pub fn playbook_tools(
    options: HttpOptions,
    limits: &ProcessLimits,
    credentials: &Arc<dyn Credentials>,
    environment: impl Fn(&str) -> Option<String>,
) -> Tools {
    let outbound = options.outbound.clone();
    let http = HttpTool::new(options);
    registry::build(&registry::ToolSetup { http, outbound, credentials, limits, environment: &environment })
}
