//! Strict RFC 8259 JSON into the spanned tree. The first syntax error ends parsing; duplicate keys do not.

use std::collections::HashMap;

use windlass_value::Value;

use crate::{Diagnostic, Diagnostics, SourceText, Span, SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind};

pub(crate) const MALFORMED: &str = "WND-1001";
pub(crate) const DUPLICATE_KEY: &str = "WND-1002";
const TOO_LARGE: &str = "WND-1003";
pub(crate) const TOO_DEEP: &str = "WND-1004";
pub(crate) const EMPTY: &str = "WND-1005";

#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    pub bytes: usize,
    pub depth: usize,
}

/// Upper bound of the depth limit, however high the setting: parsers and compilers recurse as deep as the file, and a
/// thread's stack is finite.
pub(crate) const DEPTH_CEILING: usize = 512;

/// Parses a file. Returns `None` if there is no tree at all; with a tree there may still be problems (duplicate
/// keys).
pub fn parse_json(source: &SourceText, limits: ParseLimits, diagnostics: &mut Diagnostics) -> Option<SyntaxNode> {
    let text = &*source.text;
    if let Some(problem) = too_large(source, limits) {
        diagnostics.push(problem);
        return None;
    }
    // Editors on Windows begin a file with a byte order mark; it has no meaning in UTF-8.
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut parser = SpannedJsonParser { text, at: start, max_depth: limits.depth.min(DEPTH_CEILING), diagnostics };
    match parser.document() {
        Ok(node) => Some(node),
        Err(problem) => {
            diagnostics.push(*problem);
            None
        }
    }
}

pub(crate) fn too_large(source: &SourceText, limits: ParseLimits) -> Option<Diagnostic> {
    // The actual size is unknown here: the caller may have stopped reading at the limit.
    let message = format!("the file is larger than the maximum of {} bytes for a definition", limits.bytes);
    let hint = "raise `limits.max_definition_bytes` in windlass.toml if this is intended";
    (source.text.len() > limits.bytes).then(|| Diagnostic::error(TOO_LARGE, Span::at(0), message).with_hint(hint))
}

type JsonParseResult<T> = Result<T, Box<Diagnostic>>;

struct SpannedJsonParser<'a> {
    text: &'a str,
    at: usize,
    max_depth: usize,
    diagnostics: &'a mut Diagnostics,
}

