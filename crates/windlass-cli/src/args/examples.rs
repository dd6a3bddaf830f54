//! Examples in the help of every command. They are parsed by a test, so that they stay valid.

use clap::{Command, CommandFactory, FromArgMatches};

use super::CliArgs;

/// An example: a command line after `windlass`, and its effect.
type CommandExample = (&'static str, &'static str);

/// The examples of each command; those of a subcommand are under `command subcommand`.
const EXAMPLES: &[(&str, &[CommandExample])] = &[
    (
        "run",
        &[
            ("run flow.json --set customer=acme", "run a definition with one input"),
            (
                "run flow.json --input-file order.json --label customer=acme",
                "read the input from a file, label the run",
            ),
            (
                "run agents.yaml --model scripted:replies.yaml --virtual-time",
                "try it without a model and without waiting",
            ),
        ],
    ),
    ("check", &[("check flow.json playbook.yaml", "report all problems of two definitions")]),
    (
        "list",
        &[
            ("list --status failed,interrupted --since 2h", "runs of the last two hours that need attention"),
            ("list --label customer=acme --definition orders", "runs of one customer"),
            ("list --limit 100 --json", "a page of 100 runs for a program"),
        ],
    ),
    ("status", &[("status last", "the newest run"), ("status 01m7 --json", "a run by the beginning of its id")]),
    (
        "iterations",
        &[
            ("iterations last", "the loops of the newest run"),
            ("iterations last 'pages[3].items' --failed", "the failed iterations of an inner loop"),
        ],
    ),
    (
        "events",
        &[
            ("events last --follow", "follow the newest run until it ends"),
            ("events last --after 120 --utc", "the events after number 120, with full times"),
        ],
    ),
    (
        "logs",
        &[
            ("logs last --follow", "follow the output of the newest run"),
            ("logs last 'pages[3].save'", "the output of one step of an iteration"),
        ],
    ),
    ("resume", &[("resume last", "continue a paused or interrupted run")]),
    (
        "restart",
        &[
            ("restart last --from 'sync[3].fetch'", "repeat a run from one step of an iteration on"),
            ("restart last --from sync --set pageSize=50", "the same with another value"),
        ],
    ),
    ("retry", &[("retry last", "repeat what failed, and reuse all other results")]),
    ("pause", &[("pause last", "pause the newest run between two tasks")]),
    ("cancel", &[("cancel last --reason 'wrong input'", "cancel the newest run")]),
    ("signal", &[("signal last payment --data '{\"amount\": 5}'", "send a signal with a payload")]),
    ("approvals", &[("approvals", "the open requests of all runs"), ("approvals last", "those of one run")]),
    (
        "approve",
        &[
            ("approve last --set approved=true", "answer the only open request"),
            ("approve last 'Each[1].Ask' --data @answer.json", "answer one of several requests"),
        ],
    ),
    (
        "replay",
        &[
            ("replay last", "rebuild the state and compare it with the journal"),
            ("replay last --to 40", "the state after 40 ticks"),
        ],
    ),
    (
        "graph",
        &[
            ("graph flow.json --format svg", "draw a definition"),
            ("graph --run last", "draw what has happened in a run"),
        ],
    ),
    (
        "serve",
        &[
            ("serve", "serve on 127.0.0.1:7117"),
            ("serve --bind 0.0.0.0:7117 --host flows.example.org", "serve other machines"),
        ],
    ),
    ("dev", &[("dev flows --open", "serve a folder while it is edited, and open the web UI")]),
    (
        "register",
        &[("register flows --server http://127.0.0.1:7117 --token-file token", "register all definitions of a folder")],
    ),
    ("demo", &[("demo", "five runs to try, with the web UI")]),
    ("init", &[("init flows", "a new project in the folder flows"), ("init --dialect noetl", "a playbook, here")]),
    (
        "start",
        &[
            ("start orders --set customer=acme", "start a registered definition and follow its run"),
            ("start orders@3 --detach", "start version 3, and print the id of the run"),
        ],
    ),
    ("definitions", &[("definitions list", "the definitions of a server")]),
    ("definitions list", &[("definitions list --json", "all definitions for a program")]),
    ("definitions show", &[("definitions show orders", "the inputs, triggers and text of a definition")]),
    ("definitions remove", &[("definitions remove orders", "remove a definition; its runs stay")]),
    ("credentials", &[("credentials list", "the stored credentials, without their values")]),
    (
        "credentials set",
        &[
            ("credentials set shop", "type or paste the value; the terminal does not show it"),
            ("credentials set pg-main --from-file pg.yaml", "fields such as host, user and password"),
            ("credentials set shop --server prod", "store it at a server"),
        ],
    ),
    ("credentials list", &[("credentials list --json", "all of them for a program")]),
    ("credentials remove", &[("credentials remove shop --yes", "remove one without a confirmation")]),
    ("context", &[("context list", "the named servers")]),
    (
        "context add",
        &[("context add prod --server https://flows.example.org --token-file token", "name a server and its token")],
    ),
    ("context list", &[("context list", "the named servers, with the current one")]),
    ("context use", &[("context use prod", "use that server for all commands")]),
    ("context remove", &[("context remove prod", "forget a server")]),
    ("health", &[("health --ready", "exit with 1 unless the server accepts work")]),
    (
        "mock",
        &[
            ("mock mocks.yaml --port 8090", "answer requests from a mock file"),
            ("mock --from flow.json mocks.yaml", "write a mock file for the calls of a definition"),
        ],
    ),
    ("worker", &[("worker --server http://127.0.0.1:7117 --token-file token", "run jobs of a server on this machine")]),
    ("tools", &[("tools", "all tools"), ("tools http", "the inputs and results of one tool")]),
    ("schema", &[("schema events", "the JSON Schema of events"), ("schema zenflow", "that of a dialect's files")]),
    ("explain", &[("explain WND-2001", "the cause of an error and its fix")]),
    ("limits", &[("limits", "all limits that are in force"), ("limits --json", "the same for a program")]),
    ("doctor", &[("doctor", "find stuck runs and damage")]),
    ("repair", &[("repair --dry-run", "list what can be saved and what is lost"), ("repair", "repair the store")]),
    (
        "backup",
        &[
            ("backup /backups/flows", "copy the store, or what has changed since the last backup"),
            ("backup /backups/flows --keep 30 --json", "keep thirty backups"),
        ],
    ),
    (
        "restore",
        &[
            ("restore /backups/flows --store restored", "the newest backup, into a directory of its own"),
            ("restore /backups/flows --at 20261118T020000Z --replace", "an older one, in place of the store"),
        ],
    ),
    (
        "clean",
        &[("clean --older-than 30d --dry-run", "show what would be removed"), ("clean --older-than 30d", "remove it")],
    ),
    ("token", &[("token create ci --scope run,read", "create a token"), ("token list", "list all tokens")]),
    ("token create", &[("token create ci --scope run,read --expires 30d", "a token for 30 days")]),
    ("token list", &[("token list --json", "all tokens for a program")]),
    ("token revoke", &[("token revoke 4f2a", "revoke a token by its id")]),
];

