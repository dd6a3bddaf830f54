//! Templates in a shell text: a value is quoted as its position requires.

use crate::expr;

const STATEMENT: &str = "`{% … %}` and `{# … #}` are not evaluated in a command";

/// A problem of a text.
#[derive(Debug, PartialEq)]
pub(super) enum QuotingProblem {
    Refused(&'static str),
    Warning(&'static str),
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
}

struct HereDocument<'s> {
    end: &'s str,
    is_literal: bool,
    tabs: bool,
}

/// Replaces the templates of a shell text by variables; `first` is the number of the first variable.
pub(super) fn quote_templates(source: &str, first: usize) -> ShellText<'_> {
    let mut shell_text = ShellText::default();
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let length = shell_text.take(rest, letter, first);
        rest = &rest[length..];
    }
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
            return self.copy(rest, 1) + self.texts(&rest[1..], first);
        }
        if !quoted && rest.starts_with("<<") {
            let length = if rest.starts_with("<<<") { 3 } else { self.document(rest) };
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
            (Some('\''), '\'') | (Some('$'), '\'') | (Some('"'), '"') | (Some('`'), '`') | (Some('('), ')') => {
                self.open.pop();
            }
            (Some('\''), _) => {}
            (_, '\\') => return 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (Some('$'), _) => {}
            (_, '$') if rest.starts_with("$(") => {
                self.open.push('(');
                return 2;
            }
            (_, '`') => self.open.push('`'),
            (Some('"'), _) => {}
            (_, '$') if rest.starts_with("$'") => {
                self.open.push('$');
                return 2;
            }
            (_, '\'' | '"' | '(') => self.open.push(letter),
            _ => {}
        }
        letter.len_utf8()
    }

    /// Inserts a variable in place of a template. Single quotes are closed around it.
    fn insert_variable(&mut self, template: &'s str, top: Option<char>, first: usize) {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        if line.split([' ', ';', '&', '|', '(']).any(|word| word == "eval") || line.contains("sh -c ") {
            self.remarks
                .push(QuotingProblem::Warning("this value becomes part of a program: the shell parses it again"));
        }
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
        self.documents.push(HereDocument { end, is_literal: end.len() < word.len(), tabs });
        rest.len() - after.len() + (after.len() - after.trim_start_matches([' ', '\t']).len()) + word.len()
    }

    /// Copies the texts of the here-documents and returns their total length.
    fn texts(&mut self, rest: &'s str, first: usize) -> usize {
        let mut at = 0;
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
