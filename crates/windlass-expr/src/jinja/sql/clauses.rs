//! The clause of a statement that a template stands in.
//!
//! A bound value is a constant. It is rejected where the statement would run and do something else than the author
//! must have meant, or where the database accepts nothing but a name:
//!
//! | position | bound value |
//! |---|---|
//! | a whole item of `ORDER BY`, `GROUP BY`, `PARTITION BY`, `DISTINCT ON (…)` | orders and groups nothing |
//! | an item of `ORDER BY`, `GROUP BY`, `HAVING` and the like that has no column besides values | the same |
//! | a whole item of `SELECT … FROM t` or `RETURNING` without a name of its own | the constant, once per row |
//! | the whole argument of an aggregate function: `max({{ x }})` | the constant, or the number of rows |
//! | a table: after `FROM`, `INTO`, `UPDATE`, `JOIN`, `TABLE`, … | not SQL |
//! | a column: `INSERT INTO t (…)`, `ON CONFLICT (…)`, `SET … = 1` | not SQL |
//!
//! Everywhere else a value is legal: with a name (`SELECT {{ x }} AS x FROM t`), with a cast, in a larger expression,
//! without a table (`SELECT {{ x }}`), in the `SELECT` of an `INSERT`, after `EXISTS` and `IN`, after `LIMIT`. Parentheses
//! around a whole item change nothing.

use super::holes::Item;
use super::rest::{
    OTHER_CLAUSES, VERBS, after_blanks, has_column_after, has_from, is_column, is_unnamed, is_whole_item, text_after,
    without_casts,
};

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
    /// In this aggregate function.
    Aggregated(String),
}

impl NamePosition {
    pub(super) fn message(&self) -> String {
        match self {
            NamePosition::Follows(word) => format!("`{word}` is followed by a name, and a value cannot be one"),
            NamePosition::Column => "a column is a name, and a value cannot be one".to_owned(),
            NamePosition::Selected(clause) => format!("a value after `{clause}` is a constant, not a column"),
            NamePosition::By(clause) => format!("a value after `{clause}` is a constant, not a column"),
            NamePosition::Aggregated(function) => {
                format!("`{function}` of a value is a constant, not that of a column")
            }
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
    /// The function whose arguments these are.
    function: String,
    /// Nothing stands before in these parentheses.
    is_fresh: bool,
    /// The parentheses are around a whole item, or a part of one.
    is_wrapped: bool,
    /// The first word that says what the statement does.
    verb: String,
    /// `UNION` and the like: the names of the columns are those of the first `SELECT`.
    is_compound: bool,
    /// Only the rows of the statement count, or its columns have names elsewhere: `EXISTS (…)`, `IN (…)`, `q (a) AS (…)`.
    is_test: bool,
    /// The current item has a column.
    has_column: bool,
    /// The last word is a column, unless it is the name of a function.
    may_be_column: bool,
}

/// Follows the text of a statement outside of quotes and comments.
#[derive(Debug)]
pub(super) struct Clauses {
    stack: Vec<Nesting>,
    word: String,
    /// The first word of the statement.
    first_word: String,
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
/// Aggregate functions: the value of one over a constant says nothing about the rows, or counts them.
const AGGREGATES: [&str; 14] = [
    "max",
    "min",
    "sum",
    "avg",
    "count",
    "total",
    "median",
    "stddev",
    "variance",
    "array_agg",
    "string_agg",
    "group_concat",
    "json_agg",
    "jsonb_agg",
];
/// Functions whose value is their first argument unless it is null.
const FIRST_ARGUMENTS: [&str; 3] = ["coalesce", "ifnull", "nvl"];
/// Words of `GROUP BY` before a list of items.
const GROUPING: [&str; 3] = ["rollup", "cube", "sets"];

impl Default for Clauses {
    fn default() -> Clauses {
        let statement = Nesting { is_statement: true, ..Nesting::default() };
        Clauses { stack: vec![statement], word: String::new(), first_word: String::new() }
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
                here.is_fresh = false;
                here.begin_item();
                here.words = Default::default();
            }
            letter if letter.is_whitespace() => {}
            // `count(*)`
            '*' if self.here().is_fresh => self.name(),
            _ => self.operand(),
        }
    }

    /// Notes a literal, a template or an operator.
    pub(super) fn operand(&mut self) {
        self.end_word();
        let here = self.here();
        here.at_item = false;
        here.is_fresh = false;
        here.settle_column();
        here.words = Default::default();
    }

    /// Notes a name in quotes, or one that a template inserts.
    pub(super) fn name(&mut self) {
        self.operand();
        self.here().has_column = true;
    }

    /// Returns the position of a template that is followed by `rest`, if only a name makes sense there.
    pub(super) fn name_position(&mut self, rest: &[Item]) -> Option<NamePosition> {
        self.end_word();
        let rest = text_after(rest);
        self.item_position(&rest).or_else(|| self.aggregated(&rest)).or_else(|| self.constant_item(&rest))
    }

    fn item_position(&self, rest: &str) -> Option<NamePosition> {
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
            Clause::Set if after_blanks(rest).starts_with('=') => Some(NamePosition::Column),
            Clause::By(clause) if is_whole_item(without_casts(rest)) => Some(NamePosition::By(clause)),
            Clause::Select | Clause::Returning => self.selected(rest),
            Clause::Set | Clause::By(_) | Clause::Other => None,
        }
    }

