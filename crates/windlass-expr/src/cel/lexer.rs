//! Lexer: text to tokens, one at a time. The parser may move the start of the next token, since step ids may contain
//! hyphens.

use std::ops::Range;

use super::syntax::{CelLiteral, CelProblem};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelToken {
    End,
    Ident,
    Literal(CelLiteral),
    /// An operator or a bracket, as written.
    Mark(&'static str),
}

/// Longer operators come first: the first match wins.
const MARKS: [&str; 27] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",", "(", ")", "[", "]",
    "{", "}", "=", "&", "|",
];

pub(super) struct CelLexer<'a> {
    pub text: &'a str,
    /// The offset at which the next token, or the whitespace before it, begins.
    pub at: usize,
}

impl<'a> CelLexer<'a> {
    pub(crate) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips whitespace and comments.
    pub(crate) fn skip_blank(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.at += blank;
            match self.rest().strip_prefix("//") {
                Some(comment) => self.at += 2 + comment.find(['\n', '\r']).unwrap_or(comment.len()),
                None if blank == 0 => return,
                None => {}
            }
        }
    }

    pub(crate) fn next(&mut self) -> Result<(CelToken, Range<usize>), Box<CelProblem>> {
        self.skip_blank();
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((CelToken::End, start..start)) };
        let token = if let Some(prefix) = literal_prefix(rest) {
            CelToken::Literal(self.quoted(prefix)?)
        } else if is_word(first) && !first.is_ascii_digit() {
            self.at += word(rest).len();
            match &self.text[start..self.at] {
                "true" => CelToken::Literal(CelLiteral::Bool(true)),
                "false" => CelToken::Literal(CelLiteral::Bool(false)),
                "null" => CelToken::Literal(CelLiteral::Null),
                "in" => CelToken::Mark("in"),
                _ => CelToken::Ident,
            }
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            CelToken::Literal(self.number()?)
        } else {
            let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) else {
                return Err(unknown_sign(first, start));
            };
            self.at += mark.len();
            match *mark {
                "=" | "&" | "|" => {
                    let meant = if *mark == "=" { "==".to_owned() } else { format!("{mark}{mark}") };
                    let hint = format!("write `{meant}`");
                    return Err(CelProblem::new(format!("`{mark}` is not an operator"), start..self.at).hint(hint));
                }
                mark => CelToken::Mark(mark),
            }
        };
        Ok((token, start..self.at))
    }

    fn number(&mut self) -> Result<CelLiteral, Box<CelProblem>> {
        let start = self.at;
        let rest = self.rest();
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let digits = word(hex);
            let (digits, unsigned) = match digits.strip_suffix(['u', 'U']) {
                Some(digits) => (digits, true),
                None => (digits, false),
            };
            self.at += 2 + word(hex).len();
            return self.integer(digits, 16, unsigned, start);
        }
        let count = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut end = count(rest);
        let mut real = false;
        if rest[end..].starts_with('.') && count(&rest[end + 1..]) > 0 {
            end += 1 + count(&rest[end + 1..]);
            real = true;
        }
        if let Some(power) = rest[end..].strip_prefix(['e', 'E']) {
            let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
            if count(digits) > 0 {
                end += 1 + (power.len() - digits.len()) + count(digits);
                real = true;
            }
        }
        let tail = word(&rest[end..]);
        self.at += end + tail.len();
        match (real, tail) {
            (true, "") => {
                let number: Option<f64> = rest[..end].parse().ok().filter(|number: &f64| number.is_finite());
                number.map(CelLiteral::Double).ok_or_else(|| self.bad_number(start, "it is too large"))
            }
            (false, "" | "u" | "U") => self.integer(&rest[..end], 10, !tail.is_empty(), start),
            _ => Err(self.bad_number(start, "letters follow the digits")),
        }
    }

    fn integer(&self, digits: &str, radix: u32, unsigned: bool, start: usize) -> Result<CelLiteral, Box<CelProblem>> {
        match u64::from_str_radix(digits, radix) {
            Ok(number) if unsigned => Ok(CelLiteral::Uint(number)),
            // One more than the largest int is valid only after a minus sign; the parser checks this.
            Ok(number) if number <= i64::MAX as u64 + 1 => Ok(CelLiteral::Int(number)),
            Ok(_) => Err(self.bad_number(start, "it is too large for an int").hint("write it with a `u` at its end")),
            Err(_) if digits.is_empty() => Err(self.bad_number(start, "digits are missing")),
            Err(_) => Err(self.bad_number(start, "it is too large, or has a letter that is no digit")),
        }
    }

    fn bad_number(&self, start: usize, why: &str) -> Box<CelProblem> {
        let text: String = self.text[start..self.at].chars().take(40).collect();
        CelProblem::new(format!("`{text}` is not a number: {why}"), start..self.at)
    }

    /// Reads a string or bytes literal; the prefix determines whether it is raw and whether it is bytes.
    fn quoted(&mut self, prefix: Prefix) -> Result<CelLiteral, Box<CelProblem>> {
        let start = self.at;
        let rest = &self.rest()[prefix.letters..];
        let quote = &rest[..1];
        let fence = match rest.starts_with(&quote.repeat(3)) {
            true => quote.repeat(3),
            false => quote.to_owned(),
        };
        let body = &rest[fence.len()..];
        let mut end = None;
        let mut signs = body.char_indices();
        while let Some((at, sign)) = signs.next() {
            if body[at..].starts_with(&fence) {
                end = Some(at);
                break;
            }
            match sign {
                '\\' if !prefix.raw => drop(signs.next()),
                '\n' | '\r' if fence.len() == 1 => break,
                _ => {}
            }
        }
        let Some(end) = end else {
            let range = start..start + prefix.letters + fence.len();
            let hint = match fence.len() {
                1 => format!("close it with {quote}; a text over several lines is enclosed in {}", quote.repeat(3)),
                _ => format!("close it with {fence}"),
            };
            return Err(CelProblem::new("the text is not closed", range).hint(hint));
        };
        let body_at = start + prefix.letters + fence.len();
        self.at = body_at + end + fence.len();
        let body = &body[..end];
        if prefix.raw {
            return Ok(match prefix.bytes {
                true => CelLiteral::Bytes(body.as_bytes().into()),
                false => CelLiteral::Str(body.into()),
            });
        }
        if prefix.bytes {
            return unescape(body, body_at, true).map(|bytes| CelLiteral::Bytes(bytes.into()));
        }
        let text = unescape(body, body_at, false)?;
        match String::from_utf8(text) {
            Ok(text) => Ok(CelLiteral::Str(text.into())),
            Err(_) => Err(CelProblem::new("the text is not Unicode", start..self.at)),
        }
    }
}

