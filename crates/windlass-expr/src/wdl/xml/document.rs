//! Parses XML text to a tree. The nodes form one list in document order with attributes directly after their element,
//! so a node set in document order is a sorted list of numbers, and everything inside a node is one range.

use std::collections::HashSet;

use roxmltree::{NodeType, ParsingOptions};
use windlass_value::{EvalError, EvalErrorKind};

use crate::wdl::values::{MAX_DEPTH, WdlContext, too_deep, type_error};

const MAX_ATTRIBUTES: usize = 1_000;
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

pub(crate) type XmlNodeId = u32;

pub(crate) const ROOT: XmlNodeId = 0;

pub(crate) struct XmlDocument {
    pub nodes: Vec<XmlNode>,
    /// `version`, `encoding` and `standalone` of the XML declaration.
    pub declaration: Vec<(String, String)>,
}

pub(crate) struct XmlNode {
    pub kind: XmlNodeKind,
    pub parent: XmlNodeId,
    /// The start of its children, after its attributes.
    pub first_child: XmlNodeId,
    /// One past the last node inside.
    pub end: XmlNodeId,
    /// The preceding sibling; the root, which is never a sibling, if there is none.
    pub previous: XmlNodeId,
}

pub(crate) enum XmlNodeKind {
    Root,
    Element {
        name: XmlName,
        /// Written `<a/>`.
        self_closing: bool,
    },
    /// A declaration `xmlns:prefix="uri"`.
    Namespace {
        prefix: Box<str>,
        uri: Box<str>,
    },
    Attribute {
        name: XmlName,
        value: Box<str>,
    },
    Text {
        text: Box<str>,
        cdata: bool,
        /// Directly continues the preceding text.
        continues: bool,
    },
    Comment(Box<str>),
    Instruction {
        target: Box<str>,
        value: Box<str>,
    },
}

pub(crate) struct XmlName {
    pub prefix: Box<str>,
    pub local: Box<str>,
    pub namespace: Box<str>,
}

impl XmlName {
    pub(crate) fn qualified(&self) -> String {
        match self.prefix.is_empty() {
            true => self.local.to_string(),
            false => format!("{}:{}", self.prefix, self.local),
        }
    }
}

impl XmlDocument {
    /// Parses XML. Document types are rejected: entity bombs and references to files need them.
    pub(crate) fn parse(context: &mut WdlContext, text: &str) -> Result<XmlDocument, EvalError> {
        context.reserve_bytes(text.len())?;
        context.charge_items(text.len() / 8)?;
        let text = text.trim_start_matches('\u{feff}').trim_start();
        charge_for_tags(context, text)?;
        let max_nodes = context.meter.caps.max_xml_nodes;
        let options = ParsingOptions { allow_dtd: false, nodes_limit: max_nodes, ..ParsingOptions::default() };
        let parsed =
            roxmltree::Document::parse_with_options(text, options).map_err(|error| parse_error(&error, max_nodes))?;
        let mut builder =
            Builder { document: XmlDocument { nodes: Vec::new(), declaration: declaration(text)? }, text };
        builder.add(XmlNodeKind::Root, ROOT, ROOT);
        let xml = XmlNodeKind::Namespace { prefix: "xml".into(), uri: XML_NAMESPACE.into() };
        builder.add(xml, ROOT, ROOT);
        builder.open(ROOT);
        builder.children(parsed.root(), ROOT, 0, Whitespace::Dropped)?;
        builder.close(ROOT);
        Ok(builder.document)
    }

    pub(crate) fn node(&self, id: XmlNodeId) -> &XmlNode {
        &self.nodes[id as usize]
    }

    /// Returns the attributes and namespace declarations of an element.
    pub(crate) fn attributes(&self, id: XmlNodeId) -> std::ops::Range<XmlNodeId> {
        id + 1..self.node(id).first_child
    }

    pub(crate) fn children(&self, id: XmlNodeId) -> impl Iterator<Item = XmlNodeId> + '_ {
        let (mut next, end) = (self.node(id).first_child, self.node(id).end);
        std::iter::from_fn(move || {
            let child = next;
            (child < end).then(|| {
                next = self.node(child).end;
                child
            })
        })
    }

    /// Returns whether the node is an attribute or a declaration, which are not children of any node.
    pub(crate) fn is_attribute(&self, id: XmlNodeId) -> bool {
        matches!(self.node(id).kind, XmlNodeKind::Attribute { .. } | XmlNodeKind::Namespace { .. })
    }
}