    /// Returns the position of a value that is a whole item of `SELECT` or `RETURNING`, also in parentheses.
    fn selected(&self, rest: &str) -> Option<NamePosition> {
        let wrapped = self.stack.iter().rev().take_while(|nesting| nesting.is_wrapped).count();
        let statement = self.stack.get(self.stack.len().checked_sub(1 + wrapped)?)?;
        let mut rest = rest;
        for _ in 0..wrapped {
            rest = after_blanks(rest).strip_prefix(')')?;
        }
        let is_select = statement.verb == "select" && !statement.is_compound && !statement.is_test;
        match statement.clause {
            Clause::Select if is_select && is_unnamed(rest) && has_from(rest, 0) => {
                Some(NamePosition::Selected("SELECT"))
            }
            Clause::Returning if is_unnamed(rest) => Some(NamePosition::Selected("RETURNING")),
            _ => None,
        }
    }

    /// Returns the position of a value that is the whole argument of an aggregate function over the rows of a table.
    fn aggregated(&self, rest: &str) -> Option<NamePosition> {
        let (here, outer) = self.stack.split_last()?;
        let joins = matches!(here.function.as_str(), "string_agg" | "group_concat");
        let is_whole = |rest: &str| rest.starts_with(')') || joins && rest.starts_with(',');
        let is_argument = here.is_fresh && AGGREGATES.contains(&here.function.as_str());
        if !is_argument || !is_whole(without_casts(rest)) {
            return None;
        }
        let levels = outer.iter().rev().take_while(|nesting| !nesting.is_statement).count();
        let clause = outer.get(outer.len().checked_sub(1 + levels)?)?.clause;
        let reads = clause == Clause::From || has_from(rest, levels + 1) || matches!(clause, Clause::By(_));
        reads.then(|| NamePosition::Aggregated(here.function.to_uppercase()))
    }

