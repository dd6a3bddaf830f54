//! The program: a client of the engine that reads the terminal, the environment and files, which no other crate does.
//!
//! - `args` what can be typed · `commands` one file a command · `failure` errors at the edge · `config` limits from file
//!   and environment · `stores` opening a store, finding a run · `trust` whose rules it has · `dialects`, `definition`, `project`, `inputs`, `flow`, `tools`, `agents` what a run is made of · `served` the same in a server · `service`, `dev` a server in this process · `host`,
//!   `children` and `follow` watching a run, here or in another process · `image` a run read from the store · `progress`, `report`,
//!   `kinds`, `out`, `text` what people see · `log` the log of all crates, on standard error.

mod agent_options;
mod agents;
mod args;
mod catalog_compiler;
mod children;
mod commands;
mod config;
mod definition;
mod dev;
mod dialects;
mod durations;
mod failure;
mod follow;
mod host;
mod image;
mod inputs;
mod kinds;
mod log;
mod out;
mod progress;
mod project;
mod report;
mod secrets;
mod service;
mod standard_project;
mod stores;
mod text;
mod tools;
mod trust;
mod warnings;
mod worker;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use failure::CliExit;

/// Reads the command line and does what it says.
pub fn main() -> ExitCode {
    let parsed = match args::CliArgs::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return report_usage_error(&error),
    };
    let json = parsed.global.json;
    match commands::run(parsed) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            failure.show();
            if let Some(value) = failure.to_value().filter(|_| json) {
                // Whoever reads has been told on stderr, too.
                let _ = out::print(&format!("{value:#}"));
            }
            failure.exit().into()
        }
    }
}

/// Help and version go to stdout and are no error; anything else is wrong usage.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    // Nowhere to say that the terminal is gone.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => CliExit::Success.into(),
        _ => CliExit::Usage.into(),
    }
}