struct Prefix {
    letters: usize,
    raw: bool,
    bytes: bool,
}

fn literal_prefix(rest: &str) -> Option<Prefix> {
    // Look only at the first bytes: every token calls this, and the rest of the text may be long.
    let letters = rest.bytes().take(3).position(|byte| matches!(byte, b'"' | b'\''))?;
    let (raw, bytes) = match rest[..letters].to_ascii_lowercase().as_str() {
        "" => (false, false),
        "r" => (true, false),
        "b" => (false, true),
        "rb" | "br" => (true, true),
        _ => return None,
    };
    Some(Prefix { letters, raw, bytes })
}

fn unescape(body: &str, body_at: usize, bytes: bool) -> Result<Vec<u8>, Box<CelProblem>> {
    let mut out = Vec::with_capacity(body.len());
    let mut at = 0;
    while let Some(sign) = body[at..].chars().next() {
        let start = at;
        at += sign.len_utf8();
        if sign != '\\' {
            out.extend_from_slice(&body.as_bytes()[start..at]);
            continue;
        }
        let Some(letter) = body[at..].chars().next() else { break };
        at += letter.len_utf8();
        let bad_escape = |end: usize| {
            let end = (start..=end.min(body.len())).rev().find(|end| body.is_char_boundary(*end)).unwrap_or(start);
            let message = format!("`{}` is not a valid escape", &body[start..end]);
            let hint = "escapes are \\n \\r \\t \\a \\b \\f \\v \\\\ \\? \\\" \\' \\` \\xFF \\u00FF \\U000000FF \\377; a raw text r'…' has none";
            CelProblem::new(message, body_at + start..body_at + end).hint(hint)
        };
        let plain = match letter {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '?' | '"' | '\'' | '`' => letter as u8,
            'x' | 'X' | 'u' | 'U' | '0'..='3' => 0,
            _ => return Err(bad_escape(at)),
        };
        if plain != 0 {
            out.push(plain);
            continue;
        }
        let (from, digits, radix) = match letter {
            'x' | 'X' => (at, 2, 16),
            'u' if !bytes => (at, 4, 16),
            'U' if !bytes => (at, 8, 16),
            'u' | 'U' => {
                return Err(bad_escape(at).hint("bytes have no \\u: write \\xFF"));
            }
            _ => (at - 1, 3, 8),
        };
        let code = body.get(from..from + digits).filter(|code| code.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let code = code.and_then(|code| u32::from_str_radix(code, radix).ok());
        at = from + digits;
        match code {
            Some(code) if bytes => out.push(u8::try_from(code).map_err(|_| bad_escape(at))?),
            Some(code) => {
                let sign = char::from_u32(code).ok_or_else(|| bad_escape(at))?;
                out.extend_from_slice(sign.encode_utf8(&mut [0; 4]).as_bytes());
            }
            None => return Err(bad_escape(at)),
        }
    }
    Ok(out)
}

fn unknown_sign(sign: char, at: usize) -> Box<CelProblem> {
    let problem = CelProblem::new(format!("`{}` has no meaning here", sign.escape_debug()), at..at + sign.len_utf8());
    match sign {
        '“' | '”' | '‘' | '’' => problem.hint("texts are enclosed in \" or '"),
        '$' | '@' => problem.hint("names are written without a sign: steps.build.content"),
        '`' => problem.hint("names with hyphens can be written as they are, or as steps[\"x-y\"]"),
        _ => problem,
    }
}

pub(super) fn is_word(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || sign == '_'
}

/// Returns the letters, digits and underscores at the start of a text.
pub(super) fn word(text: &str) -> &str {
    let end = text.find(|sign: char| !is_word(sign)).unwrap_or(text.len());
    &text[..end]
}