    /// Returns the position of a value in an item of `ORDER BY` and the like that has no column, or whose value is the
    /// first argument of `COALESCE`.
    fn constant_item(&self, rest: &str) -> Option<NamePosition> {
        let inner = self.stack.iter().rev().take_while(|nesting| nesting.is_inside_item()).count();
        let at = self.stack.len().checked_sub(1 + inner)?;
        let Clause::By(clause) = self.stack.get(at)?.clause else { return None };
        let here = self.stack.last()?;
        let is_first = here.is_fresh && FIRST_ARGUMENTS.contains(&here.function.as_str());
        let has_column = || self.stack.iter().skip(at).any(|nesting| nesting.has_column || nesting.may_be_column);
        (is_first || !has_column() && !has_column_after(rest, inner)).then_some(NamePosition::By(clause))
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
        here.is_fresh = false;
        here.note_word(&word);
        match word.as_str() {
            "select" => {
                (here.clause, here.at_item, here.is_statement, here.is_table) = (Clause::Select, true, true, false);
                here.is_wrapped = false;
            }
            // They precede the list.
            "distinct" | "all" if here.clause == Clause::Select && here.at_item => {}
            "from" if here.is_statement && previous != "distinct" => {
                (here.clause, here.at_item, here.is_table) = (Clause::From, true, false);
            }
            "by" => match previous.as_str() {
                "order" => here.begin_by("ORDER BY"),
                "group" => here.begin_by("GROUP BY"),
                "partition" => here.begin_by("PARTITION BY"),
                _ => here.at_item = false,
            },
            "having" => here.begin_by("HAVING"),
            "set" if sets_columns => (here.clause, here.at_item, here.is_table) = (Clause::Set, true, false),
            "returning" => (here.clause, here.at_item) = (Clause::Returning, true),
            "into" => (here.at_item, here.is_table) = (false, true),
            "with" | "insert" | "update" | "delete" => {
                (here.at_item, here.is_statement, here.is_wrapped) = (false, true, false)
            }
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
        here.is_compound |= matches!(word.as_str(), "union" | "intersect" | "except");
    }

    fn open(&mut self) {
        let here = self.here();
        let [last, before] = &here.words;
        let groups = matches!(here.clause, Clause::By(_)) && GROUPING.contains(&last.as_str());
        let clause = match here.clause {
            _ if last == "on" && before == "distinct" => Clause::By("DISTINCT ON"),
            _ if here.is_table || last == "conflict" => Clause::Columns,
            clause @ (Clause::By(_) | Clause::From | Clause::Select | Clause::Returning) if here.at_item => clause,
            clause if groups => clause,
            _ => Clause::Other,
        };
        let inner = Nesting {
            clause,
            at_item: clause != Clause::Other,
            is_wrapped: here.at_item && matches!(clause, Clause::Select | Clause::Returning | Clause::By(_)),
            is_test: matches!(last.as_str(), "exists" | "in" | "any" | "all" | "some")
                || last == "as" && before.is_empty(),
            function: last.clone(),
            is_fresh: true,
            ..Nesting::default()
        };
        // The list of `SELECT` follows its `DISTINCT ON (…)`.
        here.at_item = clause == Clause::By("DISTINCT ON");
        (here.words, here.is_table, here.may_be_column, here.is_fresh) = (Default::default(), false, false, false);
        self.stack.push(inner);
    }

    fn close(&mut self) {
        if self.stack.len() > 1
            && let Some(mut inner) = self.stack.pop()
        {
            inner.settle_column();
            // A function without arguments has another value in each row: `random()`.
            self.here().has_column |= inner.has_column || inner.is_fresh;
        }
        self.here().words = Default::default();
    }
}

impl Nesting {
    fn begin_by(&mut self, clause: &'static str) {
        (self.clause, self.at_item) = (Clause::By(clause), true);
        self.begin_item();
    }

    fn begin_item(&mut self) {
        if matches!(self.clause, Clause::By(_)) {
            (self.has_column, self.may_be_column) = (false, false);
        }
        self.settle_column();
    }

    fn settle_column(&mut self) {
        self.has_column |= std::mem::take(&mut self.may_be_column);
    }

    /// Notes a word, which may be a column.
    fn note_word(&mut self, word: &str) {
        self.settle_column();
        let is_type = matches!(self.words[0].as_str(), "as" | "collate");
        self.may_be_column = !is_type && is_column(word);
        if self.verb.is_empty() && VERBS.contains(&word) {
            word.clone_into(&mut self.verb);
        }
    }

    /// Returns whether these parentheses are a part of an item of the clause around them.
    fn is_inside_item(&self) -> bool {
        !self.is_statement && (self.is_wrapped || self.clause == Clause::Other)
    }
}
