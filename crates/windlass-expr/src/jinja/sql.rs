//! Templates in SQL. Every `{{ … }}` becomes a bind parameter when the file is loaded, so no value is ever read as
//! SQL:
//!
//! | written | becomes |
//! |---|---|
//! | `id = {{ x }}` | `id = $1` |
//! | `'{{ x }}'`, `$${{ x }}$$`, `$tag${{ x }}$tag$` | `$1` |
//! | `'a {{ x }} b'`, also between dollars | `$1`, and the parameter is the whole text |
//! | `E'a\t{{ x }}'` | `(E'a\t' \|\| CAST($1 AS TEXT))`, and the parameter is the value's text |
//! | `DATE '{{ x }}'` | `CAST($1 AS DATE)` |
//! | `{{ x \| identifier(['a', 'b']) }}` | the name in quotes, if it is one of the list |
//! | `{{ x \| raw }}` | the text itself, reported to the caller in `raw` |
//! | in a comment | nothing |
//! | `{% for x in xs %} INSERT …; {% endfor %}` | the statements with `for_each`: once for every item |
//!
//! Within `'…'` a trailing `| replace("'", "''")` is removed, as a bound value would keep the quotes doubled. A value as
//! a name or a part of one (see `clauses`), and a template statement (`{% if %}`), are rejected with a hint.

use std::ops::Range;

use windlass_value::{CompileError, Value, to_json};

use super::lower::JinjaProblem;
use clauses::{Clauses, NamePosition};
use holes::{Hole, HoleKind, Item, first_hole, first_inner, has_bound_value, items};

mod clauses;
mod holes;
mod loops;
mod rest;

pub use loops::SqlLoop;

/// The letter around names. SQLite reads a name in double quotes that it does not know as a text, so its names have
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameQuote {
    Double,
    Backtick,
}

/// One statement, without its semicolon.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SqlStatement {
    /// The statement as a Jinja source: the only templates left in it are those marked as raw, and checked names.
    pub sql: String,
    /// Templates for `$1`, `$2`, …
    pub params: Vec<SqlParam>,
    /// The ranges of raw text.
    pub raw: Vec<Range<usize>>,
    /// The ranges of computed names.
    pub names: Vec<Range<usize>>,
    /// The loop around the statement: it runs once for every item of a list, and its parameters see the item.
    pub for_each: Option<SqlLoop>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SqlParam {
    pub template: String,
    /// The byte range in the text.
    pub range: Range<usize>,
}

/// Splits a text into statements and extracts their templates. Returns all problems together.
pub fn split_sql(text: &str, quote: NameQuote) -> Result<Vec<SqlStatement>, Vec<CompileError>> {
    let to_compile_error = |problem: JinjaProblem| CompileError {
        message: problem.message,
        hint: problem.hint,
        pointer: Vec::new(),
        range: problem.range,
    };
    let (mut statements, mut problems) = (Vec::new(), Vec::new());
    match loops::split_loops(text) {
        Ok(parts) => {
            for (part, around) in parts {
                match split(&part, quote) {
                    Ok(found) => {
                        let raw = found.iter().flat_map(|one| one.raw.iter().map(|at| ("raw text", at)));
                        let names = found.iter().flat_map(|one| one.names.iter().map(|at| ("a computed name", at)));
                        if let (Some((what, at)), true) = (raw.chain(names).next(), around.is_some()) {
                            let hint = "give the step a `loop` instead";
                            problems.push(problem(&format!("{what} is not allowed in a loop"), hint, at.clone()));
                        }
                        statements
                            .extend(found.into_iter().map(|one| SqlStatement { for_each: around.clone(), ..one }));
                    }
                    Err(found) => problems.extend(found),
                }
            }
        }
        Err(problem) => problems.push(problem),
    }
    match problems.is_empty() {
        true => Ok(statements),
        false => Err(problems.into_iter().map(to_compile_error).collect()),
    }
}

fn split(text: &str, quote: NameQuote) -> Result<Vec<SqlStatement>, Vec<JinjaProblem>> {
    let items = items(text, quote)?;
    let mut splitter = Splitter { items: &items, ..Splitter::default() };
    splitter.run();
    if splitter.problems.is_empty() { Ok(splitter.statements) } else { Err(splitter.problems) }
}

fn problem(message: &str, hint: &str, range: Range<usize>) -> JinjaProblem {
    JinjaProblem { message: message.to_owned(), hint: Some(hint.to_owned()), range }
}

