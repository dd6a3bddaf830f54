//! Templates in a shell text: a value is quoted as its position requires.

use std::collections::BTreeSet;

use super::nested::{CommandBracket, CommandTracker, FedInput, InputUse, NestedProgram, WordRole};
use super::variables;
use crate::expr;

const STATEMENT: &str = "`{% … %}` and `{# … #}` are not evaluated in a command";

/// A problem of a text.
#[derive(Debug, PartialEq)]
pub(super) enum QuotingProblem {
    Refused(&'static str),
    /// A value would become a part of a program.
    Nested(NestedProgram),
    /// The value of a variable would.
    NestedVariable(String, NestedProgram),
}

/// The values that a text receives, besides its templates.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedValues {
    /// The variables that hold values.
    pub variables: BTreeSet<String>,
    /// Any variable may hold a value.
    pub is_any: bool,
    /// The standard input is a value.
    pub is_input: bool,
}

#[derive(Default)]
pub(super) struct ShellText<'s> {
    pub out: String,
    /// The templates, in order.
    pub templates: Vec<&'s str>,
    pub remarks: Vec<QuotingProblem>,
    /// Open quotes and brackets, the innermost last; `$` stands for `$'`.
    open: Vec<char>,
    /// Here-documents whose text begins on the next line.
    documents: Vec<HereDocument<'s>>,
    commands: CommandTracker,
}

struct HereDocument<'s> {
    end: &'s str,
    is_literal: bool,
    tabs: bool,
    /// The use of its text.
    input: InputUse,
}

/// Replaces the templates of a shell text by variables; `first` is the number of the first variable.
pub(super) fn quote_templates<'s>(source: &'s str, first: usize, received: &ReceivedValues) -> ShellText<'s> {
    let commands = CommandTracker::with_variables(received.variables.clone(), received.is_any);
    let mut shell_text = ShellText { commands, ..ShellText::default() };
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let length = shell_text.take(rest, letter, first);
        rest = &rest[length..];
    }
    shell_text.end_command(false);
    if received.is_input {
        let input = shell_text.commands.outer_input();
        shell_text.use_input(&input);
    }
    shell_text
}

/// The maximum number of times that texts are read to find variables.
const MAX_PASSES: usize = 16;

/// Adds the variables that the texts, parts of one program, fill with values. A text may use a variable before it
/// assigns it, in a loop or a function, so the texts are read until no variable is added. If that takes too long, any
/// variable may hold a value.
pub(super) fn add_variables(texts: &[&str], received: &mut ReceivedValues) {
    for _ in 0..MAX_PASSES {
        let known = received.variables.len();
        for text in texts {
            received.variables = quote_templates(text, 1, received).commands.into_variables();
        }
        if received.variables.len() == known {
            return;
        }
    }
    received.is_any = true;
}

impl<'s> ShellText<'s> {
    /// Copies the next part and returns its length.
    fn take(&mut self, rest: &'s str, letter: char, first: usize) -> usize {
        let top = self.open.last().copied();
        let quoted = matches!(top, Some('\'' | '"' | '$'));
        if !quoted
            && letter == '#'
            && self.out.chars().next_back().is_none_or(|c| c.is_whitespace() || ";&|(".contains(c))
        {
            return self.copy(rest, rest.find('\n').unwrap_or(rest.len()));
        }
        if let Some(length) = expr::template_length(rest) {
            self.insert_variable(&rest[..length], top, first);
            return length;
        }
        if rest.starts_with("{%") && rest.contains("%}")
            || rest.starts_with("{#") && rest.contains("#}") && !self.out.ends_with('$')
        {
            self.remarks.push(QuotingProblem::Refused(STATEMENT));
            return self.copy(rest, 2);
        }
        if letter == '\n' && !quoted && !self.documents.is_empty() {
            self.end_command(false);
            return self.copy(rest, 1) + self.texts(&rest[1..], first);
        }
        if !quoted && rest.starts_with("<<") {
            let is_text = rest.starts_with("<<<");
            let length = if is_text { 3 } else { self.document(rest) };
            if is_text {
                self.commands.redirect(WordRole::Input);
            }
            return self.copy(rest, length);
        }
        if letter == '$' && !matches!(top, Some('\'' | '$')) {
            self.check_expansion(rest);
        }
        let length = self.step(rest, letter, top);
        self.copy(rest, length)
    }

