//! The version of the program: its number, its commit, its features and its target.

use std::sync::LazyLock;

use clap::builder::Str;

/// Empty if the commit is unknown: in debug builds, and in builds outside of a repository.
const COMMIT: &str = env!("WINDLASS_BUILD_COMMIT");

/// The features of this program, by name.
const FEATURES: [(&str, bool); 6] = [
    ("duckdb", cfg!(feature = "duckdb")),
    ("otel", cfg!(feature = "otel")),
    ("postgres", cfg!(feature = "postgres")),
    ("python", cfg!(feature = "python")),
    ("shell", cfg!(feature = "shell")),
    ("sqlite", cfg!(feature = "sqlite")),
];

static SHORT: LazyLock<String> = LazyLock::new(|| {
    let origin = match (COMMIT, cfg!(debug_assertions)) {
        ("", true) => "debug build",
        ("", false) => "commit unknown",
        (commit, _) => commit,
    };
    format!("{} ({origin})", env!("CARGO_PKG_VERSION"))
});

static LONG: LazyLock<String> = LazyLock::new(|| {
    let enabled: Vec<&str> = FEATURES.into_iter().filter(|(_, enabled)| *enabled).map(|(name, _)| name).collect();
    let features = if enabled.is_empty() { "none".to_owned() } else { enabled.join(" ") };
    format!("{}\nfeatures: {features}\ntarget: {}", *SHORT, env!("WINDLASS_BUILD_TARGET"))
});

/// The line that `-V` prints.
pub(crate) fn short() -> Str {
    SHORT.as_str().into()
}

/// The lines that `--version` prints.
pub(crate) fn long() -> Str {
    LONG.as_str().into()
}