impl SpannedJsonParser<'_> {
    fn document(&mut self) -> JsonParseResult<SyntaxNode> {
        self.skip_space();
        if self.at == self.text.len() {
            let problem = Diagnostic::error(EMPTY, Span::at(self.at), "the file is empty");
            return Err(Box::new(problem.with_hint("a definition begins with `{`")));
        }
        let node = self.value(1)?;
        self.skip_space();
        match self.peek() {
            None => Ok(node),
            Some(b'}' | b']') => Err(self.malformed("this bracket closes nothing", "remove it")),
            Some(_) => {
                Err(self.malformed("the definition has ended, but more text follows", "one file holds one value"))
            }
        }
    }

    fn value(&mut self, depth: usize) -> JsonParseResult<SyntaxNode> {
        if depth > self.max_depth {
            let message = format!("the file nests deeper than {}", self.max_depth);
            let problem = Diagnostic::error(TOO_DEEP, Span::new(self.at, self.at + 1), message);
            return Err(Box::new(
                problem.with_hint("raise `limits.max_definition_depth` in windlass.toml if this is intended"),
            ));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => SyntaxNodeKind::Str(self.string()?),
            Some(b'-' | b'0'..=b'9') => SyntaxNodeKind::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(SyntaxNode::new(Span::new(start, self.at), kind))
    }

    fn object(&mut self, depth: usize) -> JsonParseResult<SyntaxNodeKind> {
        let opening = self.at;
        self.at += 1;
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'}') if entries.is_empty() => break,
                Some(b'"') => {}
                _ => return Err(self.not_a_key(opening, !entries.is_empty())),
            }
            let key = self.key(&mut seen)?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.expected("`:` after the key", opening, "a key and its value are separated by `:`"));
            }
            self.at += 1;
            self.skip_space();
            let node = self.value(depth + 1)?;
            entries.push((key, node));
            if self.at_closing_bracket(b'}', opening)? {
                return Ok(SyntaxNodeKind::Map(entries));
            }
        }
        self.at += 1;
        Ok(SyntaxNodeKind::Map(entries))
    }

    fn key(&mut self, seen: &mut HashMap<String, Span>) -> JsonParseResult<SpannedKey> {
        let start = self.at;
        let text = self.string()?.text;
        let span = Span::new(start, self.at);
        match seen.get(&text) {
            Some(first) => {
                let problem = Diagnostic::error(DUPLICATE_KEY, span, format!("the key {text:?} is given twice"));
                self.diagnostics
                    .push(problem.with_label(*first, "first here").with_hint("rename or remove one of them"));
            }
            None => {
                seen.insert(text.clone(), span);
            }
        }
        Ok(SpannedKey { text, span })
    }

    fn array(&mut self, depth: usize) -> JsonParseResult<SyntaxNodeKind> {
        let opening = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b']') if items.is_empty() => {
                    self.at += 1;
                    return Ok(SyntaxNodeKind::List(items));
                }
                Some(b']') => return Err(self.trailing_comma()),
                None => return Err(self.unclosed(opening)),
                Some(_) => items.push(self.value(depth + 1)?),
            }
            if self.at_closing_bracket(b']', opening)? {
                return Ok(SyntaxNodeKind::List(items));
            }
        }
    }

    /// After an item: consumes a comma, or returns true at the closing bracket.
    fn at_closing_bracket(&mut self, bracket: u8, opening: usize) -> JsonParseResult<bool> {
        self.skip_space();
        let next = self.peek();
        if next == Some(b',') || next == Some(bracket) {
            self.at += 1;
            return Ok(next == Some(bracket));
        }
        let expected = format!("`,` or `{}`", char::from(bracket));
        let hint = match next {
            Some(b'"' | b'{' | b'[') => "a comma is missing before this",
            Some(b'}' | b']') => "this bracket does not match the one that is open",
            _ => "items are separated by commas",
        };
        Err(self.expected(&expected, opening, hint))
    }

    fn string(&mut self) -> JsonParseResult<SpannedText> {
        let opening = self.at;
        self.at += 1;
        let (mut text, mut anchors) = (String::new(), vec![(0, self.at)]);
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
            text.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(SpannedText::anchored(text, anchors));
                }
                Some(b'\\') => {
                    text.push(self.escape()?);
                    anchors.push((text.len(), self.at));
                }
                Some(b'\n' | b'\r') | None => {
                    let span = Span::new(opening, self.at);
                    return Err(Box::new(
                        Diagnostic::error(MALFORMED, span, "the text is not closed")
                            .with_hint("a `\"` is missing; a line break inside a text is written `\\n`"),
                    ));
                }
                Some(_) => {
                    return Err(self.malformed("a control character inside a text", "write it as `\\t` or `\\u00XX`"));
                }
            }
        }
    }

    fn escape(&mut self) -> JsonParseResult<char> {
        let start = self.at;
        let letter = self.text[start + 1..].chars().next();
        self.at += 1 + letter.map_or(0, char::len_utf8);
        Ok(match letter {
            Some('"') => '"',
            Some('\\') => '\\',
            Some('/') => '/',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => return self.unicode_escape(start),
            _ => {
                let shown = &self.text[start..self.at];
                let problem =
                    Diagnostic::error(MALFORMED, Span::new(start, self.at), format!("`{shown}` is not a valid escape"));
                return Err(Box::new(problem.with_hint("a backslash itself is written `\\\\`")));
            }
        })
    }

    /// Parses `\uXXXX`, or a pair of them for a character beyond the first 65,536.
    fn unicode_escape(&mut self, start: usize) -> JsonParseResult<char> {
        let first = self.hex4();
        let code = match first {
            Some(high @ 0xD800..=0xDBFF) if self.text[self.at..].starts_with("\\u") => {
                self.at += 2;
                let low = self.hex4().filter(|low| (0xDC00..=0xDFFF).contains(low));
                low.map(|low| 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
            }
            other => other,
        };
        code.and_then(char::from_u32).ok_or_else(|| {
            let problem = Diagnostic::error(MALFORMED, Span::new(start, self.at), "this is not a Unicode character");
            Box::new(problem.with_hint("`\\u` takes four hexadecimal digits; surrogates come in pairs"))
        })
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> JsonParseResult<Value> {
        let start = self.at;
        let length = self.text[start..].find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)));
        self.at = start + length.unwrap_or(self.text.len() - start);
        let text = &self.text[start..self.at];
        if is_number(text) {
            return Ok(to_number(text));
        }
        let problem = Diagnostic::error(MALFORMED, Span::new(start, self.at), format!("`{text}` is not a number"));
        let digits = text.trim_start_matches('-');
        let hint = if digits.starts_with('0') && digits.len() > 1 && !digits.contains('.') {
            "numbers are decimal and have no leading zeros"
        } else {
            "a number is written like 12, -3.5 or 1e9; anything else goes in double quotes"
        };
        Err(Box::new(problem.with_hint(hint)))
    }

    fn word(&mut self) -> JsonParseResult<SyntaxNodeKind> {
        let start = self.at;
        let rest = &self.text[start..];
        let length = rest.find(|c: char| !(c.is_alphanumeric() || "_$@-".contains(c))).unwrap_or(rest.len());
        let word = &rest[..length];
        self.at += length;
        match word {
            "null" => return Ok(SyntaxNodeKind::Null),
            "true" => return Ok(SyntaxNodeKind::Bool(true)),
            "false" => return Ok(SyntaxNodeKind::Bool(false)),
            _ => {}
        }
        if self.at == self.text.len() && word.is_empty() {
            let problem = Diagnostic::error(MALFORMED, Span::at(start), "a value is missing at the end of the file");
            return Err(Box::new(problem));
        }
        self.at = start;
        let (message, hint) = not_a_value(rest, word);
        let end = start + word.len().max(rest.chars().next().map_or(0, char::len_utf8));
        Err(Box::new(Diagnostic::error(MALFORMED, Span::new(start, end), message).with_hint(hint)))
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn here(&self) -> Span {
        Span::new(self.at, self.at + self.text[self.at..].chars().next().map_or(0, char::len_utf8))
    }

    fn malformed(&self, message: &str, hint: &str) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(MALFORMED, self.here(), message).with_hint(hint))
    }

    fn found_text(&self) -> String {
        self.text[self.at..].chars().next().map_or_else(|| "the end of the file".to_owned(), |c| format!("`{c}`"))
    }

    fn expected(&self, expected: &str, opening: usize, hint: &str) -> Box<Diagnostic> {
        if self.at == self.text.len() {
            return self.unclosed(opening);
        }
        let hint = comment_hint(&self.text[self.at..]).unwrap_or(hint);
        self.malformed(&format!("expected {expected}, found {}", self.found_text()), hint)
    }

    fn unclosed(&self, opening: usize) -> Box<Diagnostic> {
        let bracket = &self.text[opening..opening + 1];
        let closing = if bracket == "{" { "}" } else { "]" };
        Box::new(
            Diagnostic::error(MALFORMED, Span::at(self.text.len()), format!("the file ends inside `{bracket}`"))
                .with_label(Span::new(opening, opening + 1), "opened here")
                .with_hint(format!("add the missing `{closing}`")),
        )
    }

    fn trailing_comma(&self) -> Box<Diagnostic> {
        let comma = self.text[..self.at].rfind(',').unwrap_or(self.at);
        Box::new(
            Diagnostic::error(MALFORMED, Span::new(comma, comma + 1), "a comma with nothing after it")
                .with_hint("remove the comma after the last item"),
        )
    }

    fn not_a_key(&self, opening: usize, after_comma: bool) -> Box<Diagnostic> {
        let rest = &self.text[self.at..];
        match self.peek() {
            Some(b'}') if after_comma => self.trailing_comma(),
            Some(b'\'') => self.malformed("a key must be in double quotes", "write \"key\" instead of 'key'"),
            Some(first) if first.is_ascii_alphabetic() || first == b'_' || first == b'$' => {
                let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
                let (word, span) = (&rest[..length], Span::new(self.at, self.at + length));
                let problem = Diagnostic::error(MALFORMED, span, "a key must be in double quotes");
                Box::new(problem.with_hint(format!("write \"{word}\"")))
            }
            _ => self.expected("a key in double quotes", opening, "an object holds `\"key\": value` pairs"),
        }
    }
}

