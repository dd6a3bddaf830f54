//! Arguments about mocks, the demo and new projects.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::TestingArgs;
use crate::dialects;

/// Options for trials and tests of definitions.
#[derive(ClapArgs, Default)]
#[command(next_help_heading = "Mocks")]
pub(crate) struct MockingArgs {
    /// Answer calls from this mock file instead of calling tools and models; docs/mocks.md has the format
    #[arg(long = "static", value_name = "FILE")]
    pub static_file: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct MockArgs {
    /// Mock file, JSON or YAML; with --from, the file to write instead of standard output
    #[arg(value_name = "FILE", required_unless_present = "from")]
    pub file: Option<PathBuf>,
    /// Write a stub for every call of this definition, to be edited
    #[arg(long, value_name = "DEFINITION")]
    pub from: Option<PathBuf>,
    /// Dialect of the definition [default: detected from its content]
    #[arg(long, requires = "from", value_parser = dialects::dialect_values())]
    pub dialect: Option<String>,
    /// Listen on this port of 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 8090)]
    pub port: u16,
    /// Do not print requests
    #[arg(long, short)]
    pub quiet: bool,
    /// Append a JSON line for every model request to this file, before it is answered
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
}

#[derive(ClapArgs)]
pub(crate) struct DemoArgs {
    /// Folder for the demo's files and runs; that of an earlier demo is continued [default: windlass-demo]
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Open the web UI
    #[arg(long)]
    pub open: bool,
    /// Listen on this port of 127.0.0.1; 0 picks a free one [default: 7117]
    #[arg(long)]
    pub port: Option<u16>,
    #[command(flatten)]
    pub testing: TestingArgs,
}

#[derive(ClapArgs)]
pub(crate) struct InitArgs {
    /// Folder of the project, which may exist; no file in it is overwritten [default: the current folder]
    #[arg(value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
    /// Dialect of the definition
    #[arg(long, default_value = "loom", value_parser = clap::builder::PossibleValuesParser::new(crate::init::dialects()))]
    pub dialect: String,
}
