//! The part of the shell that the commands of error pages use.

/// A line of an `sh` block.
pub(super) enum ShellLine {
    /// `ulimit -f BLOCKS`: limits the size of files for the commands after it.
    FileLimit(String),
    /// `NAME=$(windlass …)`: keeps the output of a command.
    Capture(String, ShellCommand),
    /// `windlass … &`
    Background(ShellCommand),
    Foreground(ShellCommand),
}

/// A `windlass` command.
pub(super) struct ShellCommand {
    /// Environment variables: `NAME=VALUE windlass …`.
    pub variables: Vec<(String, String)>,
    /// The arguments of `windlass`.
    pub arguments: Vec<String>,
}

impl ShellLine {
    pub(super) fn parse(line: &str) -> ShellLine {
        // The shell looks for a program in the PATH of the command itself.
        let line = line.replace("$(which windlass)", "windlass");
        if let Some(blocks) = line.strip_prefix("ulimit -f ") {
            return ShellLine::FileLimit(blocks.to_owned());
        }
        if let Some((name, command)) = line.strip_suffix(')').and_then(|line| line.split_once("=$(")) {
            return ShellLine::Capture(name.to_owned(), ShellCommand::parse(command));
        }
        match line.strip_suffix(" &") {
            Some(command) => ShellLine::Background(ShellCommand::parse(command)),
            None => ShellLine::Foreground(ShellCommand::parse(&line)),
        }
    }
}

impl ShellCommand {
    fn parse(command: &str) -> ShellCommand {
        let words = shell_words(command);
        let program = words.iter().position(|word| word == "windlass");
        let program = program.unwrap_or_else(|| panic!("not a command of windlass: {command}"));
        let variable = |word: &String| {
            let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("not a variable: {word}"));
            (name.to_owned(), value.to_owned())
        };
        ShellCommand {
            variables: words[..program].iter().map(variable).collect(),
            arguments: words[program + 1..].to_vec(),
        }
    }

    /// Returns the subcommand, such as `run`.
    pub(super) fn name(&self) -> &str {
        self.arguments.first().map_or("", String::as_str)
    }
}

/// Splits a command into words as a shell does; only single quotes are known.
fn shell_words(command: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for letter in command.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().expect("a word").push(letter),
        }
    }
    assert!(!quoted && !command.contains(['"', '\\', '$', '|', '&', ';', '<', '>']), "not a plain command: {command}");
    words.retain(|word| !word.is_empty());
    words
}
