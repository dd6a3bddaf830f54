//! The words of a simple command: which program runs, and which of its words, files and inputs it parses as code.

use super::commands::{is_input_file, program_of_operand, program_of_operand_input};
use super::nested::NestedProgram;

/// Shells, by the names of their programs.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "$SHELL", "${SHELL}"];
/// Interpreters of other languages, and the options that take a program.
const INTERPRETERS: [(&str, &[&str]); 10] = [
    ("python", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "-p", "--eval", "--print"]),
    ("php", &["-r"]),
    ("psql", &["-c", "--command"]),
    ("lua", &["-e"]),
    ("Rscript", &["-e"]),
    ("deno", &["eval"]),
    ("bun", &["-e", "-p"]),
];
/// Words before a command that do not change which program runs.
pub(super) const KEYWORDS: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "builtin", "command"];
/// Programs that run the rest of their words as a program, and their options that take a value.
const WRAPPERS: [(&str, &str); 13] = [
    ("sudo", "ugpCh"),
    ("doas", "u"),
    ("env", "uCS"),
    ("nohup", ""),
    ("exec", "a"),
    ("nice", "n"),
    ("setsid", ""),
    ("timeout", "ks"),
    ("sshpass", "pfd"),
    ("busybox", ""),
    ("stdbuf", "ioe"),
    ("ionice", "cnpPu"),
    ("flock", "wE"),
];
/// Long options of a shell that take a value.
const SHELL_VALUES: [&str; 2] = ["--rcfile", "--init-file"];
/// Options of `ssh` that take a value.
const SSH_VALUES: &str = "bcDEeFIiJLlmOopQRSWw";
/// Settings of `ssh` (`-o NAME=VALUE`) that are commands for the shell here, in lower case.
const SSH_COMMANDS: [&str; 3] = ["proxycommand", "localcommand", "knownhostscommand"];

/// Returns the program that a value becomes a part of, after these words and the beginning of its own word.
pub(super) fn program_of_argument(words: &[String], current: &str) -> Option<NestedProgram> {
    let own = own_words(words);
    match own.first().map(|word| base_name(word)) {
        Some("eval") => return Some(NestedProgram::Eval),
        Some("trap") if own.len() == 1 => return Some(NestedProgram::Eval),
        Some("su" | "runuser") if is_user_command(own, current) => return Some(NestedProgram::Shell),
        Some("ssh" | "scp" | "sftp") if is_ssh_command(current) => return Some(NestedProgram::Shell),
        _ => {}
    }
    if let Some(program) = program_of_operand(own, current) {
        return Some(program);
    }
    if let Some(remote) = remote_command(own)
        && !(remote.takes_options && attaches_value(current, SSH_VALUES))
    {
        return Some(NestedProgram::Remote);
    }
    let after = |at: usize| &words[at + 1..];
    let shell = |at: &usize| is_shell(&words[*at]) && script_follows(after(*at));
    if (0..words.len()).any(|at| shell(&at)) {
        return Some(NestedProgram::Shell);
    }
    let interpreter = |at: usize| {
        let name = base_name(&words[at]).trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let options = INTERPRETERS.iter().find(|(known, _)| *known == name).map(|(_, options)| *options);
        options.is_some_and(|options| words.last().is_some_and(|last| options.contains(&last.as_str())))
    };
    (0..words.len()).any(interpreter).then_some(NestedProgram::Interpreter)
}

/// Returns the program that the content of the next word, a file, is.
pub(super) fn program_of_file(words: &[String]) -> Option<NestedProgram> {
    let (first, rest) = own_words(words).split_first()?;
    if matches!(first.as_str(), "source" | ".") {
        return rest.is_empty().then_some(NestedProgram::Eval);
    }
    let is_settings = rest.last().is_some_and(|last| SHELL_VALUES.contains(&last.as_str()));
    (is_shell(first) && (is_settings || ShellOptions::new(rest).file_follows())).then_some(NestedProgram::Shell)
}

/// Returns the program that a command with these words reads from its standard input.
pub(super) fn program_of_input(words: &[String]) -> Option<NestedProgram> {
    let words = own_words(words);
    if let Some(remote) = remote_command(words) {
        let parts = remote.words.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned).collect::<Vec<_>>();
        return (parts.is_empty() || reads_script(own_words(&parts))).then_some(NestedProgram::Remote);
    }
    if let Some(program) = program_of_operand_input(words) {
        return Some(program);
    }
    reads_script(words).then_some(NestedProgram::Shell)
}

/// Returns true if the word of `su` is its command: `-c`, `-lc`, `-c'…'`, `--command=…`.
fn is_user_command(words: &[String], current: &str) -> bool {
    let is_short = |word: &str| word.starts_with('-') && !word.starts_with("--");
    let follows = words.last().is_some_and(|last| last == "--command" || is_short(last) && last.ends_with('c'));
    follows || current.starts_with("--command=") || attaches_value(current, "c")
}

