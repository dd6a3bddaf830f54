//! Templates in a shell text: a value is quoted as its position requires.

use super::nested::{CommandTracker, FedProgram, NestedProgram};
use crate::expr;

const STATEMENT: &str = "`{% … %}` and `{# … #}` are not evaluated in a command";

/// A problem of a text.
#[derive(Debug, PartialEq)]
pub(super) enum QuotingProblem {
    Refused(&'static str),
    /// A value would become a part of a program.
    Nested(NestedProgram),
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
    /// The parser of its text, if it is a program.
    program: Option<NestedProgram>,
}

/// Replaces the templates of a shell text by variables; `first` is the number of the first variable.
pub(super) fn quote_templates(source: &str, first: usize) -> ShellText<'_> {
    let mut shell_text = ShellText::default();
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let length = shell_text.take(rest, letter, first);
        rest = &rest[length..];
    }
    shell_text.end_command(false);
    shell_text
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
                self.commands.redirect(true);
            }
            return self.copy(rest, length);
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
                self.check_fed(ended);
            }
            (Some('\''), _) => self.commands.letter(letter),
            (_, '\\') => {
                let escaped = rest[1..].chars().next();
                escaped.filter(|letter| *letter != '\n').into_iter().for_each(|letter| self.commands.letter(letter));
                return 1 + escaped.map_or(0, char::len_utf8);
            }
            (Some('$'), _) => self.commands.letter(letter),
            (_, '$') if rest.starts_with("$(") => {
                self.open_command('(', true);
                return 2;
            }
            (_, '`') => self.open_command('`', true),
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
            (_, '(') => self.open_command('(', false),
            (_, letter) => self.plain_letter(rest, letter),
        }
        letter.len_utf8()
    }

    fn open_command(&mut self, bracket: char, is_substitution: bool) {
        self.open.push(bracket);
        self.commands.open(self.documents.len(), is_substitution);
    }

    /// Follows a letter outside of quotes.
    fn plain_letter(&mut self, rest: &str, letter: char) {
        match letter {
            ' ' | '\t' | '\r' => self.commands.end_word(),
            '<' | '>' => self.commands.redirect(false),
            '&' if self.out.ends_with('>') || rest.starts_with("&>") => {}
            '|' => self.end_command(!rest.starts_with("||") && !self.out.ends_with('|')),
            '\n' | ';' | '&' | ')' => self.end_command(false),
            _ => self.commands.letter(letter),
        }
    }

    fn end_command(&mut self, pipes: bool) {
        let ended = self.commands.end_command(self.documents.len(), pipes);
        self.check_fed(ended);
    }

    /// Checks a command that runs what the commands before it write.
    fn check_fed(&mut self, ended: Option<FedProgram>) {
        let Some(FedProgram { has_template, first_document, program }) = ended else { return };
        if has_template {
            self.remarks.push(QuotingProblem::Nested(program));
        }
        self.documents.iter_mut().skip(first_document).for_each(|document| document.program = Some(program));
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
        let program = self.commands.document_program();
        self.documents.push(HereDocument { end, is_literal: end.len() < word.len(), tabs, program });
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
                            self.remarks.extend(document.program.map(QuotingProblem::Nested));
                            self.commands.document_template();
                            let name = self.variable(&part[..length], first);
                            self.out.push_str(&name);
                            length
                        }
                        None => self.copy(part, letter.len_utf8()),
                    };
                    part = &part[length..];
                }
                at += line.len();
            }
        }
        at
    }
}
