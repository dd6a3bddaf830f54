//! Arguments of the commands around a server: tokens, registration, workers.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create(TokenCreateArgs),
    /// List all tokens with their scopes and last use
    List,
    /// Revoke a token
    Revoke(TokenRevokeArgs),
}

#[derive(ClapArgs)]
pub(crate) struct TokenCreateArgs {
    /// Name of the token
    pub name: String,
    /// Scopes of the token: read, run, control, work, admin
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', required = true)]
    pub scope: Vec<String>,
    /// Time until the token expires: `30d`, `12h`, or ISO 8601 [default: never]
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct TokenRevokeArgs {
    /// Token id, as `windlass token list` shows it
    pub id: String,
}

#[derive(ClapArgs)]
pub(crate) struct HealthArgs {
    /// URL of the server [default: the server of the store]
    #[arg(long, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    pub server: Option<String>,
    /// Check that the server accepts work, not only that it is alive
    #[arg(long)]
    pub ready: bool,
}

#[derive(ClapArgs)]
pub(crate) struct RegisterArgs {
    /// Definition files or folders; name files that others call first
    #[arg(required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// URL of the server, such as http://127.0.0.1:7117
    #[arg(long, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    pub server: String,
    /// File with a token of scope `admin` [default: environment variable WINDLASS_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name of the definition [default: from the text]; only with a single file
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Label that a worker needs to run its tasks; may be repeated. Labels are part of the version: changing them makes
    /// a new one
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// Send the token over plain HTTP to another machine
    #[arg(long)]
    pub insecure: bool,
}

#[derive(ClapArgs)]
pub(crate) struct WorkerArgs {
    /// URL of the server, such as http://127.0.0.1:7117
    #[arg(long, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    pub server: String,
    /// File with a token of scope `work` [default: environment variable WINDLASS_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Offer these tools [default: all tools of this program]
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Label that definitions can require; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// Take no jobs of definitions without labels
    #[arg(long)]
    pub only_labelled: bool,
    /// Maximum number of concurrent jobs
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: u32,
    /// Display name of the worker [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Time to finish running jobs on shutdown; the rest go to other workers
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub drain: u64,
    /// Send the token over plain HTTP to another machine
    #[arg(long)]
    pub insecure: bool,
}