/// Returns true if the word is a setting of `ssh` that a shell runs.
fn is_ssh_command(current: &str) -> bool {
    let setting = current.strip_prefix("-o").unwrap_or(current).trim_start().to_ascii_lowercase();
    let rest = SSH_COMMANDS.iter().find_map(|command| setting.strip_prefix(command));
    rest.is_some_and(|rest| rest.starts_with(['=', ' ']))
}

/// Returns the words from the program on: without assignments, keywords, and programs that run another one.
pub(super) fn own_words(mut words: &[String]) -> &[String] {
    while let Some((first, rest)) = words.split_first() {
        let name = base_name(first);
        let assigns = first.split_once('=').is_some_and(|(name, _)| is_name(name));
        if assigns || KEYWORDS.contains(&name) {
            words = rest;
            continue;
        }
        let Some((_, values)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else { break };
        let inner = rest.get(option_count(rest, values)..).unwrap_or_default();
        let after_operand = inner.split_first().map_or(inner, |(_, rest)| rest);
        words = match name {
            "timeout" => after_operand,
            // `flock FILE -c …` runs a text.
            "flock" if after_operand.first().is_none_or(|word| matches!(word.as_str(), "-c" | "--command")) => break,
            "flock" => after_operand,
            _ => inner,
        };
    }
    words
}

/// Returns the number of leading words that are options or their values; `values` are the letters that take one. It is
/// larger than the number of words if the last value is still missing.
fn option_count(words: &[String], values: &str) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.len() > 1 && word.starts_with('-')) {
        at += if value_position(word, values) == Some(word.len()) { 2 } else { 1 };
        if word == "--" {
            break;
        }
    }
    at
}

/// Returns the position after the letter of a short option that takes a value, also behind others: 3 for `-vp22`.
pub(super) fn value_position(word: &str, values: &str) -> Option<usize> {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    letters.find(|letter| values.contains(letter)).map(|at| at + 2)
}

/// Returns true if a value at the end of this word is that of an option: `-p`, `-o Port=`.
fn attaches_value(word: &str, values: &str) -> bool {
    value_position(word, values).is_some()
}

/// The words that `ssh` passes to the shell at the other end.
struct RemoteCommand<'w> {
    words: &'w [String],
    /// The next word may be an option of `ssh`.
    takes_options: bool,
}

/// Returns the command of `ssh`; None if the host is still missing, or the value of an option. Options may follow the
/// host too, unless `--` precedes them.
fn remote_command(words: &[String]) -> Option<RemoteCommand<'_>> {
    let ends_options = |options: &[String]| options.last().is_some_and(|word| word == "--");
    let (_, rest) = words.split_first().filter(|(program, _)| base_name(program) == "ssh")?;
    let host = option_count(rest, SSH_VALUES);
    let after = rest.get(host + 1..)?;
    if ends_options(&rest[..host]) {
        return Some(RemoteCommand { words: after, takes_options: false });
    }
    let options = option_count(after, SSH_VALUES);
    let words = after.get(options..)?;
    Some(RemoteCommand { words, takes_options: words.is_empty() && !ends_options(&after[..options]) })
}

/// The options of a shell.
#[derive(Debug, Default)]
struct ShellOptions {
    /// `-c`, also combined with others: `-lc`.
    takes_script: bool,
    /// `-s`.
    reads_input: bool,
    /// A word after the options: the script or its file.
    has_operand: bool,
    /// The file is the standard input.
    is_input: bool,
}

impl ShellOptions {
    /// Reads the words after the name of the shell, up to the first operand. The letters `o` and `O` take the next word
    /// as their value, also among others: `-euo pipefail`, `-oe pipefail`.
    fn new(words: &[String]) -> ShellOptions {
        let mut options = ShellOptions::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "-" || word == "--" {
                options.has_operand = words.next().is_some();
                break;
            }
            if !word.starts_with(['-', '+']) {
                options.has_operand = true;
                options.is_input = is_input_file(word);
                break;
            }
            let is_long = word.starts_with("--");
            let values = if is_long {
                usize::from(SHELL_VALUES.contains(&word.as_str()))
            } else {
                word.matches(['o', 'O']).count()
            };
            words.by_ref().take(values).for_each(drop);
            let has = |letter: char| !is_long && word.starts_with('-') && word.contains(letter);
            options.takes_script |= has('c');
            options.reads_input |= has('s');
        }
        options
    }

    /// Returns true if the next word is the file of the script.
    fn file_follows(&self) -> bool {
        !self.takes_script && !self.reads_input && !self.has_operand
    }
}

/// Returns true if the next word is the script of a shell with these words: `-c`, `-lc`, `-e -c`.
fn script_follows(words: &[String]) -> bool {
    let options = ShellOptions::new(words);
    options.takes_script && !options.has_operand
}

/// Returns true if a shell with these words reads its script from its standard input.
fn reads_script(words: &[String]) -> bool {
    let Some((_, rest)) = words.split_first().filter(|(shell, _)| is_shell(shell)) else { return false };
    let options = ShellOptions::new(rest);
    !options.takes_script && (options.reads_input || !options.has_operand || options.is_input)
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&base_name(word))
}

pub(super) fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

pub(super) fn is_name(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|letter: char| letter.is_ascii_digit())
}
