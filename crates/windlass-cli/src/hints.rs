//! Commands in hints and notes, complete enough to be pasted: with the store or the server in use, and with the options
//! that the next command needs again.

use std::path::Path;

use windlass_runtime::RunOptions;
use windlass_store::{RunRow, RunStatus, Store};

use crate::args::GlobalArgs;
use crate::dialects::registry;
use crate::failure::CliFailure;
use crate::service::{ServerCommand, last_server_command};
use crate::stores::{DEFAULT_DIRECTORY, directory, is_store_given, server_address};
use crate::tools::variable;
use crate::trust;

/// Commands that use the runs of a store or of a server.
const RUN_COMMANDS: [&str; 17] = [
    "approvals",
    "approve",
    "cancel",
    "definitions",
    "events",
    "graph",
    "iterations",
    "list",
    "logs",
    "pause",
    "register",
    "restart",
    "resume",
    "retry",
    "run",
    "signal",
    "start",
];

/// Commands that need the files of a store.
const STORE_COMMANDS: [&str; 7] = ["clean", "dev", "doctor", "repair", "replay", "serve", "token"];

/// Commands that run a run in their own process, with the options of the first one.
const HOST_COMMANDS: [&str; 3] = ["resume", "retry", "restart"];

/// Formats a command line for the same store or server, ready to be pasted. What the environment says also applies to
/// the next command.
pub(crate) fn command(global: &GlobalArgs, arguments: &str) -> String {
    let verb = arguments.split(' ').next().unwrap_or_default();
    format!("windlass {}{arguments}{}", target_options(global, verb), host_options(global, verb))
}

/// Formats a command that continues or repeats a run of this process. With mocks, a run of a definition that is also
/// registered with a server needs `--trusted` again: a server would continue it with its own mocks, or with none.
pub(crate) fn host_command(global: &GlobalArgs, arguments: &str, is_server_run: bool) -> String {
    let options = &global.host_options;
    let needs_trust = is_server_run && options.contains(" --static ") && !options.contains(" --trusted");
    format!("{}{}", command(global, arguments), if needs_trust { " --trusted" } else { "" })
}

/// Completes the commands in a text: adds the options in use to each `windlass COMMAND` that has none.
pub(crate) fn complete_commands(global: &GlobalArgs, text: &str) -> String {
    const PROGRAM: &str = "windlass ";
    let mut parts = text.split(PROGRAM);
    let mut completed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let verb: String = part.chars().take_while(|letter| letter.is_ascii_lowercase()).collect();
        let end = part.find(['`', ';', '\n']).unwrap_or(part.len());
        let (arguments, rest) = part.split_at(end);
        let (target, host) = (target_options(global, &verb), host_options(global, &verb));
        let host = if arguments.ends_with(host) { "" } else { host };
        completed.push_str(&format!("{PROGRAM}{target}{arguments}{host}{rest}"));
    }
    completed
}

/// Returns the options that name the store or the server, each with a space behind it.
fn target_options(global: &GlobalArgs, verb: &str) -> String {
    let is_on_runs = RUN_COMMANDS.contains(&verb) || verb == "status";
    if !is_on_runs && !STORE_COMMANDS.contains(&verb) {
        return String::new();
    }
    let mut options = String::new();
    let path_option = |name: &str, path: &Path| format!("--{name} {} ", shell_quote(&path.to_string_lossy()));
    if let Some(server) = given_server(global) {
        if is_on_runs {
            options.push_str(&format!("--server {} ", shell_quote(server)));
            options.extend(global.token_file.as_ref().map(|file| path_option("token-file", file)));
            options.push_str(if global.insecure { "--insecure " } else { "" });
            options.extend(given_ca(global).map(|file| path_option("ca", file)));
        }
        return options;
    }
    options.extend(global.store.as_ref().filter(|_| is_store_given(global)).map(|path| path_option("store", path)));
    options.extend(global.config.as_ref().map(|file| path_option("config", file)));
    options
}

/// Returns the server that the command line names; one from the environment does not count.
pub(crate) fn given_server(global: &GlobalArgs) -> Option<&str> {
    global.server.as_deref().filter(|server| variable("WINDLASS_SERVER").as_deref() != Some(server))
}

/// Returns the certificate authority that the command line names; one from the environment does not count.
fn given_ca(global: &GlobalArgs) -> Option<&Path> {
    global.ca.as_deref().filter(|file| variable("WINDLASS_CA").as_deref() != file.to_str())
}

