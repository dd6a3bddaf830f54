//! YAML into the spanned tree. Features that a dialect does not need are refused with a hint: anchors, aliases,
//! merge keys, custom tags, several documents. The first syntax error ends parsing; duplicate keys do not.
//!
//! `scalar` resolves plain scalars · `text_positions` maps a text's characters to the file · `references` handles
//! anchors, aliases and merge keys, for dialects that have them.

mod references;
mod scalar;
mod text_positions;

use std::borrow::Cow;
use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, StrInput, Tag};

use crate::json::{DEPTH_CEILING, DUPLICATE_KEY, EMPTY, MALFORMED, TOO_DEEP, too_large};
use crate::{
    Diagnostic, Diagnostics, ParseLimits, SourceText, Span, SpannedKey, SpannedText, SyntaxNode, SyntaxNodeKind,
};
use references::References;

pub use scalar::ScalarRules;
use scalar::{ScalarValue, resolve, tagged};

const NOT_SUPPORTED: &str = "WND-1006";
const UNQUOTED_TEMPLATE: &str = "WND-1007";

/// The part of YAML that a dialect supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct YamlRules {
    pub scalars: ScalarRules,
    /// Anchors, aliases and merge keys are supported; otherwise they are refused.
    pub references: bool,
    /// Documents after the first are ignored with a warning; otherwise they are refused.
    pub first_document_only: bool,
}

impl YamlRules {
    /// Rules of most programs in Go.
    pub const GO: YamlRules = YamlRules { scalars: ScalarRules::Go, references: true, first_document_only: true };
}

impl From<ScalarRules> for YamlRules {
    fn from(scalars: ScalarRules) -> YamlRules {
        YamlRules { scalars, references: false, first_document_only: false }
    }
}

/// Parses a file. Returns `None` if there is no tree at all; with a tree there may still be problems (duplicate
/// keys).
pub fn parse_yaml(
    source: &SourceText,
    limits: ParseLimits,
    rules: impl Into<YamlRules>,
    diagnostics: &mut Diagnostics,
) -> Option<SyntaxNode> {
    if let Some(problem) = too_large(source, limits) {
        diagnostics.push(problem);
        return None;
    }
    let text = &*source.text;
    let mut reader = YamlReader {
        text,
        offsets: ByteOffsets::new(text),
        events: Parser::new_from_str(text),
        rules: rules.into(),
        references: References::new(limits.bytes),
        max_depth: limits.depth.min(DEPTH_CEILING),
        diagnostics,
    };
    match reader.stream() {
        Ok(node) => Some(node),
        Err(problem) => {
            diagnostics.push(*problem);
            None
        }
    }
}

type YamlParseResult<T> = Result<T, Box<Diagnostic>>;

/// Maps the character indexes that the parser counts to byte offsets.
struct ByteOffsets {
    /// Byte offset of each character and of the end; empty for an ASCII text.
    bytes: Vec<usize>,
    end: usize,
}

impl ByteOffsets {
    fn new(text: &str) -> ByteOffsets {
        let bytes = match text.is_ascii() {
            true => Vec::new(),
            false => text.char_indices().map(|(at, _)| at).chain([text.len()]).collect(),
        };
        ByteOffsets { bytes, end: text.len() }
    }

    fn byte(&self, character: usize) -> usize {
        match self.bytes.is_empty() {
            true => character.min(self.end),
            false => self.bytes.get(character).copied().unwrap_or(self.end),
        }
    }
}

struct YamlReader<'a> {
    text: &'a str,
    offsets: ByteOffsets,
    events: Parser<'a, StrInput<'a>>,
    rules: YamlRules,
    references: References,
    max_depth: usize,
    diagnostics: &'a mut Diagnostics,
}

/// The tag that a node may carry in front of it.
type NodeTag<'a> = Option<Cow<'a, Tag>>;

