//! Programs inside a command: words and here-documents that another shell or an interpreter parses again, so that a
//! value in them would run as code.

/// Shells, by the names of their programs.
const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "$SHELL", "${SHELL}"];
/// Interpreters of other languages, and the options that take a program.
const INTERPRETERS: [(&str, &[&str]); 6] = [
    ("python", &["-c"]),
    ("perl", &["-e", "-E"]),
    ("ruby", &["-e"]),
    ("node", &["-e", "-p", "--eval", "--print"]),
    ("php", &["-r"]),
    ("psql", &["-c", "--command"]),
];
/// Words before a command that do not change which program runs.
const KEYWORDS: [&str; 12] =
    ["if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "builtin", "command"];
/// Programs that run the rest of their words as a program, and their options that take a value.
const WRAPPERS: [(&str, &str); 9] = [
    ("sudo", "ugpCh"),
    ("doas", "u"),
    ("env", "uCS"),
    ("nohup", ""),
    ("exec", "a"),
    ("nice", "n"),
    ("setsid", ""),
    ("timeout", "ks"),
    ("sshpass", "pfd"),
];
/// Options of `ssh` that take a value.
const SSH_VALUES: &str = "bcDEeFIiJLlmOopQRSWw";

/// The parser of a nested program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestedProgram {
    /// `sh -c`, and a shell that reads its program from a here-document or a pipe.
    Shell,
    /// `eval` and `trap` of the same shell.
    Eval,
    /// The shell at the other end.
    Remote,
    /// An interpreter of another language.
    Interpreter,
}

/// The destination of the next word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WordRole {
    #[default]
    Argument,
    File,
    /// The text after `<<<`.
    Input,
}

/// One simple command, as far as it has been read.
#[derive(Debug, Default)]
struct SimpleCommand {
    /// Its words without quotes.
    words: Vec<String>,
    /// The word that is being read.
    current: Option<String>,
    role: WordRole,
    has_template: bool,
    /// The number of here-documents before it.
    documents_before: usize,
    /// The commands whose output it reads: whether they contain a template, and their first here-document.
    fed: Option<(bool, usize)>,
}

/// Follows the commands of a text: one for each open command substitution or subshell, the innermost last.
#[derive(Debug, Default)]
pub(super) struct CommandTracker {
    outer: Vec<SimpleCommand>,
    command: SimpleCommand,
}

/// A command that has ended and runs what it reads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FedProgram {
    pub has_template: bool,
    pub first_document: usize,
    pub program: NestedProgram,
}

impl NestedProgram {
    pub(super) fn message(self) -> &'static str {
        match self {
            NestedProgram::Shell => "this value becomes part of a program: another shell parses it",
            NestedProgram::Eval => "this value becomes part of a program: the shell parses it again",
            NestedProgram::Remote => "this value becomes part of a program: the shell at the other end parses it",
            NestedProgram::Interpreter => "this value becomes part of a program: an interpreter parses it",
        }
    }

    /// Returns the safe spelling.
    pub(super) fn hint(self) -> &'static str {
        match self {
            NestedProgram::Shell => {
                "pass it as an argument, `sh -c 'echo \"$1\"' sh {{ x }}`, or give it a name, \
                 `env: {X: \"{{ x }}\"}`, and write \"$X\" inside single quotes: `sh -c 'echo \"$X\"'`"
            }
            NestedProgram::Eval => {
                "give it a name, `env: {X: \"{{ x }}\"}`, and write \"$X\" inside single quotes: `eval 'echo \"$X\"'`"
            }
            NestedProgram::Remote => {
                "send it over the standard input: `stdin: \"{{ x }}\"`, and `ssh host 'read -r X; echo \"$X\"'`"
            }
            NestedProgram::Interpreter => {
                "give it a name, `env: {X: \"{{ x }}\"}`, and read the variable in the program, which stands in single \
                 quotes"
            }
        }
    }
}

impl CommandTracker {
    /// Adds a character of a word, without its quotes.
    pub(super) fn letter(&mut self, letter: char) {
        self.command.current.get_or_insert_default().push(letter);
    }

    /// Begins a word, which may stay empty.
    pub(super) fn quote(&mut self) {
        self.command.current.get_or_insert_default();
    }

    /// Adds a template to the current word, and returns the program that it becomes a part of.
    pub(super) fn template(&mut self) -> Option<NestedProgram> {
        let found = self.command.program_of_next_word();
        self.command.has_template = true;
        self.letter('\0');
        found
    }

    /// Begins a command inside the current word or command.
    pub(super) fn open(&mut self, documents: usize) {
        let inner = SimpleCommand { documents_before: documents, ..SimpleCommand::default() };
        self.outer.push(std::mem::replace(&mut self.command, inner));
    }

    pub(super) fn close(&mut self, documents: usize) -> Option<FedProgram> {
        let ended = self.end_command(documents, false);
        let inner = std::mem::replace(&mut self.command, self.outer.pop().unwrap_or_default());
        self.command.has_template |= inner.has_template;
        self.quote();
        ended
    }

    pub(super) fn end_word(&mut self) {
        self.command.end_word();
    }

    /// Begins a redirection: its target is no argument.
    pub(super) fn redirect(&mut self, is_text: bool) {
        // The number of a descriptor: `2>`.
        if self.command.current.as_ref().is_some_and(|word| word.chars().all(|letter| letter.is_ascii_digit())) {
            self.command.current = None;
        }
        self.command.end_word();
        self.command.role = if is_text { WordRole::Input } else { WordRole::File };
    }

