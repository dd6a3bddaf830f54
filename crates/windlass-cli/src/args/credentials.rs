//! Arguments of `windlass credentials`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(ClapArgs)]
pub(crate) struct CredentialsArgs {
    #[command(subcommand)]
    pub command: CredentialsCommand,
}

#[derive(Subcommand)]
pub(crate) enum CredentialsCommand {
    /// Store a credential; its value is read from standard input, a file or the terminal, never from the command line
    Set(CredentialSetArgs),
    /// List the stored credentials, without their values
    List,
    /// Remove a stored credential
    Remove(CredentialRemoveArgs),
}

#[derive(ClapArgs)]
pub(crate) struct CredentialSetArgs {
    /// Name by which definitions refer to it
    pub name: String,
    /// Read the value from this file
    #[arg(long, value_name = "FILE")]
    pub from_file: Option<PathBuf>,
    /// Format of the value [default: by its form, or by the name of the file]
    #[arg(long, value_enum)]
    pub format: Option<CredentialFormat>,
}

/// How the value of a credential is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CredentialFormat {
    /// A text or a URL, as it is
    Text,
    /// A JSON object
    Json,
    /// YAML: NAME: VALUE
    Yaml,
    /// Lines NAME=VALUE
    Fields,
}

#[derive(ClapArgs)]
pub(crate) struct CredentialRemoveArgs {
    /// Name of the credential
    pub name: String,
    /// Remove it without a confirmation
    #[arg(long, short)]
    pub yes: bool,
}