    fn copy(&mut self, rest: &str, length: usize) -> usize {
        self.out.push_str(&rest[..length]);
        length
    }

    /// Advances over quotes and brackets.
    fn step(&mut self, rest: &str, letter: char, top: Option<char>) -> usize {
        match (top, letter) {
            (Some('\''), '\'') | (Some('$'), '\'') | (Some('"'), '"') => _ = self.open.pop(),
            (Some('('), ')') if self.commands.ends_pattern() => self.end_command(false),
            (Some('`'), '`') | (Some('('), ')') => {
                self.open.pop();
                let ended = self.commands.close(self.documents.len());
                ended.into_iter().for_each(|fed| self.check_fed(fed));
            }
            (Some('\''), _) => self.commands.letter(letter),
            (_, '\\') => {
                let escaped = rest[1..].chars().next();
                escaped.filter(|letter| *letter != '\n').into_iter().for_each(|letter| self.commands.letter(letter));
                return 1 + escaped.map_or(0, char::len_utf8);
            }
            (Some('$'), _) => self.commands.letter(letter),
            (_, '$') if rest.starts_with("$(") => {
                self.open_command('(', CommandBracket::Output);
                return 2;
            }
            (_, '`') => self.open_command('`', CommandBracket::Output),
            (Some('"'), _) => self.commands.letter(letter),
            (_, '$') if rest.starts_with("$'") => {
                self.open.push('$');
                self.commands.quote();
                return 2;
            }
            (_, '\'' | '"') => {
                self.open.push(letter);
                self.commands.quote();
            }
            (_, '(') if rest.starts_with("()") => {
                self.commands.define_function();
                return 2;
            }
            (_, '(') => self.open_command('(', CommandBracket::Subshell),
            (_, '<') if rest.starts_with("<(") => {
                self.open_command('(', CommandBracket::InputFile);
                return 2;
            }
            (_, '>') if rest.starts_with(">(") => {
                self.open_command('(', CommandBracket::OutputFile);
                return 2;
            }
            (_, letter) => self.plain_letter(rest, letter),
        }
        letter.len_utf8()
    }

    fn open_command(&mut self, letter: char, bracket: CommandBracket) {
        self.open.push(letter);
        self.commands.open(self.documents.len(), bracket);
    }

    /// Checks a variable, which may hold a value.
    fn check_expansion(&mut self, rest: &str) {
        let Some(name) = variables::expanded_variable(rest).filter(|name| self.commands.holds_value(name)) else {
            return;
        };
        let program = self.commands.value();
        self.remarks.extend(program.map(|program| QuotingProblem::NestedVariable(name.to_owned(), program)));
    }

    /// Follows a letter outside of quotes.
    fn plain_letter(&mut self, rest: &str, letter: char) {
        match letter {
            ' ' | '\t' | '\r' => self.commands.end_word(),
            '<' => self.commands.redirect(WordRole::InputFile),
            '>' => self.commands.redirect(WordRole::OutputFile),
            '&' if self.out.ends_with('>') || rest.starts_with("&>") => {}
            '|' => self.end_command(!rest.starts_with("||") && !self.out.ends_with('|')),
            '\n' | ';' | '&' | ')' => self.end_command(false),
            _ => self.commands.letter(letter),
        }
    }

    fn end_command(&mut self, pipes: bool) {
        let ended = self.commands.end_command(self.documents.len(), pipes);
        ended.into_iter().for_each(|fed| self.check_fed(fed));
    }

    /// Checks the use of the output of commands.
    fn check_fed(&mut self, fed: FedInput) {
        if fed.has_template {
            self.use_input(&fed.input);
        }
        for document in self.documents.iter_mut().skip(fed.first_document) {
            document.input.add(fed.input.clone());
        }
    }

