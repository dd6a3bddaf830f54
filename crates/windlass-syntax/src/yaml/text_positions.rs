//! Maps the characters of a text to the file for texts that are written in another form: quoted, folded, in a
//! block. Both are compared step by step; where they no longer agree, the last certain position is kept.

use saphyr_parser::ScalarStyle;

use crate::Span;

/// Returns pairs of offsets, in the text and in the file; see [`crate::SpannedText`].
pub(super) fn anchors(raw: &str, start: usize, text: &str, style: ScalarStyle) -> Vec<(usize, usize)> {
    let mut places = AnchorFinder { text, at: 0, start, anchors: Vec::new() };
    match style {
        ScalarStyle::Literal | ScalarStyle::Folded => places.block(raw),
        ScalarStyle::Plain => places.flow(raw, 0, Quote::None),
        ScalarStyle::SingleQuoted => places.flow(raw, 1, Quote::Single),
        ScalarStyle::DoubleQuoted => places.flow(raw, 1, Quote::Double),
    }
    if places.anchors.is_empty() {
        places.anchors.push((0, start));
    }
    places.anchors
}

/// Returns the span of a value without its tag and its anchor, which end at `end` at the latest.
pub(super) fn without_properties(text: &str, span: Span, end: usize) -> Span {
    let mut start = span.start;
    while text[start..end].starts_with(['!', '&']) {
        let rest = &text[start..end];
        let word = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let space = rest[word..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - word);
        start += word + space;
    }
    Span::new(start, span.end.max(start))
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
}

struct AnchorFinder<'a> {
    text: &'a str,
    /// Offset up to which the text has been matched.
    at: usize,
    start: usize,
    anchors: Vec<(usize, usize)>,
}

impl AnchorFinder<'_> {
    /// Records that from here on both advance together.
    fn anchor(&mut self, raw_at: usize) {
        let pair = (self.at, self.start + raw_at);
        let same = self.anchors.last().is_some_and(|(text, file)| pair.1 >= *file && pair.1 - file == pair.0 - text);
        if !same {
            self.anchors.push(pair);
        }
    }

    fn advance_over(&mut self, piece: &str) -> bool {
        let found = self.text[self.at..].starts_with(piece);
        if found {
            self.at += piece.len();
        }
        found
    }

    /// Matches a block line by line: the content of each line occurs in the text, after breaks and blanks.
    fn block(&mut self, raw: &str) {
        let indent = raw.lines().skip(1).filter(|line| !line.trim().is_empty()).map(indent_of).min();
        let mut line_at = 0;
        for (number, line) in raw.split_inclusive('\n').enumerate() {
            let content = line.trim_end_matches(['\n', '\r']);
            // The first line begins where its content does.
            let skipped = if number == 0 { 0 } else { indent.unwrap_or(0).min(indent_of(content)) };
            let content = &content[skipped..];
            if !content.trim().is_empty() {
                while !self.text[self.at..].starts_with(content) {
                    if !self.text[self.at..].starts_with([' ', '\n', '\t']) {
                        return;
                    }
                    self.at += 1;
                }
                self.anchor(line_at + skipped);
                self.at += content.len();
            }
            line_at += line.len();
        }
        self.anchor(raw.trim_end().len());
    }

    /// Matches plain and quoted texts: breaks are folded, escapes are resolved.
    fn flow(&mut self, raw: &str, mut raw_at: usize, quote: Quote) {
        while let Some(next) = raw[raw_at..].chars().next() {
            let rest = &raw[raw_at..];
            self.anchor(raw_at);
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
            if rest[..blank].contains('\n') {
                let breaks = rest[..blank].matches('\n').count();
                let folded = if breaks == 1 { " ".to_owned() } else { "\n".repeat(breaks - 1) };
                if !self.advance_over(&folded) {
                    return;
                }
                raw_at += blank;
                continue;
            }
            let (length, piece) = match (quote, next) {
                (Quote::Single, '\'') if rest.starts_with("''") => (2, "'".to_owned()),
                (Quote::Single, '\'') | (Quote::Double, '"') => return,
                (Quote::Double, '\\') => match escape(rest) {
                    Some(found) => found,
                    None => return,
                },
                (_, other) => (other.len_utf8(), other.to_string()),
            };
            if !self.advance_over(&piece) {
                return;
            }
            raw_at += length;
        }
        self.anchor(raw_at);
    }
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns the length of an escape and the text it stands for.
fn escape(rest: &str) -> Option<(usize, String)> {
    let letter = rest[1..].chars().next()?;
    let digits = match letter {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        '\n' | '\r' => {
            let blank = rest[1..].len() - rest[1..].trim_start_matches([' ', '\t', '\n', '\r']).len();
            return Some((1 + blank, String::new()));
        }
        _ => {
            let stands_for = match letter {
                '0' => '\0',
                'a' => '\u{7}',
                'b' => '\u{8}',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\u{b}',
                'f' => '\u{c}',
                'r' => '\r',
                'e' => '\u{1b}',
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                other => other,
            };
            return Some((1 + letter.len_utf8(), stands_for.to_string()));
        }
    };
    let code = u32::from_str_radix(rest.get(2..2 + digits)?, 16).ok()?;
    Some((2 + digits, char::from_u32(code)?.to_string()))
}
