//! Programs inside a command: words and here-documents that another shell or an interpreter parses again, so that a
//! value in them would run as code.

use std::collections::BTreeSet;

use super::{variables, words};

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
/// The parser of a nested program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NestedProgram {
    /// `sh -c`, and a shell that reads its program from a here-document or a pipe.
    Shell,
    /// `eval` and `trap` of the same shell.
    Eval,
    /// The shell at the other end.
    Remote,
    /// The program of `awk`, `sed` or PowerShell, whose languages run commands.
    Script,
    /// An interpreter of another language.
    Interpreter,
}

/// The destination of the next word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WordRole {
    #[default]
    Argument,
    OutputFile,
    InputFile,
    /// The text after `<<<`.
    Input,
}

/// The kind of an open bracket with commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CommandBracket {
    /// `( … )`.
    #[default]
    Subshell,
    /// `$( … )` and backticks: the output becomes a part of a word of the command around it.
    Output,
    /// `<( … )`: the output becomes a file for the command around it.
    InputFile,
    /// `>( … )`: a file that the command around it writes becomes the input.
    OutputFile,
}

/// The destinations of a standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InputUse {
    /// The parser, if it is a program.
    pub program: Option<NestedProgram>,
    /// The variables that it fills.
    pub variables: Vec<String>,
}

impl InputUse {
    pub(super) fn add(&mut self, other: InputUse) {
        self.program = self.program.or(other.program);
        self.variables.extend(other.variables);
    }
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
    /// Its standard input is a here-document, a file or a text after `<<<`.
    has_input: bool,
    /// The use of its standard input, if it is a group.
    reads: InputUse,
    /// The use of the files `>( … )` that it writes.
    writes: InputUse,
}

/// The commands of one bracket or compound command, which share an input and an output.
#[derive(Debug, Default)]
struct CommandGroup {
    /// The word that ends it; empty for the commands of a bracket.
    end: &'static str,
    has_template: bool,
    documents_before: usize,
    fed: Option<(bool, usize)>,
    reads: InputUse,
}

/// An open command substitution or subshell.
#[derive(Debug)]
struct CommandLevel {
    command: SimpleCommand,
    /// The open groups, the innermost last. The first one holds all commands of the level.
    groups: Vec<CommandGroup>,
    bracket: CommandBracket,
}

/// Follows the commands of a text: one level for each open command substitution or subshell, the innermost last.
#[derive(Debug, Default)]
pub(super) struct CommandTracker {
    outer: Vec<CommandLevel>,
    level: CommandLevel,
    /// The variables that hold values.
    variables: BTreeSet<String>,
    /// Any variable may hold a value.
    is_any: bool,
    functions: BTreeSet<String>,
}

/// The output of commands that have ended, and its use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FedInput {
    pub has_template: bool,
    pub first_document: usize,
    pub input: InputUse,
}

impl NestedProgram {
    pub(super) fn message(self) -> &'static str {
        match self {
            NestedProgram::Shell => "this value becomes part of a program: another shell parses it",
            NestedProgram::Eval => "this value becomes part of a program: the shell parses it again",
            NestedProgram::Remote => "this value becomes part of a program: the shell at the other end parses it",
            NestedProgram::Script => {
                "this value becomes part of a program: an interpreter that runs commands parses it"
            }
            NestedProgram::Interpreter => "this value becomes part of a program: an interpreter parses it",
        }
    }

    /// Returns the message about a variable that holds a value.
    pub(super) fn variable_message(self, name: &str) -> String {
        let name = if name == variables::PARAMETERS { "$1" } else { name };
        self.message().replacen("this value", &format!("the value in the variable `{name}`"), 1)
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
            NestedProgram::Script => {
                "give it a name, `env: {X: \"{{ x }}\"}`, and read it in the program, which stands in single quotes: \
                 `awk '{ print ENVIRON[\"X\"] }'`, in PowerShell `$env:X`; for `sed`, which reads no variable, write `awk`"
            }
            NestedProgram::Interpreter => {
                "give it a name, `env: {X: \"{{ x }}\"}`, and read the variable in the program, which stands in single \
                 quotes"
            }
        }
    }
}