fn comment_hint(rest: &str) -> Option<&'static str> {
    let comment = rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#');
    comment.then_some("JSON has no comments; put the text into a `description`")
}

/// Returns why some text is not a value, and what was probably meant.
fn not_a_value(rest: &str, word: &str) -> (String, String) {
    if let Some(hint) = comment_hint(rest) {
        return ("a comment is not allowed here".to_owned(), hint.to_owned());
    }
    if rest.starts_with('\'') {
        return ("texts are in double quotes".to_owned(), "write \"text\" instead of 'text'".to_owned());
    }
    if rest.starts_with(['}', ']', ',', ':']) {
        return (format!("a value is missing before `{}`", &rest[..1]), "write a value, or null".to_owned());
    }
    let hint = match word.to_ascii_lowercase().as_str() {
        "true" | "false" | "null" => format!("write it in lower case: {}", word.to_ascii_lowercase()),
        "none" | "nil" | "undefined" => "write null".to_owned(),
        "nan" | "infinity" => "JSON has no such number".to_owned(),
        _ => format!("texts are in double quotes: \"{word}\""),
    };
    let shown = if word.is_empty() { rest.chars().take(1).collect() } else { word.to_owned() };
    (format!("`{shown}` is not a value"), hint)
}

/// Checks the number grammar of RFC 8259.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(m, e)| (m, Some(e)));
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// Parses integers within 64 bits and finite floats; any other number keeps its text.
pub(crate) fn to_number(text: &str) -> Value {
    let number = match text.contains(['.', 'e', 'E']) {
        true => text.parse().ok().and_then(Value::float),
        false => text.parse().ok().map(Value::Int),
    };
    number.unwrap_or_else(|| Value::Big(text.into()))
}
