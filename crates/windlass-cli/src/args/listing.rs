//! Arguments that commands with long output share: pages, labels; and those of `logs`.

use clap::Args as ClapArgs;

/// Number of entries that a list shows without `--limit`.
pub(crate) const DEFAULT_LIMIT: u32 = 20;

/// Parses a number of entries, which is at least 1.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a number, at least 1".to_owned())
}

/// Parses `NAME=VALUE`.
pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, such as customer=acme")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

#[derive(ClapArgs)]
pub(crate) struct LogsArgs {
    /// Run id, an unambiguous prefix of it, or `last`
    pub run: String,
    /// Path of a task, or of a step, loop or iteration around it, such as `pages[3]`
    pub path: Option<String>,
    /// Show lines after this position, as `--json` shows it
    #[arg(long, default_value_t = 0, value_name = "POSITION")]
    pub after: i64,
    /// Maximum number of lines to show [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<usize>,
    /// Follow new lines until the run ends
    #[arg(long, short)]
    pub follow: bool,
}
