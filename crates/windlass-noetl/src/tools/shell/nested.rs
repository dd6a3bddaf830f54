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
/// Compound commands: their first and their last word.
const GROUPS: [(&str, &str); 7] = [
    ("{", "}"),
    ("if", "fi"),
    ("while", "done"),
    ("until", "done"),
    ("for", "done"),
    ("select", "done"),
    ("case", "esac"),
];
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
/// Long options of a shell that take a value.
const SHELL_VALUES: [&str; 2] = ["--rcfile", "--init-file"];
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
    /// Its program has been read: the next word is neither a keyword nor the end of a group.
    is_started: bool,
    has_template: bool,
    /// The number of here-documents before it.
    documents_before: usize,
    /// The commands whose output it reads: whether they contain a template, and their first here-document.
    fed: Option<(bool, usize)>,
    /// It has a here-document or a text after `<<<`.
    has_input: bool,
    /// The parser of its standard input, if it is a group that contains a shell.
    reads: Option<NestedProgram>,
}

/// The commands of one bracket or compound command, which share an input and an output.
#[derive(Debug, Default)]
struct CommandGroup {
    /// The word that ends it; empty for the commands of a bracket.
    end: &'static str,
    has_template: bool,
    documents_before: usize,
    fed: Option<(bool, usize)>,
    reads: Option<NestedProgram>,
}

/// An open command substitution or subshell.
#[derive(Debug)]
struct CommandLevel {
    command: SimpleCommand,
    /// The open groups, the innermost last. The first one holds all commands of the level.
    groups: Vec<CommandGroup>,
    /// The output becomes a part of a word of the command around it.
    is_substitution: bool,
}

/// Follows the commands of a text: one level for each open command substitution or subshell, the innermost last.
#[derive(Debug, Default)]
pub(super) struct CommandTracker {
    outer: Vec<CommandLevel>,
    level: CommandLevel,
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
        self.level.command.current.get_or_insert_default().push(letter);
    }

    /// Begins a word, which may stay empty.
    pub(super) fn quote(&mut self) {
        self.level.command.current.get_or_insert_default();
    }

    /// Adds a template to the current word, and returns the program that it becomes a part of.
    pub(super) fn template(&mut self) -> Option<NestedProgram> {
        let found = self.with_enclosing(self.level.command.program_of_next_word());
        self.level.command.has_template = true;
        self.letter('\0');
        found
    }

    /// Adds a template in the text of a here-document. Its command has ended, so the template counts for the group.
    pub(super) fn document_template(&mut self) {
        self.level.groups.last_mut().into_iter().for_each(|group| group.has_template = true);
        self.level.command.fed.iter_mut().for_each(|fed| fed.0 = true);
    }

    /// Returns `own` or the program that the output of the open command substitutions becomes a part of; a program
    /// that is refused before one that is only reported.
    fn with_enclosing(&self, own: Option<NestedProgram>) -> Option<NestedProgram> {
        let inner = self.outer.iter().skip(1).chain([&self.level]);
        let substituted = self.outer.iter().zip(inner).filter(|(_, inner)| inner.is_substitution);
        let enclosing = substituted.filter_map(|(outer, _)| outer.command.program_of_next_word());
        own.into_iter().chain(enclosing).min_by_key(|program| *program == NestedProgram::Interpreter)
    }

    /// Begins a command inside the current word or command.
    pub(super) fn open(&mut self, documents: usize, is_substitution: bool) {
        let inner = CommandLevel::new(documents, is_substitution);
        self.outer.push(std::mem::replace(&mut self.level, inner));
    }

    pub(super) fn close(&mut self, documents: usize) -> Option<FedProgram> {
        let ended = self.end_command(documents, false);
        let inner = std::mem::replace(&mut self.level, self.outer.pop().unwrap_or_default());
        let command = &mut self.level.command;
        command.has_template |= inner.groups.iter().any(|group| group.has_template);
        if !inner.is_substitution {
            command.reads = command.reads.or(inner.groups.iter().find_map(|group| group.reads));
        }
        self.quote();
        ended
    }

    pub(super) fn end_word(&mut self) {
        self.level.end_word();
    }

    /// Ends the current word before `)`, and returns true if the bracket belongs to a pattern of `case`.
    pub(super) fn ends_pattern(&mut self) -> bool {
        self.level.end_word();
        self.level.groups.last().is_some_and(|group| group.end == "esac")
    }

    /// Begins a redirection: its target is no argument.
    pub(super) fn redirect(&mut self, is_text: bool) {
        let command = &mut self.level.command;
        // The number of a descriptor: `2>`.
        if command.current.as_ref().is_some_and(|word| word.chars().all(|letter| letter.is_ascii_digit())) {
            command.current = None;
        }
        self.level.end_word();
        self.level.command.has_input |= is_text;
        self.level.command.role = if is_text { WordRole::Input } else { WordRole::File };
    }

    /// Returns the parser of a here-document of the current command, if it is a program.
    pub(super) fn document_program(&mut self) -> Option<NestedProgram> {
        self.level.end_word();
        self.level.command.has_input = true;
        self.with_enclosing(self.level.command.reads_program())
    }

    /// Forgets the here-documents, whose texts have been read.
    pub(super) fn forget_documents(&mut self) {
        for level in self.outer.iter_mut().chain([&mut self.level]) {
            level.command.documents_before = 0;
            level.command.fed.iter_mut().for_each(|fed| fed.1 = 0);
            for group in &mut level.groups {
                group.documents_before = 0;
                group.fed.iter_mut().for_each(|fed| fed.1 = 0);
            }
        }
    }

    /// Ends the current command. `pipes`: the next one reads its output.
    pub(super) fn end_command(&mut self, documents: usize, pipes: bool) -> Option<FedProgram> {
        let level = &mut self.level;
        level.end_word();
        if level.command.words.is_empty() && level.command.fed.is_some() {
            // A line may end between `|` and the command.
            return None;
        }
        let next = SimpleCommand { documents_before: documents, ..SimpleCommand::default() };
        let ended = std::mem::replace(&mut level.command, next);
        let fed = ended.fed.unwrap_or((false, ended.documents_before));
        let has_template = fed.0 || ended.has_template;
        if pipes {
            level.command.fed = Some((has_template, fed.1));
        }
        let program = ended.reads_program();
        if let Some(group) = level.groups.last_mut() {
            group.has_template |= has_template;
            group.reads = group.reads.or(program.filter(|_| ended.fed.is_none() && !ended.has_input));
        }
        let program = ended.fed.and(program)?;
        Some(FedProgram { has_template: fed.0, first_document: fed.1, program })
    }
}

