//! Options as they are written on a command line, for the commands that follow this one. Each has a leading space.

use std::fmt::Display;
use std::path::Path;

use clap::ValueEnum;

use super::{
    AgentArgs, CliCommand, DemoArgs, DevArgs, GlobalArgs, MockingArgs, PermissionArgs, RestartArgs, RetryArgs,
    ServeArgs, TrustArgs,
};
use crate::hints::shell_quote;

impl CliCommand {
    /// Returns the options for running a run in this process, as far as `resume`, `retry` and `restart` have them too.
    /// Permissions and mocks are given to one process only.
    pub(crate) fn host_options(&self) -> String {
        let (trust, permissions, mocking, stream) = match self {
            CliCommand::Run(args) => (&TrustArgs::default(), &args.permissions, &args.mocking, args.agents.stream),
            CliCommand::Resume(args) => (&args.trust, &args.permissions, &args.mocking, args.stream),
            CliCommand::Restart(RestartArgs { steering: args, .. })
            | CliCommand::Retry(RetryArgs { steering: args, .. }) => {
                (&args.trust, &args.permissions, &args.mocking, args.stream)
            }
            _ => return String::new(),
        };
        let (trusted, stream) = (switch("trusted", trust.trusted), switch("stream", stream));
        format!("{trusted}{}{}{stream}", permissions.to_flags(), mocking.to_flags())
    }
}

impl PermissionArgs {
    pub(crate) fn to_flags(&self) -> String {
        let mut flags = switch("yolo", self.yolo) + &switch("sandbox", self.sandbox);
        for (name, tools) in [("allow", &self.allow), ("deny", &self.deny)] {
            flags.extend(tools.iter().map(|tool| option(name, Some(tool))));
        }
        flags
    }
}

impl MockingArgs {
    pub(crate) fn to_flags(&self) -> String {
        option("static", self.static_file.as_ref().map(|file| file.display()))
    }
}

impl AgentArgs {
    fn to_flags(&self) -> String {
        let coordinator = self.coordinator.and_then(|when| when.to_possible_value());
        [
            option("model", self.model.as_ref()),
            option("context", self.context.as_ref()),
            option("workdir", self.workdir.as_ref().map(|folder| folder.display())),
            option("coordinator", coordinator.as_ref().map(|when| when.get_name())),
            option("max-concurrency", self.max_concurrency),
            switch("stream", self.stream),
        ]
        .concat()
    }
}

impl DevArgs {
    /// Returns the command line of a server that runs the same runs in the same way, on whichever port.
    pub(crate) fn to_arguments(&self, global: &GlobalArgs) -> String {
        let paths = self.paths.iter().map(|path| format!(" {}", shell_quote(&path.to_string_lossy())));
        let mut line = format!("dev{}", paths.collect::<String>());
        line.push_str(&(self.agents.to_flags() + &self.permissions.to_flags()));
        line.push_str(&switch("no-mocks", self.no_mocks));
        line.push_str(&self.mocking.to_flags());
        line + &settings_option(global)
    }
}

impl ServeArgs {
    /// Returns the command line of a server that runs the same runs in the same way, at whichever address.
    pub(crate) fn to_arguments(global: &GlobalArgs) -> String {
        format!("serve{}", settings_option(global))
    }
}

impl DemoArgs {
    /// Returns the command line that continues the demo in its folder.
    pub(crate) fn to_arguments(&self, folder: &Path) -> String {
        format!("demo {}{}", shell_quote(&folder.to_string_lossy()), option("port", self.port))
    }
}

/// The settings file by its whole path: the next command may be given in another folder.
fn settings_option(global: &GlobalArgs) -> String {
    let file = global.config.as_ref().map(|file| file.canonicalize().unwrap_or_else(|_| file.clone()));
    option("config", file.as_ref().map(|file| file.display()))
}

fn option(name: &str, value: Option<impl Display>) -> String {
    value.map(|value| format!(" --{name} {}", shell_quote(&value.to_string()))).unwrap_or_default()
}

fn switch(name: &str, is_on: bool) -> String {
    if is_on { format!(" --{name}") } else { String::new() }
}
