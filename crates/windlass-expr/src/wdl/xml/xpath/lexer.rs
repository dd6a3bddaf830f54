//! Lexer: text to tokens. The preceding token decides whether `*`, `and`, `or`, `div` and `mod` are operators.

use super::XPathError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum XPathToken {
    /// `(` `)` `[` `]` `.` `..` `@` `,` `::` `/` `//` `|` `+` `-` `=` `!=` `<` `<=` `>` `>=`
    Sign(&'static str),
    /// `*` where a name is allowed.
    Star,
    /// An operator that is a word, or `*` between two operands.
    Operator(OperatorWord),
    Literal(String),
    Number(f64),
    /// A name with its prefix; the local part of `p:*` is `*`.
    Name {
        prefix: Option<String>,
        local: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum OperatorWord {
    And,
    Or,
    Div,
    Mod,
    Times,
}

/// Longer signs come first.
const SIGNS: &[&str] =
    &["::", "//", "..", "!=", "<=", ">=", "(", ")", "[", "]", ".", "@", ",", "/", "|", "+", "-", "=", "<", ">"];

/// Returns the tokens, each with its start offset.
pub(super) fn tokenize(text: &str) -> Result<Vec<(XPathToken, usize)>, XPathError> {
    let (mut found, mut at) = (Vec::<(XPathToken, usize)>::new(), 0);
    loop {
        at += text[at..].len() - text[at..].trim_start_matches([' ', '\t', '\r', '\n']).len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let operand_before = found.last().is_some_and(|(token, _)| ends_operand(token));
        let (token, length) = match first {
            '"' | '\'' => {
                let inside = rest[1..].split_once(first).map(|(inside, _)| inside);
                let inside = inside.ok_or_else(|| XPathError::new(format!("the text at {at} is not closed")))?;
                (XPathToken::Literal(inside.to_owned()), inside.len() + 2)
            }
            '0'..='9' => number(rest)?,
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => number(rest)?,
            '*' if operand_before => (XPathToken::Operator(OperatorWord::Times), 1),
            '*' => (XPathToken::Star, 1),
            '$' => {
                return Err(XPathError {
                    message: format!("variables are not supported in XPath, found `$` at {at}"),
                    hint: Some("insert the value with concat(…)".to_owned()),
                });
            }
            c if starts_name(c) => word(rest, operand_before),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (XPathToken::Sign(sign), sign.len()),
                None => return Err(XPathError::new(format!("`{first}` at {at} is not valid in XPath"))),
            },
        };
        found.push((token, at));
        at += length;
    }
}

/// Returns whether only an operator can follow this token.
fn ends_operand(token: &XPathToken) -> bool {
    match token {
        XPathToken::Sign(sign) => matches!(*sign, ")" | "]" | "." | ".."),
        XPathToken::Operator(_) => false,
        _ => true,
    }
}

fn number(rest: &str) -> Result<(XPathToken, usize), XPathError> {
    let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
    let length = match rest[whole..].starts_with('.') {
        true => whole + 1 + rest[whole + 1..].bytes().take_while(u8::is_ascii_digit).count(),
        false => whole,
    };
    let text = &rest[..length];
    let number = text.parse().map_err(|_| XPathError::new(format!("`{text}` is not a number")))?;
    Ok((XPathToken::Number(number), length))
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn name_length(text: &str) -> usize {
    match text.starts_with(starts_name) {
        true => text.find(|c: char| !(c.is_alphanumeric() || "_-.\u{b7}".contains(c))).unwrap_or(text.len()),
        false => 0,
    }
}

fn word(rest: &str, operand_before: bool) -> (XPathToken, usize) {
    let length = name_length(rest);
    let name = &rest[..length];
    if operand_before {
        let operator = match name {
            "and" => Some(OperatorWord::And),
            "or" => Some(OperatorWord::Or),
            "div" => Some(OperatorWord::Div),
            "mod" => Some(OperatorWord::Mod),
            _ => None,
        };
        if let Some(operator) = operator {
            return (XPathToken::Operator(operator), length);
        }
    }
    if let Some(after) = rest[length..].strip_prefix(':').filter(|after| !after.starts_with(':')) {
        let local = if after.starts_with('*') { 1 } else { name_length(after) };
        if local > 0 {
            let token = XPathToken::Name { prefix: Some(name.to_owned()), local: after[..local].to_owned() };
            return (token, length + 1 + local);
        }
    }
    (XPathToken::Name { prefix: None, local: name.to_owned() }, length)
}