    /// Passes a value to a standard input.
    fn use_input(&mut self, input: &InputUse) {
        self.remarks.extend(input.program.map(QuotingProblem::Nested));
        self.commands.fill(input.variables.iter().cloned());
    }

    /// Inserts a variable in place of a template. Single quotes are closed around it.
    fn insert_variable(&mut self, template: &'s str, top: Option<char>, first: usize) {
        self.remarks.extend(self.commands.template().map(QuotingProblem::Nested));
        let name = self.variable(template, first);
        match top {
            Some('\'') => self.out.push_str(&format!("'\"{name}\"'")),
            Some('"') => self.out.push_str(&name),
            Some('$') => self.remarks.push(QuotingProblem::Refused("a template cannot be used in `$'…'`")),
            _ => self.out.push_str(&format!("\"{name}\"")),
        }
    }

    fn variable(&mut self, template: &'s str, first: usize) -> String {
        self.templates.push(template);
        format!("${{WINDLASS_VALUE_{}}}", first + self.templates.len() - 1)
    }

    /// Parses `<<END`, `<<-END`, `<<'END'` and returns its length.
    fn document(&mut self, rest: &'s str) -> usize {
        let tabs = rest[2..].starts_with('-');
        let after = &rest[2 + usize::from(tabs)..];
        let word = after.trim_start_matches([' ', '\t']);
        let until = |c: char| c.is_whitespace() || ";&|<>()".contains(c);
        let word = &word[..word.find(until).unwrap_or(word.len())];
        let end = word.trim_start_matches('\\').trim_matches(['\'', '"']);
        // A shift in arithmetic is followed by a number or a bracket.
        if !end.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            return 2;
        }
        let input = self.commands.document_input();
        self.documents.push(HereDocument { end, is_literal: end.len() < word.len(), tabs, input });
        rest.len() - after.len() + (after.len() - after.trim_start_matches([' ', '\t']).len()) + word.len()
    }

    /// Copies the texts of the here-documents and returns their total length.
    fn texts(&mut self, rest: &'s str, first: usize) -> usize {
        let mut at = 0;
        self.commands.forget_documents();
        for document in std::mem::take(&mut self.documents) {
            let mut ended = false;
            while !ended && at < rest.len() {
                let line = &rest[at..];
                let line = &line[..line.find('\n').map_or(line.len(), |end| end + 1)];
                let bare = line.trim_end_matches('\n');
                ended = document.end == if document.tabs { bare.trim_start_matches('\t') } else { bare };
                if line.contains("{%") && line.contains("%}") {
                    self.remarks.push(QuotingProblem::Refused(STATEMENT));
                }
                let mut part = line;
                while let Some(letter) = part.chars().next() {
                    let length = match expr::template_length(part) {
                        Some(length) => {
                            if document.is_literal {
                                let message = "a template cannot be used in a here-document with a quoted delimiter";
                                self.remarks.push(QuotingProblem::Refused(message));
                            }
                            self.use_input(&document.input);
                            self.commands.document_template();
                            let name = self.variable(&part[..length], first);
                            self.out.push_str(&name);
                            length
                        }
                        None => {
                            self.check_document_expansion(part, &document);
                            self.copy(part, letter.len_utf8())
                        }
                    };
                    part = &part[length..];
                }
                at += line.len();
            }
        }
        at
    }

    /// Checks a variable in the text of a here-document.
    fn check_document_expansion(&mut self, part: &str, document: &HereDocument<'_>) {
        let name = variables::expanded_variable(part).filter(|name| self.commands.holds_value(name));
        let is_escaped = self.out.ends_with('\\');
        let Some(name) = name.filter(|_| !document.is_literal && !is_escaped) else { return };
        let program = document.input.program;
        self.remarks.extend(program.map(|program| QuotingProblem::NestedVariable(name.to_owned(), program)));
        self.commands.fill(document.input.variables.iter().cloned());
        self.commands.document_template();
    }
}