impl CommandTracker {
    /// Begins with variables that hold values, or with the rule that any may.
    pub(super) fn with_variables(variables: BTreeSet<String>, is_any: bool) -> CommandTracker {
        CommandTracker { variables, is_any, ..CommandTracker::default() }
    }

    pub(super) fn into_variables(self) -> BTreeSet<String> {
        self.variables
    }

    pub(super) fn holds_value(&self, variable: &str) -> bool {
        self.is_any || self.variables.contains(variable)
    }

    /// Notes that these variables hold values.
    pub(super) fn fill(&mut self, variables: impl IntoIterator<Item = String>) {
        self.variables.extend(variables);
    }

    /// Begins the body of a function with the name before `()`.
    pub(super) fn define_function(&mut self) {
        let command = &mut self.level.command;
        let name = command.current.take().or_else(|| command.words.pop()).unwrap_or_default();
        if name.ends_with('=') {
            // An empty array.
            command.current = Some(name);
            return;
        }
        self.functions.insert(name);
        command.words.clear();
        command.is_started = false;
    }

    /// Returns the use of the standard input of all commands outside of brackets.
    pub(super) fn outer_input(&self) -> InputUse {
        self.level.groups.first().map(|group| group.reads.clone()).unwrap_or_default()
    }

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
        let found = self.value();
        self.letter('\0');
        found
    }

    /// Notes a value in the current word, and returns the program that it becomes a part of.
    pub(super) fn value(&mut self) -> Option<NestedProgram> {
        let found = self.with_enclosing(self.level.command.program_of_next_word());
        self.mark_value();
        found
    }

    fn mark_value(&mut self) {
        let command = &mut self.level.command;
        command.has_template = true;
        match command.role {
            WordRole::Argument => {
                let current = command.current.as_deref().unwrap_or_default();
                let is_function = |name: &str| self.functions.contains(name);
                let variable = variables::assigned_variable(&command.words, current, is_function);
                self.variables.extend(variable.map(str::to_owned));
            }
            WordRole::Input => self.variables.extend(command.input_use().variables),
            WordRole::OutputFile | WordRole::InputFile => {}
        }
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
        let enclosing = self.outer.iter().zip(inner).filter_map(|(outer, inner)| match inner.bracket {
            CommandBracket::Output => outer.command.program_of_next_word(),
            CommandBracket::InputFile => outer.command.program_of_next_file(),
            CommandBracket::Subshell | CommandBracket::OutputFile => None,
        });
        own.into_iter().chain(enclosing).min_by_key(|program| *program == NestedProgram::Interpreter)
    }

    /// Begins a command inside the current word or command.
    pub(super) fn open(&mut self, documents: usize, bracket: CommandBracket) {
        let inner = CommandLevel::new(documents, bracket);
        self.outer.push(std::mem::replace(&mut self.level, inner));
    }

    pub(super) fn close(&mut self, documents: usize) -> Vec<FedInput> {
        let ended = self.end_command(documents, false);
        let inner = std::mem::replace(&mut self.level, self.outer.pop().unwrap_or_default());
        let has_template = inner.groups.iter().any(|group| group.has_template);
        let reads = inner.groups.into_iter().map(|group| group.reads);
        let command = &mut self.level.command;
        match inner.bracket {
            CommandBracket::Subshell => reads.for_each(|reads| command.reads.add(reads)),
            CommandBracket::OutputFile => reads.for_each(|reads| command.writes.add(reads)),
            CommandBracket::InputFile if has_template && command.role == WordRole::InputFile => {
                self.variables.extend(command.input_use().variables);
            }
            CommandBracket::InputFile | CommandBracket::Output => {}
        }
        if has_template && inner.bracket != CommandBracket::OutputFile {
            self.mark_value();
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
    pub(super) fn redirect(&mut self, role: WordRole) {
        let command = &mut self.level.command;
        // The number of a descriptor: `2>`.
        if command.current.as_ref().is_some_and(|word| word.chars().all(|letter| letter.is_ascii_digit())) {
            command.current = None;
        }
        self.level.end_word();
        self.level.command.has_input |= role != WordRole::OutputFile;
        self.level.command.role = role;
    }

    /// Returns the use of a here-document of the current command.
    pub(super) fn document_input(&mut self) -> InputUse {
        self.level.end_word();
        self.level.command.has_input = true;
        let InputUse { program, variables } = self.level.command.input_use();
        InputUse { program: self.with_enclosing(program), variables }
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
    pub(super) fn end_command(&mut self, documents: usize, pipes: bool) -> Vec<FedInput> {
        let level = &mut self.level;
        level.end_word();
        if level.command.words.is_empty() && level.command.fed.is_some() {
            // A line may end between `|` and the command.
            return Vec::new();
        }
        let next = SimpleCommand { documents_before: documents, ..SimpleCommand::default() };
        let ended = std::mem::replace(&mut level.command, next);
        let fed = ended.fed.unwrap_or((false, ended.documents_before));
        let has_template = fed.0 || ended.has_template;
        if pipes {
            level.command.fed = Some((has_template, fed.1));
        }
        let reads = ended.input_use();
        if let Some(group) = level.groups.last_mut() {
            group.has_template |= has_template;
            if ended.fed.is_none() && !ended.has_input {
                group.reads.add(reads.clone());
            }
        }
        let writes = FedInput { has_template, first_document: fed.1, input: ended.writes };
        let reads = ended.fed.map(|fed| FedInput { has_template: fed.0, first_document: fed.1, input: reads });
        reads.into_iter().chain([writes]).collect()
    }
}

impl Default for CommandLevel {
    fn default() -> CommandLevel {
        CommandLevel::new(0, CommandBracket::Subshell)
    }
}

impl CommandLevel {
    fn new(documents_before: usize, bracket: CommandBracket) -> CommandLevel {
        let command = SimpleCommand { documents_before, ..SimpleCommand::default() };
        let all = CommandGroup { documents_before, ..CommandGroup::default() };
        CommandLevel { command, groups: vec![all], bracket }
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
        command.is_started = !word.is_empty() && !words::KEYWORDS.contains(&word.as_str());
    }

    /// Ends the innermost group with this last word: the current command stands for it from now on. If its beginning
    /// was not recognized (`f() {`), all commands of the level count as the group.
    fn end_group(&mut self, end: &str) {
        let at = self.groups.iter().rposition(|group| group.end == end).unwrap_or(0);
        let ended = &self.groups[at..];
        self.command.has_template |= ended.iter().any(|group| group.has_template);
        self.command.documents_before = ended[0].documents_before;
        self.command.fed = ended[0].fed.or(self.command.fed);
        ended.iter().for_each(|group| self.command.reads.add(group.reads.clone()));
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
            WordRole::Argument => words::program_of_argument(&self.words, self.current.as_deref().unwrap_or_default()),
            WordRole::OutputFile | WordRole::InputFile => None,
            WordRole::Input => self.input_use().program,
        }
    }

    /// Returns the program that the content of the next word, a file, becomes.
    fn program_of_next_file(&self) -> Option<NestedProgram> {
        match self.role {
            WordRole::Argument => words::program_of_file(&self.words),
            WordRole::InputFile => self.input_use().program,
            WordRole::OutputFile | WordRole::Input => None,
        }
    }

    /// Returns the use of the standard input.
    fn input_use(&self) -> InputUse {
        let mut all = self.reads.clone();
        let program = words::program_of_input(&self.words);
        all.add(InputUse { program, variables: variables::filled_variables(&self.words) });
        all
    }
}
