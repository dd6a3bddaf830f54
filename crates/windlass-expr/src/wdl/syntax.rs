//! Parser: decides which strings are expressions and parses them. It knows no functions.

use std::ops::Range;

use windlass_value::Value;

/// The maximum number of characters of one expression.
pub(crate) const MAX_LENGTH: usize = 8192;
/// The maximum nesting depth of calls and indexes, so that walking the syntax cannot exhaust the stack.
pub(crate) const MAX_NESTING: usize = 100;

/// A syntax error in one string; ranges are byte offsets in that string.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WdlSyntaxError {
    pub message: String,
    pub hint: Option<String>,
    pub range: Range<usize>,
}

impl WdlSyntaxError {
    fn new(message: impl Into<String>, range: Range<usize>) -> WdlSyntaxError {
        WdlSyntaxError { message: message.into(), hint: None, range }
    }

    fn hint(mut self, hint: impl Into<String>) -> WdlSyntaxError {
        self.hint = Some(hint.into());
        self
    }
}

/// The meaning of a string in a definition.
#[derive(Debug)]
pub(crate) enum WdlText {
    /// Plain text.
    Plain,
    /// Plain text with its escapes removed.
    Unescaped(String),
    /// One expression; the result keeps its type.
    Whole(WdlSyntax),
    /// Text with expressions in it; the result is a string.
    Mixed(Vec<WdlTextPart>),
}

#[derive(Debug)]
pub(crate) enum WdlTextPart {
    Literal(String),
    Expression(WdlSyntax),
}

#[derive(Debug)]
pub(crate) struct WdlSyntax {
    pub range: Range<usize>,
    pub kind: WdlSyntaxKind,
}

#[derive(Debug)]
pub(crate) enum WdlSyntaxKind {
    Literal(Value),
    Call(CallSyntax),
    /// Navigation is kept flat, so that a long chain does not become a deep tree.
    Path {
        root: Box<WdlSyntax>,
        steps: Vec<StepSyntax>,
    },
}

#[derive(Debug)]
pub(crate) struct CallSyntax {
    pub name: String,
    pub name_range: Range<usize>,
    /// The offset of an `@` before the call, although the call is already inside an expression.
    pub inner_at: Option<usize>,
    pub arguments: Vec<WdlSyntax>,
}

#[derive(Debug)]
pub(crate) struct StepSyntax {
    pub range: Range<usize>,
    /// Preceded by `?`.
    pub safe: bool,
    pub key: StepKey,
}

#[derive(Debug)]
pub(crate) enum StepKey {
    Name(String),
    Index(WdlSyntax),
}

/// Returns whether a string contains an expression.
pub(crate) fn is_expression(text: &str) -> bool {
    (text.len() > 1 && text.starts_with('@') && !text.starts_with("@@")) || text.contains("@{")
}

pub(crate) fn parse_text(text: &str) -> Result<WdlText, WdlSyntaxError> {
    let bytes = text.as_bytes();
    match bytes {
        [b'@', b'@', ..] => Ok(WdlText::Unescaped(text[1..].to_owned())),
        [b'@', second, ..] if *second != b'{' => {
            check_length(text, 1..text.len())?;
            let mut parser = Parser { text, at: 1, depth: 0 };
            let syntax = parser.expression()?;
            parser.skip_space();
            match parser.at == text.len() {
                true => Ok(WdlText::Whole(syntax)),
                false => Err(parser.trailing()),
            }
        }
        _ if text.contains("@{") => parse_mixed(text),
        _ => Ok(WdlText::Plain),
    }
}

fn check_length(text: &str, range: Range<usize>) -> Result<(), WdlSyntaxError> {
    if range.len() <= MAX_LENGTH || text[range.clone()].chars().count() <= MAX_LENGTH {
        return Ok(());
    }
    Err(WdlSyntaxError::new(format!("the expression is longer than {MAX_LENGTH} characters"), range)
        .hint("compute parts of it in separate actions"))
}

fn parse_mixed(text: &str) -> Result<WdlText, WdlSyntaxError> {
    let (mut pieces, mut literal, mut rest) = (Vec::new(), String::new(), 0);
    while let Some(found) = text[rest..].find('@') {
        let at = rest + found;
        literal.push_str(&text[rest..at]);
        let tail = &text[at..];
        if tail.starts_with("@@{") {
            literal.push_str("@{");
            rest = at + 3;
        } else if tail.starts_with("@{") {
            if !literal.is_empty() {
                pieces.push(WdlTextPart::Literal(std::mem::take(&mut literal)));
            }
            let mut parser = Parser { text, at: at + 2, depth: 0 };
            let syntax = parser.expression()?;
            parser.skip_space();
            check_length(text, at + 2..parser.at)?;
            match parser.peek() {
                Some(b'}') => rest = parser.at + 1,
                None => {
                    return Err(WdlSyntaxError::new("`@{` is not closed", at..at + 2)
                        .hint("add the `}`; write `@@{` for the literal text"));
                }
                Some(_) => return Err(parser.trailing()),
            }
            pieces.push(WdlTextPart::Expression(syntax));
        } else {
            literal.push('@');
            rest = at + 1;
        }
    }
    literal.push_str(&text[rest..]);
    if pieces.is_empty() {
        return Ok(WdlText::Unescaped(literal));
    }
    if !literal.is_empty() {
        pieces.push(WdlTextPart::Literal(literal));
    }
    Ok(WdlText::Mixed(pieces))
}

