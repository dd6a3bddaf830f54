//! `{% for x in xs %}` around whole statements.

use std::ops::Range;

use minijinja::machinery::{Token, tokenize};

use super::super::engine::syntax;
use super::super::lower::JinjaProblem;
use super::super::text::{is_template, syntax_problem};
use super::problem;

/// The loop around SQL statements.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlLoop {
    /// The name of an item.
    pub item: String,
    /// The expression that evaluates to the list.
    pub list: String,
    /// The range of the loop's opening tag: statements of one loop share it.
    pub range: Range<usize>,
}

/// A text of statements, at its position in the whole text, and the loop around it.
type SqlPart = (String, Option<SqlLoop>);

/// Splits the text into parts inside and outside of loops. Everything before a part is replaced by blanks, so that
/// offsets are those of the whole text.
pub(super) fn split_loops(text: &str) -> Result<Vec<SqlPart>, JinjaProblem> {
    let blocks = blocks(text)?;
    if blocks.is_empty() {
        return Ok(vec![(text.to_owned(), None)]);
    }
    let (mut parts, mut at) = (Vec::new(), 0);
    let mut blocks = blocks.into_iter();
    while let Some(start) = blocks.next() {
        let Some((item, list)) = parse_for(inner(text, &start)) else {
            let hint =
                "write one statement for each case, or build the text beforehand and insert it unescaped with `| raw`";
            return Err(problem("template statements are not allowed in SQL", hint, start));
        };
        let end = blocks.next().filter(|end| inner(text, end) == "endfor").ok_or_else(|| {
            let hint = "write `{% for x in xs %} INSERT …; {% endfor %}`, with nothing but statements inside";
            problem("this loop is not closed, or holds more than statements", hint, start.clone())
        })?;
        for (range, mark) in [(at..start.start, &start), (start.end..end.start, &end)] {
            let before = text[range].trim_end();
            if !before.is_empty() && !before.ends_with(';') {
                let hint = "end each statement with a semicolon: `{% for x in xs %} INSERT …; {% endfor %}`";
                return Err(problem("a loop in SQL must enclose whole statements", hint, mark.clone()));
            }
        }
        parts.push((blank_before(text, at..start.start), None));
        let each = SqlLoop { item: item.to_owned(), list: list.to_owned(), range: start.clone() };
        parts.push((blank_before(text, start.end..end.start), Some(each)));
        at = end.end;
    }
    parts.push((blank_before(text, at..text.len()), None));
    Ok(parts)
}

fn blocks(text: &str) -> Result<Vec<Range<usize>>, JinjaProblem> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if !is_template(text) {
        return Ok(found);
    }
    for token in tokenize(text, false, syntax()) {
        let (token, span) = token.map_err(|error| syntax_problem(&error, text))?;
        let range = span.start_offset as usize..span.end_offset as usize;
        match (token, found.last_mut()) {
            (Token::BlockStart, _) => found.push(range),
            (Token::BlockEnd, Some(open)) => open.end = range.end,
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the text between the block marks.
fn inner<'a>(text: &'a str, block: &Range<usize>) -> &'a str {
    let marks = |c: char| matches!(c, '{' | '}' | '%' | '-' | '+') || c.is_whitespace();
    text.get(block.clone())
        .unwrap_or_default()
        .trim_start_matches(marks)
        .trim_end_matches(['}', '%'])
        .trim_end_matches(marks_end)
}

fn marks_end(c: char) -> bool {
    matches!(c, '-' | '+') || c.is_whitespace()
}

fn parse_for(block: &str) -> Option<(&str, &str)> {
    let (item, list) = block.strip_prefix("for ")?.split_once(" in ")?;
    let (item, list) = (item.trim(), list.trim());
    let plain = item.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (plain && !item.is_empty() && !list.is_empty()).then_some((item, list))
}

fn blank_before(text: &str, range: Range<usize>) -> String {
    let mut part = " ".repeat(range.start);
    part.push_str(&text[range]);
    part
}