/// Charges for or rejects expensive tags before parsing. The parser compares the attributes of a tag with each other
/// and passes namespaces on from element to element, so a small text could cost it much.
fn charge_for_tags(context: &mut WdlContext, text: &str) -> Result<(), EvalError> {
    let (mut declarations, mut prefixes) = (0, HashSet::new());
    for part in text.split('<').skip(1) {
        let tag = start_tag(part);
        let names = attributes_in(tag.find(char::is_whitespace).map_or("", |at| &tag[at..])).map(|(name, _)| name);
        let mut count = 0;
        for name in names {
            count += 1;
            if let Some(prefix) = declared_prefix(name) {
                declarations += 1;
                prefixes.insert(prefix);
            }
        }
        if count > MAX_ATTRIBUTES {
            let message = format!("the XML has an element with more than {MAX_ATTRIBUTES} attributes");
            return Err(EvalError::new(EvalErrorKind::Limit, message));
        }
        context.charge_items(count * count / 16)?;
    }
    context.charge_items(declarations * prefixes.len())
}

fn parse_error(error: &roxmltree::Error, max_nodes: u32) -> EvalError {
    match error {
        roxmltree::Error::NodesLimitReached => {
            EvalError::new(EvalErrorKind::Limit, format!("the XML has more than {max_nodes} nodes"))
                .with_hint("raise `limits.max_xml_nodes` in windlass.toml if this is intended")
        }
        roxmltree::Error::DtdDetected => type_error("the XML has a document type (DOCTYPE), which is not accepted")
            .with_hint("leave the document type out; entities cannot be declared"),
        other => type_error(format!("not valid XML: {other}")),
    }
}

/// Returns the attributes of the XML declaration.
fn declaration(text: &str) -> Result<Vec<(String, String)>, EvalError> {
    let Some(rest) = text.strip_prefix("<?xml").filter(|rest| rest.starts_with(char::is_whitespace)) else {
        return Ok(Vec::new());
    };
    let inside = rest.split_once("?>").map_or("", |(inside, _)| inside);
    let found: Vec<(String, String)> =
        attributes_in(inside).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    match found.iter().find(|(name, _)| name == "version") {
        Some((_, version)) if version == "1.0" => Ok(found),
        _ => Err(type_error("the XML is not of version 1.0")),
    }
}