const QUOTE_HINT: &str = "a quote inside a text is doubled: 'it''s'";

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Returns the range of the next character, for error locations.
    fn here(&self) -> Range<usize> {
        self.at..self.at + self.rest().chars().next().map_or(0, char::len_utf8)
    }

    /// Returns whether a letter follows the end of a text, as in `'it's'`.
    fn after_quote(&self, next: char) -> bool {
        next.is_alphanumeric() && self.text[..self.at].ends_with('\'')
    }

    fn trailing(&self) -> WdlSyntaxError {
        let next = self.rest().chars().next();
        let shown: String = self.rest().chars().take(20).collect();
        let error = WdlSyntaxError::new(format!("the expression has ended, but `{shown}` follows"), self.here());
        match next {
            Some(next) if self.after_quote(next) => error.hint(QUOTE_HINT),
            Some('=' | '<' | '>' | '!' | '&' | '|' | '+' | '-' | '*' | '/' | '%') => {
                error.hint("there are no operators: use functions such as equals(a, b), and(a, b), add(a, b)")
            }
            Some(')') => error.hint("there is one `)` too many"),
            _ => error.hint("to mix text and expressions write `@{…}` around each expression"),
        }
    }

    fn expression(&mut self) -> Result<WdlSyntax, WdlSyntaxError> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(WdlSyntaxError::new(format!("the expression nests deeper than {MAX_NESTING}"), self.here())
                .hint("compute parts of it in separate actions"));
        }
        self.skip_space();
        let start = self.at;
        let root = self.primary()?;
        let steps = self.steps()?;
        self.depth -= 1;
        match steps.is_empty() {
            true => Ok(root),
            false => Ok(WdlSyntax { range: start..self.at, kind: WdlSyntaxKind::Path { root: Box::new(root), steps } }),
        }
    }

    fn primary(&mut self) -> Result<WdlSyntax, WdlSyntaxError> {
        match self.peek() {
            None => Err(WdlSyntaxError::new("an expression is missing here", self.at..self.at)),
            Some(b'\'') => {
                let start = self.at;
                let text = self.quoted()?;
                Ok(WdlSyntax { range: start..self.at, kind: WdlSyntaxKind::Literal(Value::from(text)) })
            }
            Some(b'"') => Err(WdlSyntaxError::new("texts are written in single quotes", self.here())
                .hint("write 'text'; a quote inside it is doubled: 'it''s'")),
            Some(b'@') => self.inner_at(),
            Some(b'+' | b'-' | b'.' | b'0'..=b'9') => self.number(),
            Some(b'{' | b'[') => Err(WdlSyntaxError::new("there are no object or array literals", self.here())
                .hint("use json('{…}') or createArray(…)")),
            Some(_) => self.named(None),
        }
    }

    /// Parses an `@` before a call within an expression. It is a common mistake, so it is read as the call alone.
    fn inner_at(&mut self) -> Result<WdlSyntax, WdlSyntaxError> {
        let at = self.at;
        self.at += 1;
        match self.rest().starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            true => self.named(Some(at)),
            false => Err(WdlSyntaxError::new("`@` is not allowed here", at..at + 1)
                .hint("inside an expression write the call without `@`; literal text goes in quotes")),
        }
    }

    fn name(&mut self) -> &str {
        let start = self.at;
        let rest = self.rest();
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
        self.at += length;
        &self.text[start..self.at]
    }

    fn named(&mut self, inner_at: Option<usize>) -> Result<WdlSyntax, WdlSyntaxError> {
        let start = self.at;
        let name = self.name().to_owned();
        let name_range = start..self.at;
        if name.is_empty() {
            let shown: String = self.rest().chars().take(1).collect();
            return Err(WdlSyntaxError::new(format!("`{shown}` cannot begin an expression"), self.here())
                .hint("an expression is a call, a 'text', a number, true, false or null"));
        }
        self.skip_space();
        if self.peek() == Some(b'(') {
            self.at += 1;
            let arguments = self.arguments(&name, &name_range)?;
            let call = CallSyntax { name, name_range, inner_at, arguments };
            return Ok(WdlSyntax { range: start..self.at, kind: WdlSyntaxKind::Call(call) });
        }
        self.at = name_range.end;
        let literal = match name.to_ascii_lowercase().as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            _ => {
                return Err(WdlSyntaxError::new(format!("`{name}` is neither a call nor a literal"), name_range).hint(
                    format!("text goes in quotes: '{name}'; a call has parentheses; begin literal text with `@@`"),
                ));
            }
        };
        Ok(WdlSyntax { range: name_range, kind: WdlSyntaxKind::Literal(literal) })
    }

    fn arguments(&mut self, name: &str, name_range: &Range<usize>) -> Result<Vec<WdlSyntax>, WdlSyntaxError> {
        let mut arguments = Vec::new();
        self.skip_space();
        if self.peek() == Some(b')') {
            self.at += 1;
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b')') => {
                    self.at += 1;
                    return Ok(arguments);
                }
                None => {
                    return Err(WdlSyntaxError::new(
                        format!("the call of `{name}` is not closed"),
                        name_range.start..self.text.len(),
                    )
                    .hint("a `)` is missing"));
                }
                Some(_) => {
                    let next = self.rest().chars().next().unwrap_or_default();
                    let hint = match self.after_quote(next) {
                        true => QUOTE_HINT.to_owned(),
                        false => format!("arguments of `{name}` are separated by commas"),
                    };
                    let message = format!("expected `,` or `)`, found `{next}`");
                    return Err(WdlSyntaxError::new(message, self.here()).hint(hint));
                }
            }
        }
    }

    fn steps(&mut self) -> Result<Vec<StepSyntax>, WdlSyntaxError> {
        let mut steps = Vec::new();
        loop {
            let before = self.at;
            self.skip_space();
            let start = self.at;
            let safe = self.peek() == Some(b'?');
            if safe {
                self.at += 1;
            }
            let key = match self.peek() {
                Some(b'.') => {
                    self.at += 1;
                    self.property()?
                }
                Some(b'[') => {
                    self.at += 1;
                    self.index()?
                }
                _ if safe => {
                    return Err(WdlSyntaxError::new("`?` must be followed by `.name` or `[…]`", start..start + 1));
                }
                _ => {
                    self.at = before;
                    return Ok(steps);
                }
            };
            steps.push(StepSyntax { range: start..self.at, safe, key });
        }
    }

    fn property(&mut self) -> Result<StepKey, WdlSyntaxError> {
        let here = self.here();
        let name = self.name();
        match name.is_empty() {
            false => Ok(StepKey::Name(name.to_owned())),
            true => Err(WdlSyntaxError::new("a property name is missing after `.`", here)
                .hint("a name with other characters is written ['the name']")),
        }
    }

    fn index(&mut self) -> Result<StepKey, WdlSyntaxError> {
        let start = self.at - 1;
        let inner = self.expression()?;
        self.skip_space();
        match self.peek() {
            Some(b']') => {
                self.at += 1;
                Ok(match inner.kind {
                    WdlSyntaxKind::Literal(Value::Str(name)) => StepKey::Name(name.as_ref().to_owned()),
                    _ => StepKey::Index(inner),
                })
            }
            _ => Err(WdlSyntaxError::new("`[` is not closed", start..self.at).hint("a `]` is missing")),
        }
    }

    fn quoted(&mut self) -> Result<String, WdlSyntaxError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(length) = self.rest().find('\'') else {
                return Err(WdlSyntaxError::new("the text is not closed", start..self.text.len())
                    .hint("a `'` is missing; a quote inside a text is doubled: 'it''s'"));
            };
            text.push_str(&self.rest()[..length]);
            self.at += length + 1;
            if self.peek() != Some(b'\'') {
                return Ok(text);
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<WdlSyntax, WdlSyntaxError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let signed = start + usize::from(matches!(bytes[start], b'+' | b'-'));
        let whole_end = digits(signed);
        let (mut end, mut digit_count, mut float) = (whole_end, whole_end - signed, false);
        if bytes.get(end) == Some(&b'.') {
            let fraction_end = digits(end + 1);
            // A point always makes it a float, also without digits after it (`1.`). `1.name`, navigation on a number,
            // is rejected below.
            digit_count += fraction_end - (end + 1);
            (end, float) = (fraction_end, true);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent_end = digits(end + 1 + sign);
            if exponent_end > end + 1 + sign {
                (end, float) = (exponent_end, true);
            }
        }
        self.at = end;
        // Letters directly after the number are part of the error.
        self.name();
        let range = start..self.at;
        let text = &self.text[range.clone()];
        if digit_count == 0 || self.at != end {
            let end = if self.at == start { self.here().end } else { self.at };
            let shown = &self.text[start..end];
            return Err(WdlSyntaxError::new(format!("`{shown}` is not a number"), start..end));
        }
        let value = match float {
            true => text.parse().ok().and_then(Value::float),
            false => text.parse().ok().map(Value::Int),
        };
        match value {
            Some(value) => Ok(WdlSyntax { range, kind: WdlSyntaxKind::Literal(value) }),
            None => Err(WdlSyntaxError::new(format!("the number {text} is out of range"), range)
                .hint("integers have 64 bits, floats are doubles")),
        }
    }
}
