//! Parser: tokens to syntax, by operator precedence. Depth and length are limited, so that no text can exhaust the
//! stack, neither here nor where the tree is walked.

use std::ops::Range;
use std::sync::Arc;

use super::lexer::{CelLexer, CelToken, is_word, word};
use super::syntax::{CelLiteral, CelProblem, CelSyntax, CelSyntaxKind};

/// The maximum length of an expression, in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 100_000;
/// The maximum nesting depth, and the maximum length of a chain of operators.
pub(super) const MAX_DEPTH: usize = 100;
/// Reserved words: fields may have these names, variables may not.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns an operator's binding power. Relations bind weaker than sums, sums weaker than products.
fn binding_power(sign: &str) -> Option<u8> {
    Some(match sign {
        "<" | "<=" | ">" | ">=" | "==" | "!=" | "in" => 1,
        "+" | "-" => 2,
        "*" | "/" | "%" => 3,
        _ => return None,
    })
}

pub(super) fn parse(text: &str, steps: &[Arc<str>]) -> Result<CelSyntax, CelProblem> {
    parse_expression(text, steps).map(|syntax| *syntax).map_err(|problem| *problem)
}

fn parse_expression(text: &str, steps: &[Arc<str>]) -> ParseResult {
    if text.len() > MAX_TEXT_BYTES {
        return Err(CelProblem::new(
            format!("an expression has at most {MAX_TEXT_BYTES} bytes, this one has {}", text.len()),
            0..0,
        ));
    }
    let mut parser = Parser { lexer: CelLexer { text, at: 0 }, peeked: None, steps, depth: 0, shadows: 0 };
    if parser.peek()?.0 == CelToken::End {
        let hint = "write what must hold, such as steps.build.status == 'completed'";
        return Err(CelProblem::new("the expression is empty", 0..text.len()).hint(hint));
    }
    let syntax = parser.expression()?;
    match parser.peek()?.clone() {
        (CelToken::End, _) => Ok(syntax),
        (token, range) => Err(parser.unexpected(&token, range, "an operator or the end")),
    }
}

/// Both variants are boxed to keep the parser's stack frames small: it recurses once per level of the text.
type ParseResult = Result<Box<CelSyntax>, Box<CelProblem>>;

