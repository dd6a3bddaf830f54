//! Arguments of `windlass backup` and `windlass restore`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
pub(crate) struct BackupArgs {
    /// Directory of the backups; further ones add only what has changed
    #[arg(value_name = "DEST")]
    pub destination: PathBuf,
    /// Remove all but the newest N backups afterwards
    #[arg(long, value_name = "N", value_parser = parse_keep)]
    pub keep: Option<usize>,
}

fn parse_keep(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|keep| *keep > 0).ok_or_else(|| "give a number, 1 or more".to_owned())
}

#[derive(ClapArgs)]
pub(crate) struct RestoreArgs {
    /// Directory of the backups
    #[arg(value_name = "SRC")]
    pub source: PathBuf,
    /// Name of the backup, as `windlass backup` printed it [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub at: Option<String>,
    /// Move a store that is in the way into a subdirectory
    #[arg(long)]
    pub replace: bool,
    /// Restore a backup of a store that was damaged
    #[arg(long)]
    pub allow_damage: bool,
}
