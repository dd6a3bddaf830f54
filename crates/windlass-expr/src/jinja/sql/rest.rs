//! The text after a template: how an item continues, and what the statement around it reads.

use super::holes::{HoleKind, Item};

/// Words of an expression that are no columns.
const EXPRESSION_WORDS: [&str; 22] = [
    "case", "when", "then", "else", "end", "null", "true", "false", "asc", "desc", "nulls", "first", "last", "escape",
    "interval", "distinct", "all", "filter", "over", "within", "collate", "as",
];
/// Words that end the list of a clause.
pub(super) const OTHER_CLAUSES: [&str; 13] = [
    "where", "limit", "offset", "values", "on", "using", "window", "fetch", "for", "rows", "range", "groups", "default",
];
/// Words after which an expression continues.
const OPERATORS: [&str; 14] = [
    "and", "or", "not", "in", "is", "isnull", "notnull", "between", "like", "ilike", "similar", "at", "glob", "regexp",
];
/// Words that say what a statement does.
pub(super) const VERBS: [&str; 8] = ["select", "insert", "update", "delete", "create", "merge", "replace", "values"];

/// Returns whether a word of an expression may be a column.
pub(super) fn is_column(word: &str) -> bool {
    let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
    !is_number && !EXPRESSION_WORDS.contains(&word) && !OPERATORS.contains(&word) && !VERBS.contains(&word)
}

/// Stands for a name that a template inserts.
const NAME: char = '§';

/// Returns the text after a template; a further template is a question mark, or a name.
pub(super) fn text_after(items: &[Item]) -> String {
    let letter = |item: &Item| match item {
        Item::Letter(letter) => *letter,
        Item::Hole(hole) if hole.kind == HoleKind::Value => '?',
        Item::Hole(_) => NAME,
    };
    items.iter().map(letter).collect()
}

/// Skips blanks and comments.
pub(super) fn after_blanks(text: &str) -> &str {
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
pub(super) fn without_casts(text: &str) -> &str {
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
pub(super) fn is_whole_item(rest: &str) -> bool {
    match after_blanks(rest).chars().next() {
        None | Some(',' | ')' | ';' | '?' | NAME | '"' | '\'' | '(') => true,
        Some(letter) if letter.is_alphabetic() => !OPERATORS.contains(&first_word(after_blanks(rest)).as_str()),
        Some(_) => false,
    }
}

/// Returns whether an item of a list ends here, without a name for its column.
pub(super) fn is_unnamed(rest: &str) -> bool {
    let rest = after_blanks(rest);
    rest.is_empty() || rest.starts_with([',', ';']) || first_word(rest) == "from"
}

/// The words after a template, with the number of parentheses that are open around each, until those around the
/// statement close. A quoted name is a word that begins with its quote.
struct WordsAfter<'r> {
    rest: &'r str,
    depth: i64,
    /// The number of parentheses that may close.
    closes: i64,
}

/// A part of the text after a template.
enum Part<'r> {
    Word(&'r str),
    Other(char),
}

impl<'r> WordsAfter<'r> {
    fn new(rest: &'r str, closes: usize) -> WordsAfter<'r> {
        WordsAfter { rest, depth: 0, closes: i64::try_from(closes).unwrap_or(i64::MAX) }
    }
}

impl<'r> Iterator for WordsAfter<'r> {
    type Item = (i64, Part<'r>);

    fn next(&mut self) -> Option<(i64, Part<'r>)> {
        self.rest = after_blanks(self.rest);
        let letter = self.rest.chars().next()?;
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = match letter {
            '\'' | '"' => self.rest[1..].find(letter).map_or(self.rest.len(), |end| end + 2),
            letter if is_word(letter) => self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()),
            letter => letter.len_utf8(),
        };
        let (part, rest) = self.rest.split_at(length);
        self.rest = rest;
        match letter {
            '(' => self.depth += 1,
            ')' => self.depth -= 1,
            _ => {}
        }
        let ends = self.depth < -self.closes || letter == ';';
        let part = if is_word(letter) || letter == '"' { Part::Word(part) } else { Part::Other(letter) };
        (!ends).then_some((self.depth + self.closes, part))
    }
}

/// Returns whether the statement around the template reads a table; `closes` parentheses of it are open.
pub(super) fn has_from(rest: &str, closes: usize) -> bool {
    WordsAfter::new(rest, closes)
        .any(|(depth, part)| depth == 0 && matches!(part, Part::Word(word) if word.eq_ignore_ascii_case("from")))
}

/// Returns whether the rest of an item has a column; `closes` parentheses of the item are open.
pub(super) fn has_column_after(rest: &str, closes: usize) -> bool {
    let (mut pending, mut before) = (false, String::new());
    for (depth, part) in WordsAfter::new(rest, closes) {
        let follows_function = matches!(part, Part::Other('('));
        if pending && !follows_function {
            return true;
        }
        pending = false;
        match part {
            Part::Word(word) => {
                let word = word.to_ascii_lowercase();
                let ends = OTHER_CLAUSES.contains(&word.as_str())
                    || matches!(word.as_str(), "order" | "having" | "union" | "intersect" | "except" | "from");
                if depth == 0 && ends {
                    return false;
                }
                let is_type = matches!(before.as_str(), "as" | "collate" | ":");
                pending = !is_type && is_column(&word);
                before = word;
            }
            Part::Other(',') if depth == 0 => return false,
            Part::Other(NAME) => return true,
            // `count(*)` and `random()`
            Part::Other('*' | ')') if before == "(" => return true,
            Part::Other(letter) => before = letter.to_string(),
        }
    }
    pending
}