    /// Returns the parser of a here-document of the current command, if it is a program.
    pub(super) fn document_program(&mut self) -> Option<NestedProgram> {
        self.command.end_word();
        self.command.reads_program()
    }

    /// Ends the current command. `pipes`: the next one reads its output.
    pub(super) fn end_command(&mut self, documents: usize, pipes: bool) -> Option<FedProgram> {
        self.command.end_word();
        if self.command.words.is_empty() && self.command.fed.is_some() {
            // A line may end between `|` and the command.
            return None;
        }
        let next = SimpleCommand { documents_before: documents, ..SimpleCommand::default() };
        let ended = std::mem::replace(&mut self.command, next);
        let fed = ended.fed.unwrap_or((false, ended.documents_before));
        if pipes {
            self.command.fed = Some((fed.0 || ended.has_template, fed.1));
        }
        let program = ended.fed.and(ended.reads_program())?;
        Some(FedProgram { has_template: fed.0, first_document: fed.1, program })
    }
}

impl SimpleCommand {
    fn end_word(&mut self) {
        let Some(word) = self.current.take() else { return };
        if std::mem::take(&mut self.role) == WordRole::Argument {
            self.words.push(word);
        }
    }

    fn program_of_next_word(&self) -> Option<NestedProgram> {
        match self.role {
            WordRole::Argument => program_of_argument(&self.words),
            WordRole::File => None,
            WordRole::Input => self.reads_program(),
        }
    }

    /// Returns the program that the command reads from its standard input.
    fn reads_program(&self) -> Option<NestedProgram> {
        let words = own_words(&self.words);
        if let Some(command) = remote_command(words) {
            let shells = command.iter().flat_map(|word| word.split_whitespace()).map(str::to_owned).collect::<Vec<_>>();
            return (shells.is_empty() || reads_script(own_words(&shells))).then_some(NestedProgram::Remote);
        }
        reads_script(words).then_some(NestedProgram::Shell)
    }
}

/// Returns the program that the argument after these words becomes a part of.
pub(super) fn program_of_argument(words: &[String]) -> Option<NestedProgram> {
    let own = own_words(words);
    match own.first().map(|word| base_name(word)) {
        Some("eval") => return Some(NestedProgram::Eval),
        Some("trap") if own.len() == 1 => return Some(NestedProgram::Eval),
        Some("su" | "runuser") if matches!(own.last().map(String::as_str), Some("-c" | "--command")) => {
            return Some(NestedProgram::Shell);
        }
        _ => {}
    }
    if remote_command(own).is_some() {
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

/// Returns the words from the program on: without assignments, keywords, and programs that run another one.
fn own_words(mut words: &[String]) -> &[String] {
    while let Some((first, rest)) = words.split_first() {
        let name = base_name(first);
        let assigns = first.split_once('=').is_some_and(|(name, _)| is_name(name));
        if assigns || KEYWORDS.contains(&name) {
            words = rest;
            continue;
        }
        let Some((_, values)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) else { break };
        words = &rest[option_count(rest, values)..];
        if name == "timeout" {
            words = words.split_first().map_or(words, |(_, rest)| rest);
        }
    }
    words
}

/// Returns the number of leading words that are options or their values; `values` are the letters that take one.
fn option_count(words: &[String], values: &str) -> usize {
    leading_options(words, |word| word.len() == 2 && word.ends_with(|letter| values.contains(letter)))
}

/// Returns the same for a shell, whose options may be combined: `-euo pipefail`.
fn shell_option_count(words: &[String]) -> usize {
    leading_options(words, |word| !word.starts_with("--") && word.ends_with(['o', 'O']))
}

fn leading_options(words: &[String], takes_value: impl Fn(&str) -> bool) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.len() > 1 && word.starts_with('-')) {
        at += if takes_value(word) { 2 } else { 1 };
        if word == "--" {
            break;
        }
    }
    at.min(words.len())
}

/// Returns the words that `ssh` passes to the shell at the other end; None if the host is still missing.
fn remote_command(words: &[String]) -> Option<&[String]> {
    let (program, rest) = words.split_first()?;
    let after = &rest[option_count(rest, SSH_VALUES)..];
    let (_, command) = after.split_first().filter(|_| base_name(program) == "ssh")?;
    Some(command)
}

/// Returns true if the next word is the script of a shell with these options: `-c`, `-lc`, `-e -c`.
fn script_follows(options: &[String]) -> bool {
    let takes_script = |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    shell_option_count(options) == options.len() && options.iter().any(takes_script)
}

/// Returns true if a shell with these words reads its script from its standard input.
fn reads_script(words: &[String]) -> bool {
    let Some((_, rest)) = words.split_first().filter(|(shell, _)| is_shell(shell)) else { return false };
    let has = |letter: char| rest.iter().any(|word| word.starts_with('-') && word.contains(letter));
    !has('c') && (shell_option_count(rest) == rest.len() || has('s') || rest.first().is_some_and(|word| word == "-"))
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&base_name(word))
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

fn is_name(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    !text.is_empty() && text.chars().all(is_part) && !text.starts_with(|letter: char| letter.is_ascii_digit())
}