/// Returns the options of this command that a command needs again to run the same run, each with a leading space.
fn host_options<'a>(global: &'a GlobalArgs, verb: &str) -> &'a str {
    if HOST_COMMANDS.contains(&verb) { &global.host_options } else { "" }
}

/// Returns the command that starts the server of this store again as it was: that of a demo or of `dev` with its
/// mocks, if it was one.
pub(crate) fn server_command(global: &GlobalArgs) -> String {
    let store = directory(global);
    let Some(ServerCommand { arguments, folder, has_own_store, .. }) = last_server_command(&store) else {
        return command(global, "serve");
    };
    let is_here = |folder: &Path| std::env::current_dir().is_ok_and(|here| here == folder);
    match folder {
        _ if has_own_store => format!("windlass {arguments}"),
        Some(folder) if !is_here(&folder) => {
            let store = store.canonicalize().unwrap_or(store);
            let is_usual = store == folder.join(DEFAULT_DIRECTORY);
            let option = format!("--store {} ", shell_quote(&store.to_string_lossy()));
            let option = if is_usual { String::new() } else { option };
            format!("cd {} && windlass {option}{arguments}", shell_quote(&folder.to_string_lossy()))
        }
        _ => command(global, &arguments),
    }
}

/// Returns how to resume an unowned run. A run of a server continues in a server; if one is running, `resume` asks
/// it.
pub(crate) fn resume_hint(global: &GlobalArgs, store: &dyn Store, row: &RunRow) -> Result<String, CliFailure> {
    if !registry().get_or_rust(&row.dialect).has_sources() {
        return Ok("start the program that has its steps".to_owned());
    }
    let resume = command(global, &format!("resume {}", row.run));
    if server_address(global, row).is_some() {
        return Ok(resume);
    }
    if !trust::is_server_run(store, row)? {
        return Ok(resume + &mock_option(global, RunOptions::from_row(row)?.mock_file.as_deref()));
    }
    let serve = server_command(global);
    Ok(match row.status {
        RunStatus::Paused | RunStatus::Quarantined => format!("{serve}, then {resume}"),
        _ => serve,
    })
}

/// Returns the option for the mock file with which a run was started, unless this command has one itself.
pub(crate) fn mock_option(global: &GlobalArgs, file: Option<&str>) -> String {
    let file = file.filter(|_| !global.host_options.contains(" --static "));
    file.map(|file| format!(" --static {}", shell_quote(file))).unwrap_or_default()
}

pub(crate) fn shell_quote(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=:@%,~".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(store: Option<&str>, server: Option<&str>, host_options: &str) -> GlobalArgs {
        GlobalArgs {
            store: store.map(Into::into),
            server: server.map(str::to_owned),
            host_options: host_options.to_owned(),
            ..GlobalArgs::default()
        }
    }

    #[test]
    fn a_command_gets_the_options_that_it_takes() {
        let local = with(Some("my runs"), None, " --static m.yaml");
        assert_eq!(command(&local, "status r"), "windlass --store 'my runs' status r");
        assert_eq!(command(&local, "retry r"), "windlass --store 'my runs' retry r --static m.yaml");
        let remote = with(None, Some("prod"), "");
        assert_eq!(command(&remote, "status r"), "windlass --server prod status r");
        assert_eq!(command(&remote, "serve"), "windlass serve", "a server is started on its own machine");
        assert_eq!(command(&remote, "explain WND-2001"), "windlass explain WND-2001");
    }

    #[test]
    fn the_commands_in_a_text_are_completed_once() {
        let global = with(Some("s"), None, " --trusted");
        for (text, completed) in [
            ("`windlass list` shows the runs", "`windlass --store s list` shows the runs"),
            ("`windlass retry r`; then look", "`windlass --store s retry r --trusted`; then look"),
            (
                "to repeat a part: windlass restart r --from 'a b'",
                "to repeat a part: windlass --store s restart r --from 'a b' --trusted",
            ),
            ("windlass --store s list", "windlass --store s list"),
            ("`windlass retry r --trusted` is complete", "`windlass --store s retry r --trusted` is complete"),
            ("`windlass explain` lists them", "`windlass explain` lists them"),
            ("the version of windlass is old", "the version of windlass is old"),
        ] {
            assert_eq!(complete_commands(&global, text), completed);
        }
    }
}