struct Parser<'a> {
    lexer: CelLexer<'a>,
    peeked: Option<(CelToken, Range<usize>)>,
    /// The step ids that may follow `steps.`.
    steps: &'a [Arc<str>],
    depth: usize,
    /// The number of enclosing macros whose variable is called `steps`.
    shadows: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Result<&(CelToken, Range<usize>), Box<CelProblem>> {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.lexer.next()?,
        };
        Ok(self.peeked.insert(token))
    }

    fn bump(&mut self) -> Result<(CelToken, Range<usize>), Box<CelProblem>> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    fn next_is(&mut self, mark: &str) -> Result<bool, Box<CelProblem>> {
        Ok(matches!(&self.peek()?.0, CelToken::Mark(found) if *found == mark))
    }

    fn eat(&mut self, mark: &str) -> Result<bool, Box<CelProblem>> {
        let found = self.next_is(mark)?;
        if found {
            self.peeked = None;
        }
        Ok(found)
    }

    /// Consumes the given mark and returns its range, or reports the token found instead.
    fn expect(&mut self, mark: &str) -> Result<Range<usize>, Box<CelProblem>> {
        match self.bump()? {
            (CelToken::Mark(found), range) if found == mark => Ok(range),
            (token, range) => Err(self.unexpected(&token, range, &format!("`{mark}`"))),
        }
    }

    #[inline(never)]
    fn unexpected(&self, token: &CelToken, range: Range<usize>, expected: &str) -> Box<CelProblem> {
        let found: String = self.lexer.text[range.clone()].chars().take(40).collect();
        match token {
            CelToken::End => CelProblem::new(format!("the expression ends where {expected} is expected"), range),
            _ => {
                let problem = CelProblem::new(format!("found `{found}` where {expected} is expected"), range);
                match found.as_str() {
                    "and" => problem.hint("write `&&`"),
                    "or" => problem.hint("write `||`"),
                    "not" => problem.hint("write `!`"),
                    "is" => problem.hint("write `==`"),
                    _ => problem,
                }
            }
        }
    }

    #[inline(never)]
    fn make_syntax(&self, kind: CelSyntaxKind, range: Range<usize>) -> ParseResult {
        let deepest = |parts: &[CelSyntax]| parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let below = match &kind {
            CelSyntaxKind::Literal(_)
            | CelSyntaxKind::Negative(_)
            | CelSyntaxKind::Name(_)
            | CelSyntaxKind::Step { .. } => 0,
            CelSyntaxKind::Select { operand, .. } | CelSyntaxKind::Unary { operand, .. } => operand.depth,
            CelSyntaxKind::Index { operand, index } => operand.depth.max(index.depth),
            CelSyntaxKind::Call { target, arguments, .. } => {
                target.as_ref().map_or(0, |target| target.depth).max(deepest(arguments))
            }
            CelSyntaxKind::Binary { left, right, .. } => left.depth.max(right.depth),
            CelSyntaxKind::Logic { parts, .. } | CelSyntaxKind::List(parts) => deepest(parts),
            CelSyntaxKind::Choice { test, yes, no } => test.depth.max(yes.depth).max(no.depth),
            CelSyntaxKind::Map(entries) => {
                entries.iter().map(|(key, value)| key.depth.max(value.depth)).max().unwrap_or(0)
            }
        };
        match below >= MAX_DEPTH {
            true => Err(too_deep(range)),
            false => Ok(Box::new(CelSyntax { kind, range, depth: below + 1 })),
        }
    }

    fn expression(&mut self) -> ParseResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.lexer.at;
            return Err(too_deep(at..at));
        }
        let syntax = self.choice()?;
        self.depth -= 1;
        Ok(syntax)
    }

    fn choice(&mut self) -> ParseResult {
        let test = self.logic(false)?;
        if !self.eat("?")? {
            return Ok(test);
        }
        let yes = self.logic(false)?;
        self.expect(":")?;
        let no = self.expression()?;
        let range = test.range.start..no.range.end;
        self.make_syntax(CelSyntaxKind::Choice { test, yes, no }, range)
    }

    /// Parses a chain of `||`, whose parts are chains of `&&`, whose parts are relations.
    fn logic(&mut self, all: bool) -> ParseResult {
        let first = self.logic_part(all)?;
        match self.next_is(if all { "&&" } else { "||" })? {
            true => self.logic_chain(all, *first),
            false => Ok(first),
        }
    }

    fn logic_part(&mut self, all: bool) -> ParseResult {
        if all { self.binary(1) } else { self.logic(true) }
    }

    fn logic_chain(&mut self, all: bool, first: CelSyntax) -> ParseResult {
        let mut range = first.range.clone();
        let mut parts = vec![first];
        while self.eat(if all { "&&" } else { "||" })? {
            parts.push(*self.logic_part(all)?);
            range.end = parts[parts.len() - 1].range.end;
        }
        self.make_syntax(CelSyntaxKind::Logic { all, parts }, range)
    }

    fn binary(&mut self, weakest: u8) -> ParseResult {
        let mut left = self.unary()?;
        loop {
            let (sign, at) = match self.peek()? {
                (CelToken::Mark(sign), at) if binding_power(sign).is_some_and(|power| power >= weakest) => {
                    (*sign, at.clone())
                }
                _ => return Ok(left),
            };
            self.peeked = None;
            let right = self.binary(binding_power(sign).unwrap_or(0) + 1)?;
            let range = left.range.start..right.range.end;
            left = self.make_syntax(CelSyntaxKind::Binary { sign, at, left, right }, range)?;
        }
    }

    fn unary(&mut self) -> ParseResult {
        match self.peek()?.0 {
            CelToken::Mark("!") => self.signed("!"),
            CelToken::Mark("-") => self.signed("-"),
            _ => self.member(),
        }
    }

    fn signed(&mut self, sign: &'static str) -> ParseResult {
        let start = self.bump()?.1.start;
        let mut count = 1;
        while self.eat(sign)? {
            count += 1;
            if count > MAX_DEPTH {
                return Err(too_deep(start..start));
            }
        }
        // A negative int may be one larger in magnitude than a positive one.
        if let (CelToken::Literal(CelLiteral::Int(number)), range) = self.peek()?.clone()
            && sign == "-"
            && count == 1
            && !self.lexer.rest().starts_with('.')
        {
            self.peeked = None;
            return self.make_syntax(CelSyntaxKind::Negative(number), start..range.end);
        }
        let mut syntax = self.member()?;
        for _ in 0..count {
            let range = start..syntax.range.end;
            syntax = self.make_syntax(CelSyntaxKind::Unary { sign, operand: syntax }, range)?;
        }
        Ok(syntax)
    }

    fn member(&mut self) -> ParseResult {
        let mut syntax = self.primary()?;
        loop {
            let start = syntax.range.start;
            let of_steps = self.shadows == 0 && matches!(&syntax.kind, CelSyntaxKind::Name(name) if &**name == "steps");
            syntax = if self.eat(".")? {
                if of_steps && let Some((id, at)) = self.step_name() {
                    let range = start..at.end;
                    self.make_syntax(CelSyntaxKind::Step { id, at }, range)?
                } else {
                    self.field(syntax)?
                }
            } else if self.eat("[")? {
                let index = self.expression()?;
                let end = self.expect("]")?.end;
                match index.kind {
                    CelSyntaxKind::Literal(CelLiteral::Str(id)) if of_steps => {
                        self.make_syntax(CelSyntaxKind::Step { id, at: index.range }, start..end)?
                    }
                    _ => self.make_syntax(CelSyntaxKind::Index { operand: syntax, index }, start..end)?,
                }
            } else {
                return Ok(syntax);
            };
        }
    }

    /// Reads the longest step id at this position. An unknown id is read with all its hyphens, so that the message
    /// contains the whole id.
    fn step_name(&mut self) -> Option<(Arc<str>, Range<usize>)> {
        debug_assert!(self.peeked.is_none());
        self.lexer.skip_blank();
        let (start, rest) = (self.lexer.at, self.lexer.rest());
        let ends = |id: &str| !rest[id.len()..].starts_with(is_word);
        let known = self.steps.iter().filter(|id| rest.starts_with(&***id) && ends(id) && !id.is_empty());
        let id = match known.max_by_key(|id| id.len()) {
            Some(id) => id.clone(),
            None => {
                let end = rest.find(|sign: char| !is_word(sign) && sign != '-').unwrap_or(rest.len());
                let whole = rest[..end].trim_end_matches('-');
                // `steps.size()` and the like are method calls, not step ids.
                if whole.is_empty() || rest[whole.len()..].trim_start().starts_with('(') {
                    return None;
                }
                whole.into()
            }
        };
        self.lexer.at += id.len();
        Some((id, start..self.lexer.at))
    }

    /// Parses `.name` or `.name(…)`, after the dot.
    fn field(&mut self, operand: Box<CelSyntax>) -> ParseResult {
        let start = operand.range.start;
        let (name, at) = match self.bump()? {
            (CelToken::Ident, at) => (Arc::<str>::from(&self.lexer.text[at.clone()]), at),
            (CelToken::Literal(CelLiteral::Bool(_) | CelLiteral::Null) | CelToken::Mark("in"), at) => {
                let word = &self.lexer.text[at.clone()];
                let problem = CelProblem::new(format!("`{word}` is a reserved word, not a field"), at.clone());
                return Err(problem.hint(format!("write [\"{word}\"]")));
            }
            (CelToken::Mark("?"), at) => {
                let hint = "check with has(a.b) first: has(a.b) ? a.b : 'other'";
                return Err(CelProblem::new("`.?` is not an operator", at.start.saturating_sub(1)..at.end).hint(hint));
            }
            (token, at) => return Err(self.unexpected(&token, at, "the name of a field")),
        };
        if self.eat("(")? {
            return self.call(Some(operand), name, at, start);
        }
        let range = start..at.end;
        self.make_syntax(CelSyntaxKind::Select { operand, field: name, at }, range)
    }

    fn call(&mut self, target: Option<Box<CelSyntax>>, name: Arc<str>, at: Range<usize>, start: usize) -> ParseResult {
        // A macro variable may shadow `steps`: a hyphen after it is then a minus sign.
        let hides = target.is_some() && {
            self.lexer.skip_blank();
            word(self.lexer.rest()) == "steps" && self.lexer.rest()[5..].trim_start().starts_with(',')
        };
        self.shadows += usize::from(hides);
        let (arguments, end) = self.items(")")?;
        self.shadows -= usize::from(hides);
        self.make_syntax(CelSyntaxKind::Call { target, name, at, arguments }, start..end)
    }

    /// Parses comma-separated expressions up to the closing mark.
    fn items(&mut self, close: &'static str) -> Result<(Vec<CelSyntax>, usize), Box<CelProblem>> {
        let mut items = Vec::new();
        loop {
            if self.next_is(close)? && (items.is_empty() || close == "]") {
                return Ok((items, self.bump()?.1.end));
            }
            items.push(*self.expression()?);
            if !self.eat(",")? {
                return Ok((items, self.expect(close)?.end));
            }
        }
    }

    fn map(&mut self) -> ParseResult {
        let start = self.bump()?.1.start;
        let mut entries = Vec::new();
        loop {
            if self.next_is("}")? {
                break;
            }
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((*key, *self.expression()?));
            if !self.eat(",")? {
                break;
            }
        }
        let end = self.expect("}")?.end;
        self.make_syntax(CelSyntaxKind::Map(entries), start..end)
    }

    fn primary(&mut self) -> ParseResult {
        match self.peek()?.0 {
            CelToken::Mark("(") => self.group(),
            CelToken::Mark("[") => self.list(),
            CelToken::Mark("{") => self.map(),
            _ => self.word(),
        }
    }

    fn group(&mut self) -> ParseResult {
        let start = self.bump()?.1.start;
        let mut inner = self.expression()?;
        inner.range = start..self.expect(")")?.end;
        Ok(inner)
    }

    fn list(&mut self) -> ParseResult {
        let start = self.bump()?.1.start;
        let (items, end) = self.items("]")?;
        self.make_syntax(CelSyntaxKind::List(items), start..end)
    }

    fn word(&mut self) -> ParseResult {
        let (token, range) = self.bump()?;
        match token {
            CelToken::Literal(CelLiteral::Int(number)) if number > i64::MAX as u64 => {
                let problem = CelProblem::new("the number is too large for an int", range);
                Err(problem.hint("write it with a `u` at its end"))
            }
            CelToken::Literal(literal) => self.make_syntax(CelSyntaxKind::Literal(literal), range),
            // A leading dot refers to the outermost scope. There is only one scope.
            CelToken::Mark(".") => match self.bump()? {
                (CelToken::Ident, at) => self.name(at),
                (token, at) => Err(self.unexpected(&token, at, "a name")),
            },
            CelToken::Ident => self.name(range),
            token => Err(self.unexpected(&token, range, "a value")),
        }
    }

    fn name(&mut self, range: Range<usize>) -> ParseResult {
        let text = self.lexer.text;
        let name = &text[range.clone()];
        if RESERVED.contains(&name) {
            return Err(CelProblem::new(format!("`{name}` is reserved: it cannot be a name"), range));
        }
        if self.eat("(")? {
            return self.call(None, name.into(), range.clone(), range.start);
        }
        if self.next_is("{")? {
            let hint = "write a map: {\"name\": value}";
            return Err(
                CelProblem::new(format!("messages such as `{name}{{…}}` cannot be constructed"), range).hint(hint)
            );
        }
        self.make_syntax(CelSyntaxKind::Name(name.into()), range)
    }
}

fn too_deep(range: Range<usize>) -> Box<CelProblem> {
    let problem = CelProblem::new(format!("the expression nests deeper than {MAX_DEPTH}"), range);
    problem.hint("a chain of operators counts too: compute a part of it in an earlier step")
}
