//! The command-line program: a client of the engine, and the only crate that reads the terminal, the environment and
//! files.
//!
//! - `args`: command-line arguments; `commands`: one file per command; `failure`: errors of the command line
//! - `config`: settings and limits from file and environment; `credentials`: their sources and their order
//! - `runs`: where runs live, in a store or on a server
//! - `hints`: the commands that hints name, with the options in use
//! - `stores`: opening a store, finding a run; `trust`: whether a run has the server's rules
//! - `dialects`, `definition`, `project`, `inputs`, `agent_options`, `tools`, `agents`: the parts of a run
//! - `mocks`: a mock file in place of tools; `mock_stubs`: a mock file for a definition
//! - `catalog_compiler`: the same parts in a server; `service`, `dev`: a server in this process;
//!   `demo`: the folder of `windlass demo`; `init`: the files of a new project
//! - `host`, `children`, `follow`: watching a run, in this process or in another; `image`: a run read from the store
//! - `progress`, `report`, `warnings`, `kinds`, `out`, `text`: output for users
//! - `log`: the log of all crates, on standard error; `version`: the version, with commit and features

mod agent_options;
mod agents;
mod args;
mod catalog_compiler;
mod children;
mod commands;
mod config;
mod credentials;
mod definition;
mod demo;
mod dev;
mod dialects;
mod durations;
mod failure;
mod follow;
mod hints;
mod host;
mod image;
mod init;
mod inputs;
mod kinds;
mod log;
mod mock_steps;
mod mock_stubs;
mod mocks;
mod out;
mod progress;
mod project;
mod report;
mod runs;
mod secrets;
mod service;
mod standard_project;
mod stores;
mod text;
mod tools;
mod trust;
mod version;
mod warnings;
mod worker;

use std::process::ExitCode;

use clap::error::ErrorKind;

use failure::CliExit;

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    let parsed = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return report_usage_error(&error),
    };
    let global = parsed.global.clone();
    let json = global.json;
    match commands::run(parsed) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let failure = failure.complete_commands(&global);
            failure.show();
            if let Some(value) = failure.to_value().filter(|_| json) {
                // The error was already printed on stderr.
                let _ = out::print(&format!("{value:#}"));
            }
            failure.exit().into()
        }
    }
}

/// Prints help and version on stdout as no error; anything else is wrong usage.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    // There is nowhere to report that the terminal is gone.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => CliExit::Success.into(),
        _ => CliExit::Usage.into(),
    }
}
