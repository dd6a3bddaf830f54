//! Arguments of the commands around a server: tokens, registration, workers.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::InputArgs;

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
    /// Only for runs of these definitions; with the scopes read, run and control [default: all]
    #[arg(long = "definition", value_name = "NAME", value_delimiter = ',')]
    pub definitions: Vec<String>,
    /// Time until the token expires: `30d`, `12h`, or ISO 8601 [default: never]
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct DoctorArgs {
    /// Expect the audit log from this line on: older lines were moved away
    #[arg(long, value_name = "N")]
    pub audit_from: Option<u64>,
}

#[derive(ClapArgs)]
pub(crate) struct TokenRevokeArgs {
    /// Token id, as `windlass token list` shows it
    pub id: String,
}

#[derive(ClapArgs)]
pub(crate) struct HealthArgs {
    /// Check that the server accepts work, not only that it is alive
    #[arg(long)]
    pub ready: bool,
}

#[derive(ClapArgs)]
pub(crate) struct RegisterArgs {
    /// Definition files or folders; name files that others call first
    #[arg(required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Name of the definition [default: from the text]; only with a single file
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Label that a worker needs to run its tasks; may be repeated. Labels are part of the version: changing them makes
    /// a new one
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
}

#[derive(ClapArgs)]
pub(crate) struct WorkerArgs {
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
}

#[derive(ClapArgs)]
pub(crate) struct StartArgs {
    /// Name of the definition; NAME@3 starts its version 3
    #[arg(value_name = "NAME[@VERSION]")]
    pub name: String,
    #[command(flatten)]
    pub input: InputArgs,
    /// Run id; repeating an id refers to the same run
    #[arg(long, value_name = "RUN")]
    pub id: Option<String>,
    /// Label of the run, by which `windlass list --label` finds it; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = super::parse_label)]
    pub labels: Vec<(String, String)>,
    /// Print the id of the run and do not follow it
    #[arg(long)]
    pub detach: bool,
    /// Print no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(ClapArgs)]
pub(crate) struct DefinitionsArgs {
    #[command(subcommand)]
    pub command: DefinitionsCommand,
}

#[derive(Subcommand)]
pub(crate) enum DefinitionsCommand {
    /// List the registered definitions
    List(DefinitionListArgs),
    /// Show a definition: its inputs, triggers, tools and text
    Show(DefinitionShowArgs),
    /// Remove a definition; its runs stay
    Remove(DefinitionRemoveArgs),
}

#[derive(ClapArgs)]
pub(crate) struct DefinitionListArgs {
    /// Show only definitions with this text in their name
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct DefinitionShowArgs {
    /// Name of the definition; NAME@3 shows its version 3
    #[arg(value_name = "NAME[@VERSION]")]
    pub name: String,
    /// Print only the text of the definition
    #[arg(long)]
    pub source: bool,
}

#[derive(ClapArgs)]
pub(crate) struct DefinitionRemoveArgs {
    /// Name of the definition
    pub name: String,
}

#[derive(ClapArgs)]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    pub command: ContextCommand,
}

#[derive(Subcommand)]
pub(crate) enum ContextCommand {
    /// Store a server under a name: `context add prod --server https://windlass.example.org --token-file FILE`
    Add(ContextAddArgs),
    /// List the contexts
    List,
    /// Use a context for all commands that name neither a server nor a store
    Use(ContextUseArgs),
    /// Remove a context
    Remove(ContextRemoveArgs),
}

#[derive(ClapArgs)]
pub(crate) struct ContextAddArgs {
    /// Name of the context
    pub name: String,
    /// Shell command that prints the token
    #[arg(long, value_name = "COMMAND", conflicts_with = "keyring")]
    pub token_command: Option<String>,
    /// Keep the token, which is read from standard input, in the keyring of the system
    #[arg(long)]
    pub keyring: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ContextUseArgs {
    /// Name of the context
    #[arg(required_unless_present = "none")]
    pub name: Option<String>,
    /// Use no context: commands use the store of the current folder again
    #[arg(long, conflicts_with = "name")]
    pub none: bool,
}

#[derive(ClapArgs)]
pub(crate) struct ContextRemoveArgs {
    /// Name of the context
    pub name: String,
}