impl Default for CommandLevel {
    fn default() -> CommandLevel {
        CommandLevel::new(0, false)
    }
}

impl CommandLevel {
    fn new(documents_before: usize, is_substitution: bool) -> CommandLevel {
        let command = SimpleCommand { documents_before, ..SimpleCommand::default() };
        let all = CommandGroup { documents_before, ..CommandGroup::default() };
        CommandLevel { command, groups: vec![all], is_substitution }
    }

    /// Ends the current word, which may begin or end a group.
    fn end_word(&mut self) {
        let command = &mut self.command;
        let Some(word) = command.end_word().filter(|_| !command.is_started) else { return };
        if GROUPS.iter().any(|(_, end)| *end == word) {
            return self.end_group(&word);
        }
        if let Some((_, end)) = GROUPS.iter().find(|(first, _)| *first == word) {
            let (documents_before, fed) = (command.documents_before, command.fed);
            self.groups.push(CommandGroup { end, documents_before, fed, ..CommandGroup::default() });
        }
        // An empty word is a subshell, which `}` may follow.
        command.is_started = !word.is_empty() && !KEYWORDS.contains(&word.as_str());
    }

    /// Ends the innermost group with this last word: the current command stands for it from now on. If its beginning
    /// was not recognized (`f() {`), all commands of the level count as the group.
    fn end_group(&mut self, end: &str) {
        let at = self.groups.iter().rposition(|group| group.end == end).unwrap_or(0);
        let ended = &self.groups[at..];
        self.command.has_template |= ended.iter().any(|group| group.has_template);
        self.command.documents_before = ended[0].documents_before;
        self.command.fed = ended[0].fed.or(self.command.fed);
        self.command.reads = self.command.reads.or(ended.iter().find_map(|group| group.reads));
        self.groups.truncate(at.max(1));
    }
}

impl SimpleCommand {
    /// Ends the current word, and returns it if it is an argument.
    fn end_word(&mut self) -> Option<String> {
        let word = self.current.take()?;
        if std::mem::take(&mut self.role) != WordRole::Argument {
            return None;
        }
        self.words.push(word.clone());
        Some(word)
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
        if self.reads.is_some() {
            return self.reads;
        }
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
        words = rest.get(option_count(rest, values)..).unwrap_or_default();
        if name == "timeout" {
            words = words.split_first().map_or(words, |(_, rest)| rest);
        }
    }
    words
}

/// Returns the number of leading words that are options or their values; `values` are the letters that take one. It is
/// larger than the number of words if the last value is still missing.
fn option_count(words: &[String], values: &str) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.len() > 1 && word.starts_with('-')) {
        at += if word.len() == 2 && word.ends_with(|letter| values.contains(letter)) { 2 } else { 1 };
        if word == "--" {
            break;
        }
    }
    at
}

/// Returns the words that `ssh` passes to the shell at the other end; None if the host is still missing, or the value of
/// an option. Options may follow the host too, unless `--` precedes it.
fn remote_command(words: &[String]) -> Option<&[String]> {
    let (_, rest) = words.split_first().filter(|(program, _)| base_name(program) == "ssh")?;
    let host = option_count(rest, SSH_VALUES);
    let command = rest.get(host + 1..)?;
    if rest[..host].last().is_some_and(|word| word == "--") {
        return Some(command);
    }
    command.get(option_count(command, SSH_VALUES)..)
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
}

impl ShellOptions {
    /// Reads the words after the name of the shell, up to the first operand. The letters `o` and `O` take a value, also
    /// at the end of others: `-euo pipefail`.
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
                break;
            }
            let is_long = word.starts_with("--");
            let takes_value = SHELL_VALUES.contains(&word.as_str()) || !is_long && word.ends_with(['o', 'O']);
            if takes_value {
                words.next();
            }
            let has = |letter: char| !is_long && word.starts_with('-') && word.contains(letter);
            options.takes_script |= has('c');
            options.reads_input |= has('s');
        }
        options
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
    !options.takes_script && (options.reads_input || !options.has_operand)
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