/// Returns the command line of the program, with examples in the help of every command.
pub(crate) fn command() -> Command {
    with_examples(CliArgs::command(), "")
}

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<CliArgs, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let mut parsed = CliArgs::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    parsed.global.host_options = parsed.command.host_options();
    Ok(parsed)
}

fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}").trim().to_owned();
        command.mut_subcommand(name, |one| with_examples(one, &path))
    });
    match EXAMPLES.iter().find(|(name, _)| *name == path) {
        Some((_, examples)) => command.after_help(format_examples(examples)),
        None => command,
    }
}

fn format_examples(examples: &[CommandExample]) -> String {
    let width = examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
    let line = |(line, effect): &CommandExample| format!("  windlass {line:<width$}  {effect}");
    format!("Examples:\n{}", examples.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands without examples.
    fn without_examples(command: &Command, path: &str) -> Vec<String> {
        let inner = command.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help");
        let inner = inner.flat_map(|one| without_examples(one, format!("{path} {}", one.get_name()).trim()));
        let has_examples = command.get_after_help().is_some_and(|help| help.to_string().starts_with("Examples:\n"));
        let own = (!path.is_empty() && !has_examples).then(|| path.to_owned());
        own.into_iter().chain(inner).collect()
    }

    #[test]
    fn every_command_has_examples() {
        assert_eq!(without_examples(&command(), ""), Vec::<String>::new());
    }

    /// Splits a command line as a shell does, as far as the examples need it.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().expect("a word").push(other),
            }
        }
        words
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        for (name, examples) in EXAMPLES {
            for (line, _) in *examples {
                assert!(line.starts_with(name), "{line} is under {name}");
                let words = ["windlass".to_owned()].into_iter().chain(words(line));
                if let Err(error) = command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    /// Flags that several commands have mean the same: one kind of value, and one short form.
    #[test]
    fn flags_are_consistent() {
        let command = command();
        for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            for argument in one.get_arguments() {
                let names = argument.get_value_names().map(|names| names.iter().map(ToString::to_string).collect());
                let expected: Option<(Vec<String>, Option<char>)> = match argument.get_long() {
                    Some("limit") => Some((vec!["N".to_owned()], None)),
                    Some("follow") => Some((Vec::new(), Some('f'))),
                    Some("quiet") => Some((Vec::new(), Some('q'))),
                    Some("label") => Some((vec!["NAME=VALUE".to_owned()], None)),
                    _ => None,
                };
                let Some((values, short)) = expected else { continue };
                let takes_value = argument.get_action().takes_values();
                let names: Vec<String> = if takes_value { names.unwrap_or_default() } else { Vec::new() };
                let place = format!("{} --{}", one.get_name(), argument.get_long().unwrap_or_default());
                assert_eq!((names, argument.get_short()), (values, short), "{place}");
            }
        }
        let globals: Vec<&str> =
            command.get_arguments().filter(|one| one.is_global_set()).filter_map(|one| one.get_long()).collect();
        for flag in ["json", "store", "config", "no-color"] {
            assert!(globals.contains(&flag), "--{flag} belongs to every command");
        }
    }
}