/// Returns the names and raw values of the attributes in the text between a tag's name and its end. The text was
/// parsed before, so it is valid.
fn attributes_in(mut rest: &str) -> impl Iterator<Item = (&str, &str)> {
    std::iter::from_fn(move || {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, after) = after[1..].split_once(quote)?;
        rest = after;
        Some((name.trim(), value))
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Whitespace {
    Dropped,
    Preserved,
}

struct Builder<'a> {
    document: XmlDocument,
    text: &'a str,
}

impl Builder<'_> {
    fn add(&mut self, kind: XmlNodeKind, parent: XmlNodeId, previous: XmlNodeId) -> XmlNodeId {
        let id = self.document.nodes.len() as XmlNodeId;
        self.document.nodes.push(XmlNode { kind, parent, first_child: id + 1, end: id + 1, previous });
        id
    }

    /// Marks the end of an element's attributes: all have been added.
    fn open(&mut self, id: XmlNodeId) {
        self.document.nodes[id as usize].first_child = self.document.nodes.len() as XmlNodeId;
    }

    fn close(&mut self, id: XmlNodeId) {
        self.document.nodes[id as usize].end = self.document.nodes.len() as XmlNodeId;
    }

    fn children(
        &mut self,
        of: roxmltree::Node,
        parent: XmlNodeId,
        depth: usize,
        space: Whitespace,
    ) -> Result<(), EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let mut previous = ROOT;
        for child in of.children() {
            match child.node_type() {
                NodeType::Root => {}
                NodeType::Text => previous = self.texts(child, parent, previous, space),
                NodeType::Comment => {
                    let text = child.text().unwrap_or_default();
                    previous = self.add(XmlNodeKind::Comment(text.into()), parent, previous);
                }
                NodeType::PI => {
                    let (target, value) = child.pi().map_or(("", ""), |pi| (pi.target, pi.value.unwrap_or_default()));
                    let kind = XmlNodeKind::Instruction { target: target.into(), value: value.into() };
                    previous = self.add(kind, parent, previous);
                }
                NodeType::Element => {
                    previous = self.element(child, parent, previous, depth, space)?;
                }
            }
        }
        Ok(())
    }

    fn element(
        &mut self,
        node: roxmltree::Node,
        parent: XmlNodeId,
        previous: XmlNodeId,
        depth: usize,
        space: Whitespace,
    ) -> Result<XmlNodeId, EvalError> {
        let source = &self.text[node.range()];
        let tag = start_tag(source);
        let name_end = tag.find(|c: char| c.is_whitespace() || matches!(c, '/' | '>')).unwrap_or(tag.len());
        let name = xml_name(&tag[1..name_end], node.tag_name().namespace());
        let id = self.add(XmlNodeKind::Element { name, self_closing: tag.ends_with("/>") }, parent, previous);
        let mut space = space;
        let mut values = node.attributes();
        for (name, raw) in attributes_in(&tag[name_end..tag.len() - 1]) {
            let kind = match declared_prefix(name) {
                Some(prefix) => {
                    let found = node.lookup_namespace_uri(Some(prefix).filter(|prefix| !prefix.is_empty()));
                    XmlNodeKind::Namespace { prefix: prefix.into(), uri: found.unwrap_or(raw).into() }
                }
                None => {
                    let attribute = values.next();
                    let value = attribute.map_or("", |attribute| attribute.value());
                    if name == "xml:space" {
                        space = if value == "preserve" { Whitespace::Preserved } else { Whitespace::Dropped };
                    }
                    XmlNodeKind::Attribute {
                        name: xml_name(name, attribute.and_then(|attribute| attribute.namespace())),
                        value: value.into(),
                    }
                }
            };
            self.add(kind, id, ROOT);
        }
        self.open(id);
        self.children(node, id, depth + 1, space)?;
        self.close(id);
        Ok(id)
    }

    /// Adds text nodes. The parser returns text and CDATA in one piece; the source distinguishes them.
    fn texts(
        &mut self,
        node: roxmltree::Node,
        parent: XmlNodeId,
        mut previous: XmlNodeId,
        space: Whitespace,
    ) -> XmlNodeId {
        let start = node.range().start;
        let end = match (node.next_sibling(), node.parent()) {
            (Some(next), _) => next.range().start,
            (None, Some(parent)) => self.text[..parent.range().end].rfind("</").unwrap_or(start),
            (None, None) => start,
        };
        let source = self.text.get(start..end).unwrap_or_default();
        let pieces = match source.contains("<![CDATA[") {
            false => vec![(node.text().unwrap_or_default().to_owned(), false)],
            true => text_runs(source),
        };
        let mut continues = false;
        for (text, cdata) in pieces {
            let blank = !cdata && text.bytes().all(|byte| byte.is_ascii_whitespace());
            if text.is_empty() && !cdata || blank && space == Whitespace::Dropped {
                continue;
            }
            previous = self.add(XmlNodeKind::Text { text: text.into(), cdata, continues }, parent, previous);
            continues = true;
        }
        previous
    }
}

/// Returns the start tag of an element's source; its attributes may contain `>`.
fn start_tag(source: &str) -> &str {
    let mut quote = None;
    for (at, c) in source.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '>') => return &source[..=at],
            _ => {}
        }
    }
    source
}

fn xml_name(qualified: &str, namespace: Option<&str>) -> XmlName {
    let (prefix, local) = qualified.split_once(':').unwrap_or(("", qualified));
    XmlName { prefix: prefix.into(), local: local.into(), namespace: namespace.unwrap_or_default().into() }
}

/// Returns the prefix that an attribute declares; empty for the default namespace.
pub(super) fn declared_prefix(name: &str) -> Option<&str> {
    match name.strip_prefix("xmlns") {
        Some("") => Some(""),
        Some(rest) => rest.strip_prefix(':'),
        None => None,
    }
}

/// Splits a run into text and CDATA, each with its characters decoded.
fn text_runs(mut source: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    while let Some((before, rest)) = source.split_once("<![CDATA[") {
        found.push((decode_entities(before), false));
        let (inside, after) = rest.split_once("]]>").unwrap_or((rest, ""));
        found.push((normalize_line_breaks(inside), true));
        source = after;
    }
    found.push((decode_entities(source), false));
    found
}

fn normalize_line_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

fn decode_entities(text: &str) -> String {
    let text = normalize_line_breaks(text);
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('&');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once(';').unwrap_or(("", part));
        let number = match name.strip_prefix("#x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => name.strip_prefix('#').and_then(|digits| digits.parse().ok()),
        };
        let known = match name {
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => number.and_then(char::from_u32),
        };
        out.extend(known);
        out.push_str(rest);
    }
    out
}