impl<'a> YamlReader<'a> {
    fn stream(&mut self) -> YamlParseResult<SyntaxNode> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::DocumentStart(_) if root.is_some() && self.rules.first_document_only => {
                    let message = "a second document begins here; only the first is read";
                    let hint = "one file holds one definition: remove what follows";
                    self.diagnostics.push(Diagnostic::warning(NOT_SUPPORTED, span, message).with_hint(hint));
                    break;
                }
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(not_supported(span, "a second document begins here", "one file holds one definition"));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                event => root = Some(self.node(event, span, 1)?),
            }
        }
        match root {
            Some(SyntaxNode { kind: SyntaxNodeKind::Null, span }) if span.start == span.end => Err(empty(span)),
            Some(node) => Ok(node),
            None => Err(empty(Span::at(self.text.len()))),
        }
    }

    fn next(&mut self) -> YamlParseResult<(Event<'a>, Span)> {
        match self.events.next_event() {
            Some(Ok((event, span))) => {
                let (start, end) = (self.offsets.byte(span.start.index()), self.offsets.byte(span.end.index()));
                Ok((event, Span::new(start, end.max(start))))
            }
            Some(Err(error)) => Err(self.malformed(&error)),
            None => Ok((Event::StreamEnd, Span::at(self.text.len()))),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> YamlParseResult<SyntaxNode> {
        if depth > self.max_depth {
            let message = format!("the file nests deeper than {}", self.max_depth);
            let problem = Diagnostic::error(TOO_DEEP, Span::new(span.start, span.start + 1), message);
            return Err(Box::new(
                problem.with_hint("raise `limits.max_definition_depth` in windlass.toml if this is intended"),
            ));
        }
        let anchor = match &event {
            Event::Scalar(_, _, anchor, _) | Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                *anchor
            }
            _ => 0,
        };
        self.allow_anchor(anchor, span)?;
        // An anchor precedes its value, as a tag does; a caret belongs under the value.
        let end = if matches!(event, Event::Scalar(..)) { span.end } else { self.text.len() };
        let span = if anchor == 0 { span } else { text_positions::without_properties(self.text, span, end) };
        let node = match event {
            Event::Scalar(text, style, _, tag) => self.scalar(&text, style, span, tag)?,
            Event::SequenceStart(_, tag) => {
                self.collection(tag, "seq", span)?;
                self.list(span, depth)?
            }
            Event::MappingStart(_, tag) => {
                self.collection(tag, "map", span)?;
                self.map(span, depth)?
            }
            Event::Alias(anchor) if self.rules.references => {
                self.references.get(anchor, span, self.max_depth - depth)?
            }
            Event::Alias(_) => return Err(no_alias(span)),
            other => {
                let problem = Diagnostic::error(MALFORMED, span, format!("a value is missing here, found {other:?}"));
                return Err(Box::new(problem));
            }
        };
        self.references.store(anchor, &node)?;
        Ok(node)
    }

    fn list(&mut self, opening: Span, depth: usize) -> YamlParseResult<SyntaxNode> {
        let mut items: Vec<SyntaxNode> = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::SequenceEnd => {
                    let span = self.extent(opening, span, items.last().map(|item| item.span));
                    return Ok(SyntaxNode::new(span, SyntaxNodeKind::List(items)));
                }
                event => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, opening: Span, depth: usize) -> YamlParseResult<SyntaxNode> {
        if self.text[opening.start..].starts_with("{{") || self.text[opening.start..].starts_with("{%") {
            return Err(self.unquoted(opening.start));
        }
        let mut entries: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        let mut seen: HashMap<String, Span> = HashMap::new();
        let mut merged: Vec<(SpannedKey, SyntaxNode)> = Vec::new();
        let mut last = None;
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                let span = self.extent(opening, span, last);
                // Keys of the object itself take precedence over merged ones, wherever they stand.
                merged.retain(|(key, _)| seen.insert(key.text.clone(), key.span).is_none());
                entries.extend(merged);
                return Ok(SyntaxNode::new(span, SyntaxNodeKind::Map(entries)));
            }
            let merges = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<")
                && self.rules.references;
            let key = self.key(event, span, &mut seen)?;
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            last = Some(node.span);
            match merges {
                true => merged.extend(references::merge_entries(node)?),
                false => entries.push((key, node)),
            }
        }
    }

    /// Parses a key. Keys are texts, as they are written: `on` is the key "on".
    fn key(&mut self, event: Event<'a>, span: Span, seen: &mut HashMap<String, Span>) -> YamlParseResult<SpannedKey> {
        let text = match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.allow_anchor(anchor, span)?;
                self.plain_properties(tag, span)?;
                self.references.store(anchor, &SyntaxNode::text(text.clone(), span))?;
                if text == "<<" && style == ScalarStyle::Plain && !self.rules.references {
                    let hint = "write the keys out; what several steps share goes into `workload`";
                    return Err(not_supported(span, "merge keys are not supported", hint));
                }
                text
            }
            Event::Alias(anchor) if self.rules.references => {
                match self.references.get(anchor, span, usize::MAX)?.kind {
                    SyntaxNodeKind::Str(text) => Cow::Owned(text.text),
                    _ => return Err(not_supported(span, "a key must be a text", "write `key: value`")),
                }
            }
            Event::Alias(_) => return Err(no_alias(span)),
            Event::MappingStart(..) if self.text[..span.start].ends_with('{') => {
                return Err(self.unquoted(span.start - 1));
            }
            _ => return Err(not_supported(span, "a key must be a text", "write `key: value`")),
        };
        match seen.get(&*text) {
            Some(first) => {
                let problem = Diagnostic::error(DUPLICATE_KEY, span, format!("the key {text:?} is given twice"));
                self.diagnostics
                    .push(problem.with_label(*first, "first here").with_hint("rename or remove one of them"));
            }
            None => {
                seen.insert(text.clone().into_owned(), span);
            }
        }
        Ok(SpannedKey { text: text.into_owned(), span })
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span, tag: NodeTag<'_>) -> YamlParseResult<SyntaxNode> {
        let meaning = match tag.as_deref() {
            None if style == ScalarStyle::Plain => resolve(text, self.rules.scalars),
            None => ScalarValue::Text,
            Some(tag) if tag.is_yaml_core_schema() => match tagged(&tag.suffix, text, self.rules.scalars) {
                Some(meaning) => meaning,
                None => return Err(bad_tag(tag, span)),
            },
            Some(tag) => return Err(bad_tag(tag, span)),
        };
        let span = if tag.is_some() { text_positions::without_properties(self.text, span, span.end) } else { span };
        // A block ends with its last line, not where the next key begins.
        let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        let end = if block { span.start + self.text[span.start..span.end].trim_end().len() } else { span.end };
        let span = Span::new(span.start, end);
        let kind = match meaning {
            ScalarValue::Text => {
                let anchors = text_positions::anchors(&self.text[span.start..span.end], span.start, text, style);
                SyntaxNodeKind::Str(SpannedText::anchored(text.to_owned(), anchors))
            }
            ScalarValue::Null => SyntaxNodeKind::Null,
            ScalarValue::Bool(flag) => SyntaxNodeKind::Bool(flag),
            ScalarValue::Number(number) => SyntaxNodeKind::Number(number),
            ScalarValue::NoSuchNumber => {
                let problem = Diagnostic::error(MALFORMED, span, format!("`{text}` is not a finite number"));
                return Err(Box::new(problem.with_hint(format!("write \"{text}\" if it is a text"))));
            }
        };
        Ok(SyntaxNode::new(span, kind))
    }

    fn collection(&self, tag: NodeTag<'_>, name: &str, span: Span) -> YamlParseResult<()> {
        match tag.as_deref() {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == name) => Err(bad_tag(tag, span)),
            _ => Ok(()),
        }
    }

    fn plain_properties(&self, tag: NodeTag<'_>, span: Span) -> YamlParseResult<()> {
        match tag.as_deref() {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == "str") => Err(bad_tag(tag, span)),
            _ => Ok(()),
        }
    }

    fn allow_anchor(&self, anchor: usize, span: Span) -> YamlParseResult<()> {
        match anchor == 0 || self.rules.references {
            true => Ok(()),
            false => {
                let hint = "write the value out where it is needed";
                Err(not_supported(span, "anchors (`&name`) are not supported", hint))
            }
        }
    }

    /// Returns the span of a collection: in brackets it ends with its bracket, in lines with its last item.
    fn extent(&self, opening: Span, closing: Span, last: Option<Span>) -> Span {
        let bracket = matches!(self.text.as_bytes().get(opening.start), Some(b'{' | b'['));
        let end = if bracket && closing.end > closing.start {
            closing.end
        } else {
            last.map_or(opening.end, |last| last.end)
        };
        Span::new(opening.start, end.max(opening.start))
    }

    fn malformed(&self, error: &ScanError) -> Box<Diagnostic> {
        let at = self.offsets.byte(error.marker().index());
        if let Some(template) = unquoted_template(self.text, at) {
            return self.unquoted(template);
        }
        let end = at + self.text[at..].chars().next().map_or(0, char::len_utf8);
        let message = format!("this is not valid YAML: {}", error.info());
        Box::new(Diagnostic::error(MALFORMED, Span::new(at, end), message).with_hint(self.hint_for(error.info())))
    }

    fn hint_for(&self, info: &str) -> &'static str {
        match info.contains("unknown anchor") && self.rules.references {
            true => "an alias must come after the anchor of its name; a text that begins with `*` goes in quotes",
            false => hint_for(info),
        }
    }

    fn unquoted(&self, start: usize) -> Box<Diagnostic> {
        let line = self.text[start..].lines().next().unwrap_or_default().trim_end();
        // Between brackets the template ends where it is closed.
        let bracketed = self.text[..start].trim_end_matches(' ').ends_with(['[', ',', '{']);
        let closed = line.find("}}").filter(|_| bracketed).map_or(line.len(), |at| at + 2);
        let line = &line[..closed];
        let shown = match line.contains('"') {
            true => format!("'{}'", line.replace('\'', "''")),
            false => format!("\"{}\"", line.replace('\\', "\\\\")),
        };
        let span = Span::new(start, start + line.len());
        let problem = Diagnostic::error(UNQUOTED_TEMPLATE, span, "quote the template: `{` begins an object in YAML");
        Box::new(problem.with_hint(format!("write {shown}")))
    }
}

