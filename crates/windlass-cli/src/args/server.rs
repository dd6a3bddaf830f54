//! What can be typed around a server: its tokens, definitions for it, a worker of it.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(ClapArgs)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub command: TokenCommand,
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and show it this once
    Create(TokenCreateArgs),
    /// All tokens: what each may do, and when it was used last
    List,
    /// Take a token away
    Revoke(TokenRevokeArgs),
}

#[derive(ClapArgs)]
pub(crate) struct TokenCreateArgs {
    /// What it is for
    pub name: String,
    /// What it may do: read, run, control, work, admin
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', required = true)]
    pub scope: Vec<String>,
    /// How long it is good: `30d`, `12h`, or as ISO 8601 [default: for ever]
    #[arg(long, value_name = "SPAN")]
    pub expires: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct TokenRevokeArgs {
    /// Its id, as `windlass token list` shows it
    pub id: String,
}

#[derive(ClapArgs)]
pub(crate) struct RegisterArgs {
    /// Their files, or folders of them; of files, what others call comes first
    #[arg(required = true, value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Where the server is, such as http://127.0.0.1:7117
    #[arg(long, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    pub server: String,
    /// The file with its token, which needs the scope `admin` [default: the environment's WINDLASS_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What it is to be called [default: as the text says]; of one file only
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Which workers may do its tasks; may be given more than once. They are part of the version: other labels make another
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// Send the token over plain HTTP to another machine
    #[arg(long)]
    pub insecure: bool,
}

#[derive(ClapArgs)]
pub(crate) struct WorkerArgs {
    /// Where the server is, such as http://127.0.0.1:7117
    #[arg(long, value_name = "URL", env = "WINDLASS_SERVER", hide_env_values = true)]
    pub server: String,
    /// The file with its token, which needs the scope `work` [default: the environment's WINDLASS_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What it does [default: all tools of this program]
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// What definitions can ask for; may be given more than once
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// Take no jobs of definitions without labels
    #[arg(long)]
    pub only_labelled: bool,
    /// Jobs at a time
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub slots: u32,
    /// What people call it [default: the machine's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// When it is stopped: how long it may take to finish what it has; the rest goes to others
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub drain_seconds: u64,
    /// Send the token over plain HTTP to another machine
    #[arg(long)]
    pub insecure: bool,
}