#[derive(Default)]
struct Splitter<'a> {
    items: &'a [Item],
    at: usize,
    statement: SqlStatement,
    /// Whether the statement contains anything but whitespace and comments.
    has_content: bool,
    /// Whether the author wrote a placeholder such as `$1`.
    has_own_placeholder: bool,
    clauses: Clauses,
    statements: Vec<SqlStatement>,
    problems: Vec<JinjaProblem>,
}

const TYPES: [&str; 12] = [
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "json",
    "jsonb",
    "uuid",
    "numeric",
    "inet",
    "bytea",
    "boolean",
];

/// Returns the hint for a value where a name is needed.
fn name_hint(inner: &str) -> String {
    format!("write `{{{{ {inner} | identifier(['a', 'b']) }}}}` with the names that are allowed; it quotes the name")
}

impl Splitter<'_> {
    fn run(&mut self) {
        while let Some(item) = self.items.get(self.at) {
            match item {
                Item::Hole(hole) => {
                    self.value(hole);
                    self.at += 1;
                }
                Item::Letter(letter) => self.letter(*letter),
            }
        }
        self.end();
    }

    fn letter(&mut self, letter: char) {
        let comment = self.looking_at("--") || self.looking_at("/*");
        self.has_content |= !(letter.is_whitespace() || letter == ';' || comment);
        match letter {
            '\'' => self.literal(),
            '"' => self.name(),
            '-' if comment => self.comment(),
            '/' if comment => self.block_comment(),
            '$' => self.dollar(),
            ';' => {
                self.at += 1;
                self.end();
            }
            letter => {
                self.clauses.letter(letter);
                self.push(letter);
                self.at += 1;
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        match self.items.get(self.at + ahead) {
            Some(Item::Letter(letter)) => Some(*letter),
            _ => None,
        }
    }

    fn looking_at(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, expected)| self.peek(ahead) == Some(expected))
    }

    /// Appends text, escaped so that Jinja does not read it as a template.
    fn push(&mut self, letter: char) {
        let sql = &mut self.statement.sql;
        if matches!(letter, '{' | '%' | '#') && sql.ends_with('{') {
            sql.pop();
            sql.push_str(&format!("{{{{ '{{{letter}' }}}}"));
            return;
        }
        sql.push(letter);
    }

    fn push_all(&mut self, text: &str) {
        text.chars().for_each(|letter| self.push(letter));
    }

    /// Returns the word directly before this position, separated only by whitespace.
    fn word_before(&self) -> Option<String> {
        let word = last_word(self.statement.sql.trim_end(), "_");
        Some(word.to_ascii_lowercase()).filter(|word| !word.is_empty())
    }

    fn param(&mut self, hole: &Hole, as_text: bool) -> String {
        let template = match as_text {
            true => format!("{{{{ ({}) | string }}}}", hole.inner),
            false => format!("{{{{ {} }}}}", hole.inner),
        };
        self.statement.params.push(SqlParam { template, range: hole.range.clone() });
        format!("${}", self.statement.params.len())
    }

    fn raw(&mut self, hole: &Hole) {
        self.statement.raw.push(hole.range.clone());
        self.push_template(&format!("({}) | string", hole.inner));
    }

    fn push_template(&mut self, inner: &str) {
        if self.statement.sql.ends_with('{') {
            self.statement.sql.pop();
            self.statement.sql.push_str("{{ '{' }}");
        }
        self.statement.sql.push_str(&format!("{{{{ {inner} }}}}"));
    }

    /// Handles a template outside quotes.
    fn value(&mut self, hole: &Hole) {
        self.has_content = true;
        match hole.kind {
            HoleKind::Raw => {
                self.raw(hole);
                return self.clauses.name();
            }
            HoleKind::Name => return self.checked_name(hole),
            HoleKind::Value => {}
        }
        if self.touches_name(|letter| letter == '.') {
            let prefix = if self.touches_name(|_| false) { "compute the whole name: " } else { "" };
            let hint = format!("{prefix}{}", name_hint(&hole.inner));
            self.problems.push(problem("a value cannot be a part of a name", &hint, hole.range.clone()));
        } else {
            self.reject_name_position(hole);
        }
        self.clauses.operand();
        let param = self.param(hole, false);
        self.statement.sql.push_str(&param);
    }

    /// Returns whether a name, or a letter that belongs to one, directly precedes or follows the template.
    fn touches_name(&self, and: impl Fn(char) -> bool) -> bool {
        let in_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '"' || and(letter);
        let before = self.statement.sql.chars().next_back();
        before.is_some_and(|letter| in_name(letter) || letter == '}')
            || self.peek(1).is_some_and(in_name)
            || matches!(self.items.get(self.at + 1), Some(Item::Hole(_)))
    }

    /// Inserts the quoted name, which the filter checks against its list when the statement runs.
    fn checked_name(&mut self, hole: &Hole) {
        if self.touches_name(|_| false) {
            let message = "`identifier` is a whole name, and cannot be a part of one";
            self.problems.push(problem(message, "list whole names: `identifier(['t_a', 't_b'])`", hole.range.clone()));
        }
        self.statement.names.push(hole.range.clone());
        self.push_template(&hole.inner);
        self.clauses.name();
    }

    /// Rejects a value where the database reads it as a constant although the author must have meant a name.
    fn reject_name_position(&mut self, hole: &Hole) {
        let Some(position) = self.clauses.name_position(&self.items[self.at + 1..]) else { return };
        let (message, mut hint) = (position.message(), name_hint(&hole.inner));
        if let NamePosition::Selected(_) = position {
            hint.push_str(&format!("; for the value itself write `{{{{ {} }}}} AS name`", hole.inner));
        }
        self.problems.push(problem(&message, &hint, hole.range.clone()));
    }

    /// Reads `'…'`, in which a quote is doubled; after an `E` it may also be escaped with a backslash.
    fn literal(&mut self) {
        let prefix = last_word(&self.statement.sql, "_&").to_owned();
        let escapes = prefix.eq_ignore_ascii_case("e");
        self.at += 1;
        let mut content: Vec<Item> = Vec::new();
        let mut closed = false;
        while let Some(item) = self.items.get(self.at) {
            self.at += 1;
            match item {
                Item::Letter('\\') if escapes => {
                    content.push(item.clone());
                    if let Some(next @ Item::Letter(_)) = self.items.get(self.at) {
                        content.push(next.clone());
                        self.at += 1;
                    }
                }
                Item::Letter('\'') if self.peek(0) == Some('\'') => {
                    content.extend([item.clone(), item.clone()]);
                    self.at += 1;
                }
                Item::Letter('\'') => {
                    closed = true;
                    break;
                }
                Item::Hole(hole) if hole.kind == HoleKind::Value => {
                    content.push(Item::Hole(Hole {
                        inner: without_quote_doubling(&hole.inner).to_owned(),
                        ..hole.clone()
                    }));
                }
                item => content.push(item.clone()),
            }
        }
        if !closed {
            self.unclosed("'", &content);
        }
        self.reject_names(&content);
        if !has_bound_value(&content) {
            return self.verbatim("'", &content, "'");
        }
        if !prefix.is_empty() && !escapes {
            let range = first_hole(&content);
            let message = format!("a value cannot be used in a literal with the prefix `{prefix}`");
            self.problems.push(problem(&message, "write it without the prefix and cast it", range));
        }
        let opening = if escapes {
            self.statement.sql.truncate(self.statement.sql.len() - prefix.len());
            "E'"
        } else {
            "'"
        };
        let escaped = content.windows(2).find_map(|pair| match pair {
            [Item::Letter('\\'), Item::Hole(hole)] => Some(hole.range.clone()),
            _ => None,
        });
        if let (true, Some(range)) = (escapes, escaped) {
            self.problems.push(problem("a backslash directly precedes a template", "write it twice", range));
        }
        self.bind_literal(&content, opening, str::to_owned);
    }

    /// Reads `$$…$$` or `$tag$…$tag$`; `$1` is a placeholder.
    fn dollar(&mut self) {
        let inside_name = self.statement.sql.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let mut tag = String::from("$");
        let mut ahead = 1;
        while let Some(letter) = self.peek(ahead).filter(|letter| letter.is_alphanumeric() || *letter == '_') {
            tag.push(letter);
            ahead += 1;
        }
        let digit = tag[1..].starts_with(|c: char| c.is_ascii_digit());
        if inside_name || digit || self.peek(ahead) != Some('$') {
            self.has_own_placeholder |= digit && !inside_name;
            self.push('$');
            self.at += 1;
            return;
        }
        tag.push('$');
        self.at += ahead + 1;
        let mut content: Vec<Item> = Vec::new();
        let mut closed = false;
        while let Some(item) = self.items.get(self.at) {
            if self.looking_at(&tag) {
                self.at += tag.chars().count();
                closed = true;
                break;
            }
            content.push(item.clone());
            self.at += 1;
        }
        if !closed {
            self.unclosed(&tag, &content);
        }
        self.reject_names(&content);
        if !has_bound_value(&content) {
            return self.verbatim(&tag, &content, &tag);
        }
        if matches!(self.word_before().as_deref(), Some("do" | "as")) {
            let hint = "pass it to the code as an argument, or insert it unescaped with `| raw`";
            self.problems.push(problem("a value cannot be used in a block of code", hint, first_hole(&content)));
        }
        self.bind_literal(&content, "'", |text| text.replace('\'', "''"));
    }

    /// Rejects a computed name inside a literal.
    fn reject_names(&mut self, content: &[Item]) {
        for item in content {
            if let Item::Hole(hole) = item
                && hole.kind == HoleKind::Name
            {
                let message = "a name cannot be used in a literal";
                self.problems.push(problem(message, "leave out the quotes around it", hole.range.clone()));
            }
        }
    }

    /// Binds a literal that contains values: a single value replaces the literal, otherwise the parts are concatenated.
    fn bind_literal(&mut self, content: &[Item], opening: &str, quoted: impl Fn(&str) -> String) {
        let cast = self.word_before().filter(|word| TYPES.contains(&word.as_str()));
        if let Some(word) = &cast {
            let kept = self.statement.sql.trim_end().len() - word.len();
            self.statement.sql.truncate(kept);
        }
        // A literal orders and groups nothing either.
        if let Some(position @ NamePosition::By(_)) = self.clauses.name_position(&self.items[self.at..]) {
            self.problems.push(problem(&position.message(), &name_hint(&first_inner(content)), first_hole(content)));
        }
        self.clauses.operand();
        let text = match content {
            [Item::Hole(hole)] => self.param(hole, false),
            parts if opening == "'" => self.concat_in_template(parts, quoted),
            parts => self.concat_in_sql(parts, opening, quoted),
        };
        match cast {
            Some(word) => self.push_all(&format!("CAST({text} AS {})", word.to_uppercase())),
            None => self.push_all(&text),
        }
    }

    /// Binds the whole literal as one value that Jinja concatenates. The database then infers its type from the
    /// context, as it does for a literal, instead of treating it as text.
    fn concat_in_template(&mut self, parts: &[Item], quoted: impl Fn(&str) -> String) -> String {
        let (mut texts, mut literal) = (Vec::new(), String::new());
        let mut range: Option<Range<usize>> = None;
        let close = |literal: &mut String, texts: &mut Vec<String>| {
            if !literal.is_empty() {
                let text = quoted(literal).replace("''", "'");
                texts.push(to_json(&Value::from(text)));
                literal.clear();
            }
        };
        for part in parts {
            match part {
                Item::Letter(letter) => literal.push(*letter),
                Item::Hole(hole) => {
                    self.reject_raw(hole);
                    close(&mut literal, &mut texts);
                    texts.push(format!("(({}) | string)", hole.inner));
                    range = Some(range.map_or(hole.range.start, |range| range.start)..hole.range.end);
                }
            }
        }
        close(&mut literal, &mut texts);
        let template = format!("{{{{ {} }}}}", texts.join(" ~ "));
        self.statement.params.push(SqlParam { template, range: range.unwrap_or_default() });
        format!("${}", self.statement.params.len())
    }

    fn reject_raw(&mut self, hole: &Hole) {
        if hole.kind == HoleKind::Raw {
            let message = "raw text and values cannot be combined in one literal";
            self.problems.push(problem(message, "concatenate the parts with `||`", hole.range.clone()));
        }
    }

    /// Concatenates in SQL, for a literal with escapes that only the database understands.
    fn concat_in_sql(&mut self, parts: &[Item], opening: &str, quoted: impl Fn(&str) -> String) -> String {
        let (mut texts, mut literal) = (Vec::new(), String::new());
        let close = |literal: &mut String, texts: &mut Vec<String>| {
            if !literal.is_empty() {
                texts.push(format!("{opening}{}'", quoted(literal)));
                literal.clear();
            }
        };
        for part in parts {
            match part {
                Item::Letter(letter) => literal.push(*letter),
                Item::Hole(hole) => {
                    self.reject_raw(hole);
                    close(&mut literal, &mut texts);
                    texts.push(format!("CAST({} AS TEXT)", self.param(hole, true)));
                }
            }
        }
        close(&mut literal, &mut texts);
        format!("({})", texts.join(" || "))
    }

    fn verbatim(&mut self, opening: &str, content: &[Item], closing: &str) {
        self.push_all(opening);
        for item in content {
            match item {
                Item::Letter(letter) => self.push(*letter),
                Item::Hole(hole) => self.raw(hole),
            }
        }
        self.push_all(closing);
        self.clauses.operand();
    }

    fn unclosed(&mut self, quote: &str, content: &[Item]) {
        // Without a template inside, the database reports the error better.
        if content.iter().any(|item| matches!(item, Item::Hole(_))) {
            let range = first_hole(content);
            self.problems.push(problem(
                &format!("`{quote}` is not closed"),
                "is a quote missing or one too many?",
                range,
            ));
        }
    }

    /// Reads `"…"`: a name.
    fn name(&mut self) {
        self.clauses.name();
        self.push('"');
        self.at += 1;
        while let Some(item) = self.items.get(self.at) {
            self.at += 1;
            match item {
                Item::Hole(hole) if hole.kind == HoleKind::Raw => self.raw(hole),
                Item::Hole(hole) if hole.kind == HoleKind::Name => {
                    let message = "`identifier` quotes the name itself";
                    self.problems.push(problem(message, "leave out the quotes around it", hole.range.clone()));
                }
                Item::Hole(hole) => {
                    let hint = format!("compute the whole name, without quotes around it: {}", name_hint(&hole.inner));
                    self.problems.push(problem("a value cannot be a part of a name", &hint, hole.range.clone()));
                }
                Item::Letter(letter) => {
                    self.push(*letter);
                    if *letter == '"' {
                        return;
                    }
                }
            }
        }
    }

    fn comment(&mut self) {
        self.clauses.letter(' ');
        while let Some(item) = self.items.get(self.at) {
            if let Item::Letter(letter) = item {
                self.push(*letter);
            }
            self.at += 1;
            if matches!(item, Item::Letter('\n')) {
                return;
            }
        }
    }

    fn block_comment(&mut self) {
        self.clauses.letter(' ');
        let mut depth = 0;
        while let Some(item) = self.items.get(self.at) {
            let (opens, closes) = (self.looking_at("/*"), self.looking_at("*/"));
            if opens || closes {
                self.push_all(if opens { "/*" } else { "*/" });
                self.at += 2;
                depth = if opens { depth + 1 } else { depth - 1 };
                if depth == 0 {
                    return;
                }
                continue;
            }
            if let Item::Letter(letter) = item {
                self.push(*letter);
            }
            self.at += 1;
        }
    }

    fn end(&mut self) {
        let mut statement = std::mem::take(&mut self.statement);
        if self.has_own_placeholder && !statement.params.is_empty() {
            let hint = "write the value itself as a template; it gets its own number";
            let range = statement.params[0].range.clone();
            self.problems.push(problem("templates and `$1` cannot be combined in one statement", hint, range));
        }
        if self.has_content {
            statement.sql = statement.sql.trim().to_owned();
            self.statements.push(statement);
        }
        (self.has_content, self.has_own_placeholder, self.clauses) = (false, false, Clauses::default());
    }
}

/// Returns the letters, digits and marks at the end of a text.
fn last_word<'a>(text: &'a str, marks: &str) -> &'a str {
    let before = text.trim_end_matches(|c: char| c.is_alphanumeric() || marks.contains(c));
    &text[before.len()..]
}

/// Returns an expression without a trailing filter that doubles quotes.
fn without_quote_doubling(inner: &str) -> &str {
    let doubling = |call: &str| {
        let call: String = call.chars().filter(|c| !c.is_whitespace()).collect();
        matches!(call.as_str(), r#"replace("'","''")"# | r"replace('\'','\'\'')")
    };
    let found = inner.rfind("replace").filter(|at| doubling(&inner[*at..]));
    let before = found.and_then(|at| inner[..at].trim_end().strip_suffix(['|', '.']));
    before.map_or(inner, str::trim_end)
}
