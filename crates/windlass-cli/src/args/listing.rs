//! Arguments of commands that show runs: pages, labels, `list`, `status`, `iterations`, `events`, `logs`.

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
pub(crate) struct ListArgs {
    /// Show only runs with this status; several are separated by commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Show only runs of this definition
    #[arg(long, value_name = "NAME")]
    pub definition: Option<String>,
    /// Show only runs that started this long ago or later, such as `2h`, or at this time or later (RFC 3339)
    #[arg(long, value_name = "AGE|TIME")]
    pub since: Option<String>,
    /// Show only runs with this label; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = parse_label)]
    pub labels: Vec<(String, String)>,
    /// Show only runs with this text in their id or in the name of their definition
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Maximum number of runs to show
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
    /// Show the page after the run with this number, as the previous page printed it
    #[arg(long, value_name = "NUMBER")]
    pub before: Option<i64>,
    /// Show all runs
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Include child runs
    #[arg(long)]
    pub children: bool,
}

#[derive(ClapArgs)]
pub(crate) struct StatusArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
}

#[derive(ClapArgs)]
pub(crate) struct IterationsArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Path of the loop, such as `sync` or `pages[3].items`; without it, the loops are listed
    pub r#loop: Option<String>,
    /// Begin at this iteration, counted from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub from: u64,
    /// Maximum number of iterations to show
    #[arg(long, default_value_t = DEFAULT_LIMIT as usize, value_name = "N", value_parser = parse_count)]
    pub limit: usize,
    /// Show only iterations that did not succeed
    #[arg(long)]
    pub failed: bool,
}

#[derive(ClapArgs)]
pub(crate) struct EventsArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
    pub run: String,
    /// Show events after this sequence number
    #[arg(long, default_value_t = 0, value_name = "SEQ", visible_alias = "from")]
    pub after: u64,
    /// Maximum number of events to show [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub limit: Option<usize>,
    /// Follow new events until the run ends
    #[arg(long, short)]
    pub follow: bool,
    /// Print the full time of each event, in UTC, instead of a line for each date
    #[arg(long)]
    pub utc: bool,
}

#[derive(ClapArgs)]
pub(crate) struct LogsArgs {
    /// Run id, an unambiguous prefix of it, its execution id, or `last`
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