fn empty(span: Span) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(EMPTY, span, "the file is empty").with_hint("a definition is an object: `key: value`"))
}

fn not_supported(span: Span, message: &str, hint: &str) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(NOT_SUPPORTED, span, message).with_hint(hint))
}

fn no_alias(span: Span) -> Box<Diagnostic> {
    let hint = "write the value out; a text that begins with `*` goes in quotes";
    not_supported(span, "aliases (`*name`) are not supported", hint)
}

fn bad_tag(tag: &Tag, span: Span) -> Box<Diagnostic> {
    let shown = match tag.is_yaml_core_schema() {
        true => format!("!!{}", tag.suffix),
        false => format!("{}{}", tag.handle, tag.suffix),
    };
    let hint =
        "a text that begins with `!` goes in quotes; known are !!str, !!int, !!float, !!bool, !!null, !!seq, !!map";
    not_supported(span, &format!("the tag `{shown}` does not fit here"), hint)
}

/// Finds an unquoted template on the line of an error, before it.
fn unquoted_template(text: &str, at: usize) -> Option<usize> {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next()?;
    let begins = ["{{", "{%"].iter().filter_map(|mark| line.find(mark)).min()?;
    let before = line[..begins].trim_end();
    let opens = before.is_empty() || before.ends_with([':', '-', '[', ',', '{']);
    (opens && start + begins <= at).then_some(start + begins)
}

fn hint_for(info: &str) -> &'static str {
    let table = [
        ("mapping values are not allowed", "a text with `: ` in it goes in quotes; or the line is indented too far"),
        ("illegal placement of ':'", "is a bracket or a quote missing on the line before?"),
        ("escape", "in double quotes a backslash is written `\\\\`; in single quotes it is just itself"),
        ("quoted scalar", "a closing quote is missing"),
        ("flow", "a closing bracket is missing, or a text with `,`, `]` or `}` goes in quotes"),
        ("expected key", "check the indentation of this line against the lines around it"),
        ("block collection", "check the indentation of this line against the lines around it"),
        ("tab", "indent with spaces"),
        ("block scalar", "the lines of a block are indented more than its key"),
        ("unexpected character", "a text that begins with `%`, `@` or a backquote goes in quotes"),
        ("anchor", "anchors and aliases are not supported; a text that begins with `&` or `*` goes in quotes"),
    ];
    let found = table.iter().find(|(part, _)| info.contains(part));
    found.map_or("check the indentation and the quotes of this line", |(_, hint)| hint)
}
