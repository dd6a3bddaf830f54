//! The templates of a text, and their last filter: `raw` inserts text, `identifier` a name.

use std::ops::Range;

use minijinja::machinery::{Token, tokenize};

use super::super::engine::syntax;
use super::super::lower::JinjaProblem;
use super::super::text::{compile_text, is_template, syntax_problem};
use super::{NameQuote, problem};

/// A template in the text.
#[derive(Clone, Debug)]
pub(super) struct Hole {
    /// The text between the braces, without `| raw`.
    pub inner: String,
    pub kind: HoleKind,
    pub range: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoleKind {
    Value,
    Raw,
    Name,
}

#[derive(Clone, Debug)]
pub(super) enum Item {
    Letter(char),
    Hole(Hole),
}

const IDENTIFIER_HINT: &str =
    "write `{{ column | identifier(['name', 'created_at']) }}` with the names that are allowed";

/// The end of a template: from the last pipe on.
#[derive(Default)]
struct LastFilter<'t> {
    /// The position of the pipe; `None` in a template without filters.
    start: Option<usize>,
    tokens: Vec<Token<'t>>,
    /// The template uses `identifier` before its last filter.
    early_name: bool,
}

impl<'t> LastFilter<'t> {
    fn begin(&mut self, start: usize) {
        self.early_name |= self.is_named("identifier");
        (self.start, self.tokens) = (Some(start), Vec::new());
    }

    fn is_named(&self, name: &str) -> bool {
        self.start.is_some() && matches!(self.tokens.first(), Some(Token::Ident(first)) if *first == name)
    }

    /// Returns the position of `| raw`.
    fn raw(&self) -> Option<usize> {
        self.start.filter(|_| matches!(self.tokens.as_slice(), [Token::Ident("raw")]))
    }

    /// Returns whether the filter is `identifier` with a list of texts, written out: the allowed names are the author's.
    fn is_checked_name(&self) -> bool {
        let [
            Token::Ident("identifier"),
            Token::ParenOpen,
            Token::BracketOpen,
            names @ ..,
            Token::BracketClose,
            Token::ParenClose,
        ] = self.tokens.as_slice()
        else {
            return false;
        };
        let is_name = |token: &Token| match token {
            Token::Str(name) => !name.is_empty(),
            Token::String(name) => !name.is_empty(),
            _ => false,
        };
        let fits = |(index, token): (usize, &Token)| match index % 2 {
            0 => is_name(token),
            _ => matches!(token, Token::Comma),
        };
        !names.is_empty() && names.iter().enumerate().all(fits)
    }
}

pub(super) fn items(text: &str, quote: NameQuote) -> Result<Vec<Item>, Vec<JinjaProblem>> {
    let mut items = Vec::with_capacity(text.len());
    if !is_template(text) {
        items.extend(text.chars().map(Item::Letter));
        return Ok(items);
    }
    let mut problems = Vec::new();
    let (mut start, mut inside) = (0..0, 0);
    let mut last = LastFilter::default();
    for token in tokenize(text, false, syntax()) {
        let (token, span) = token.map_err(|error| vec![syntax_problem(&error, text)])?;
        let range = span.start_offset as usize..span.end_offset as usize;
        match token {
            Token::TemplateData(data) => items.extend(data.chars().map(Item::Letter)),
            Token::VariableStart => (inside, start, last) = (range.end, range, LastFilter::default()),
            Token::VariableEnd => {
                let whole = start.start..range.end;
                match hole(text, inside..range.start, whole, &last, quote) {
                    Ok(hole) => items.push(Item::Hole(hole)),
                    Err(found) => problems.extend(found),
                }
            }
            Token::Pipe => last.begin(range.start),
            token => last.tokens.push(token),
        }
    }
    if problems.is_empty() { Ok(items) } else { Err(problems) }
}

fn hole(
    text: &str,
    inside: Range<usize>,
    whole: Range<usize>,
    last: &LastFilter,
    quote: NameQuote,
) -> Result<Hole, Vec<JinjaProblem>> {
    let end = last.raw().unwrap_or(inside.end);
    let inner = text.get(inside.start..end).unwrap_or_default().trim().to_owned();
    let found = template_problems(&inner, text, inside.start..end);
    if !found.is_empty() {
        return Err(found);
    }
    if last.early_name {
        let message = "`identifier` is allowed only at the end of a template in SQL text";
        return Err(vec![problem(message, "put it last", whole)]);
    }
    let kind = match () {
        () if last.raw().is_some() => HoleKind::Raw,
        () if last.is_checked_name() => HoleKind::Name,
        () if last.is_named("identifier") => {
            let message = "`identifier` needs the list of the names that are allowed, written out";
            return Err(vec![problem(message, IDENTIFIER_HINT, whole)]);
        }
        () => HoleKind::Value,
    };
    let inner = match (kind, last.start) {
        (HoleKind::Name, Some(pipe)) => whole_name(&text[inside.start..pipe], &text[pipe..inside.end], quote),
        _ => inner,
    };
    Ok(Hole { inner, kind, range: whole })
}

/// Returns a template that checks the whole expression: in `a ~ b | identifier(…)` the filter would check `b` only.
fn whole_name(expression: &str, filter: &str, quote: NameQuote) -> String {
    let filter = match quote {
        NameQuote::Double => filter.trim().to_owned(),
        NameQuote::Backtick => format!("{}, quote='`')", filter.trim().trim_end_matches(')')),
    };
    format!("({}) {filter}", expression.trim())
}

/// Returns the problems of a template, located in the whole text.
fn template_problems(inner: &str, text: &str, location: Range<usize>) -> Vec<JinjaProblem> {
    let template = format!("{{{{ {inner} }}}}");
    let Err(problems) = compile_text(&template) else { return Vec::new() };
    let before = text[location.clone()].len() - text[location.clone()].trim_start().len();
    let moved = |problem: JinjaProblem| {
        let shift = |at: usize| (at + location.start + before).saturating_sub(3).clamp(location.start, location.end);
        JinjaProblem { range: shift(problem.range.start)..shift(problem.range.end), ..problem }
    };
    problems.into_iter().map(moved).collect()
}

pub(super) fn has_bound_value(content: &[Item]) -> bool {
    content.iter().any(|item| matches!(item, Item::Hole(hole) if hole.kind == HoleKind::Value))
}

pub(super) fn first_inner(content: &[Item]) -> String {
    find_hole(content).map(|hole| hole.inner.clone()).unwrap_or_default()
}

pub(super) fn first_hole(content: &[Item]) -> Range<usize> {
    find_hole(content).map_or(0..0, |hole| hole.range.clone())
}

fn find_hole(content: &[Item]) -> Option<&Hole> {
    content.iter().find_map(|item| if let Item::Hole(hole) = item { Some(hole) } else { None })
}
