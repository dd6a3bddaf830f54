//! The clause of a statement that a template stands in.
//!
//! A bound value is a constant. It is rejected where the statement would run and do something else than the author
//! must have meant, or where the database accepts nothing but a name:
//!
//! | position | bound value |
//! |---|---|
//! | a whole item of `ORDER BY`, `GROUP BY`, `PARTITION BY`, `DISTINCT ON (…)` | orders and groups nothing |
//! | a whole item of `SELECT … FROM t` or `RETURNING` without a name of its own | the constant, once per row |
//! | a table: after `FROM`, `INTO`, `UPDATE`, `JOIN`, `TABLE`, … | not SQL |
//! | a column: `INSERT INTO t (…)`, `ON CONFLICT (…)`, `SET … = 1` | not SQL |
//!
//! Everywhere else a value is legal: with a name (`SELECT {{ x }} AS x FROM t`), with a cast, in a larger expression,
//! without a table (`SELECT {{ x }}`), in the `SELECT` of an `INSERT` or of a subquery, after `LIMIT`.

use super::holes::Item;

/// A position where only a name makes sense.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NamePosition {
    /// After this word.
    Follows(String),
    Column,
    /// In `SELECT` or `RETURNING`.
    Selected(&'static str),
    /// In `ORDER BY` and the like.
    By(&'static str),
}

impl NamePosition {
    pub(super) fn message(&self) -> String {
        match self {
            NamePosition::Follows(word) => format!("`{word}` is followed by a name, and a value cannot be one"),
            NamePosition::Column => "a column is a name, and a value cannot be one".to_owned(),
            NamePosition::Selected(clause) => format!("a value after `{clause}` is a constant, not a column"),
            NamePosition::By(clause) => format!("a value after `{clause}` is a constant, not a column"),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Clause {
    #[default]
    Other,
    Select,
    Returning,
    From,
    Set,
    /// A list of columns in parentheses.
    Columns,
    By(&'static str),
}

/// The state inside one pair of parentheses.
#[derive(Debug, Default)]
struct Nesting {
    clause: Clause,
    /// An item of the clause's list begins here.
    at_item: bool,
    /// It contains a statement: `from` is followed by a table.
    is_statement: bool,
    /// The last two words, the last one first, unless something else stands after them.
    words: [String; 2],
    /// A list of columns may follow: the table after `INTO`.
    is_table: bool,
}

/// Follows the text of a statement outside of quotes and comments.
#[derive(Debug)]
pub(super) struct Clauses {
    stack: Vec<Nesting>,
    word: String,
    /// The first word of the statement.
    first_word: String,
    /// `UNION` and the like: the names of the columns are those of the first `SELECT`.
    is_compound: bool,
}

const NAMES_FOLLOW: [&str; 12] = [
    "into",
    "update",
    "table",
    "join",
    "schema",
    "index",
    "view",
    "database",
    "truncate",
    "column",
    "references",
    "only",
];
/// Words that end the list of a clause.
const OTHER_CLAUSES: [&str; 14] = [
    "where", "having", "limit", "offset", "values", "on", "using", "window", "fetch", "for", "rows", "range", "groups",
    "default",
];
/// Words after which an expression continues.
const OPERATORS: [&str; 14] = [
    "and", "or", "not", "in", "is", "isnull", "notnull", "between", "like", "ilike", "similar", "at", "glob", "regexp",
];

impl Default for Clauses {
    fn default() -> Clauses {
        let statement = Nesting { is_statement: true, ..Nesting::default() };
        Clauses { stack: vec![statement], word: String::new(), first_word: String::new(), is_compound: false }
    }
}

impl Clauses {
    pub(super) fn letter(&mut self, letter: char) {
        if letter.is_alphanumeric() || letter == '_' {
            return self.word.push(letter.to_ascii_lowercase());
        }
        self.end_word();
        match letter {
            '(' => self.open(),
            ')' => self.close(),
            ',' => {
                let here = self.here();
                here.at_item = here.clause != Clause::Other;
                here.words = Default::default();
            }
            letter if letter.is_whitespace() => {}
            _ => self.operand(),
        }
    }

    /// Notes a literal, a name in quotes, a template or an operator.
    pub(super) fn operand(&mut self) {
        self.end_word();
        let here = self.here();
        here.at_item = false;
        here.words = Default::default();
    }

    /// Returns the position of a template that is followed by `rest`, if only a name makes sense there.
    pub(super) fn name_position(&mut self, rest: &[Item]) -> Option<NamePosition> {
        self.end_word();
        let rest = text_after(rest);
        let (is_outermost, is_select) = (self.stack.len() == 1, self.first_word == "select" && !self.is_compound);
        let here = self.stack.last()?;
        let [last, before] = &here.words;
        let if_exists = last == "exists" && matches!(before.as_str(), "if" | "not");
        if NAMES_FOLLOW.contains(&last.as_str()) || (if_exists && self.changes_schema()) {
            return Some(NamePosition::Follows(last.to_uppercase()));
        }
        if !here.at_item {
            return None;
        }
        match here.clause {
            Clause::From => Some(NamePosition::Follows("FROM".to_owned())),
            Clause::Columns => Some(NamePosition::Column),
            Clause::Set if after_blanks(&rest).starts_with('=') => Some(NamePosition::Column),
            Clause::By(clause) if is_whole_item(without_casts(&rest)) => Some(NamePosition::By(clause)),
            Clause::Select if is_outermost && is_select && is_unnamed(&rest) && has_from(&rest) => {
                Some(NamePosition::Selected("SELECT"))
            }
            Clause::Returning if is_unnamed(&rest) => Some(NamePosition::Selected("RETURNING")),
            Clause::Set | Clause::By(_) | Clause::Select | Clause::Returning | Clause::Other => None,
        }
    }

    /// `IF EXISTS` and `IF NOT EXISTS` belong to these statements.
    fn changes_schema(&self) -> bool {
        matches!(self.first_word.as_str(), "create" | "drop" | "alter")
    }

    fn here(&mut self) -> &mut Nesting {
        if self.stack.is_empty() {
            self.stack.push(Nesting { is_statement: true, ..Nesting::default() });
        }
        let last = self.stack.len() - 1;
        &mut self.stack[last]
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        if self.first_word.is_empty() {
            self.first_word.clone_from(&word);
        }
        let sets_columns = self.first_word != "set" && self.first_word != "alter";
        let here = self.here();
        let previous = here.words[0].clone();
        match word.as_str() {
            "select" => {
                (here.clause, here.at_item, here.is_statement, here.is_table) = (Clause::Select, true, true, false)
            }
            // They precede the list.
            "distinct" | "all" if here.clause == Clause::Select && here.at_item => {}
            "from" if here.is_statement && previous != "distinct" => {
                (here.clause, here.at_item, here.is_table) = (Clause::From, true, false);
            }
            "by" => match previous.as_str() {
                "order" => (here.clause, here.at_item) = (Clause::By("ORDER BY"), true),
                "group" => (here.clause, here.at_item) = (Clause::By("GROUP BY"), true),
                "partition" => (here.clause, here.at_item) = (Clause::By("PARTITION BY"), true),
                _ => here.at_item = false,
            },
            "set" if sets_columns => (here.clause, here.at_item, here.is_table) = (Clause::Set, true, false),
            "returning" => (here.clause, here.at_item) = (Clause::Returning, true),
            "into" => (here.at_item, here.is_table) = (false, true),
            "with" | "insert" | "update" | "delete" => (here.at_item, here.is_statement) = (false, true),
            "union" | "intersect" | "except" => (here.clause, here.at_item) = (Clause::Other, false),
            word if OTHER_CLAUSES.contains(&word) => {
                // `DISTINCT ON (…)` is a part of the list.
                let ends = !(word == "on" && previous == "distinct");
                here.at_item = false;
                here.is_table = false;
                if ends {
                    here.clause = Clause::Other;
                }
            }
            _ => here.at_item = false,
        }
        here.words.swap(0, 1);
        here.words[0].clone_from(&word);
        self.is_compound |= matches!(word.as_str(), "union" | "intersect" | "except");
    }

    fn open(&mut self) {
        let here = self.here();
        let [last, before] = &here.words;
        let clause = match here.clause {
            _ if last == "on" && before == "distinct" => Clause::By("DISTINCT ON"),
            _ if here.is_table || last == "conflict" => Clause::Columns,
            clause @ (Clause::By(_) | Clause::From) if here.at_item => clause,
            _ => Clause::Other,
        };
        // The list of `SELECT` follows its `DISTINCT ON (…)`.
        here.at_item = clause == Clause::By("DISTINCT ON");
        (here.words, here.is_table) = (Default::default(), false);
        self.stack.push(Nesting { clause, at_item: clause != Clause::Other, ..Nesting::default() });
    }

    fn close(&mut self) {
        if self.stack.len() > 1 {
            self.stack.pop();
        }
        self.here().words = Default::default();
    }
}

/// Returns the text after a template; a further template is a question mark.
fn text_after(items: &[Item]) -> String {
    let letter = |item: &Item| match item {
        Item::Letter(letter) => *letter,
        Item::Hole(_) => '?',
    };
    items.iter().map(letter).collect()
}

/// Skips blanks and comments.
fn after_blanks(text: &str) -> &str {
    let text = text.trim_start();
    if text.starts_with("--") {
        return text.find('\n').map_or("", |end| after_blanks(&text[end..]));
    }
    match text.strip_prefix("/*") {
        Some(comment) => comment.find("*/").map_or("", |end| after_blanks(&comment[end + 2..])),
        None => text,
    }
}

/// Skips casts: `::text`, `::numeric(10, 2)`, `::int[]`.
fn without_casts(text: &str) -> &str {
    let text = after_blanks(text);
    let Some(rest) = text.strip_prefix("::") else { return text };
    let rest = rest.trim_start().trim_start_matches(|c: char| c.is_alphanumeric() || c == '_' || c == '.');
    let rest = match rest.strip_prefix('(') {
        Some(size) => size.find(')').map_or("", |end| &size[end + 1..]),
        None => rest,
    };
    without_casts(rest.trim_start_matches(['[', ']']))
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>().to_ascii_lowercase()
}

/// Returns whether nothing after an operand continues its expression.
fn is_whole_item(rest: &str) -> bool {
    match after_blanks(rest).chars().next() {
        None | Some(',' | ')' | ';' | '?' | '"' | '\'' | '(') => true,
        Some(letter) if letter.is_alphabetic() => !OPERATORS.contains(&first_word(after_blanks(rest)).as_str()),
        Some(_) => false,
    }
}

/// Returns whether an item of a list ends here, without a name for its column.
fn is_unnamed(rest: &str) -> bool {
    let rest = after_blanks(rest);
    rest.is_empty() || rest.starts_with([',', ';']) || first_word(rest) == "from"
}

/// Returns whether the statement reads a table: a `FROM` that is not inside parentheses or quotes.
fn has_from(rest: &str) -> bool {
    let (mut depth, mut quote, mut word) = (0_usize, None, String::new());
    for letter in rest.chars().chain([' ']) {
        if let Some(open) = quote {
            quote = (letter != open).then_some(open);
            continue;
        }
        if letter.is_alphanumeric() || letter == '_' {
            word.push(letter.to_ascii_lowercase());
            continue;
        }
        if depth == 0 && word == "from" {
            return true;
        }
        word.clear();
        match letter {
            '\'' | '"' => quote = Some(letter),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ';' => return false,
            _ => {}
        }
    }
    false
}
