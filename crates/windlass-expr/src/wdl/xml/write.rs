//! Writes a tree, or a part of it, as XML text.

use super::document::{ROOT, XmlDocument, XmlName, XmlNodeId, XmlNodeKind};

/// Returns the text of a node and its content. Namespaces declared on ancestors are declared again where they are
/// used.
pub(crate) fn outer_xml(document: &XmlDocument, id: XmlNodeId) -> String {
    let mut writer = Writer { document, out: String::new(), scope: vec![("xml".into(), String::new())] };
    if id == ROOT && !document.declaration.is_empty() {
        push_declaration(&mut writer.out, &document.declaration);
    }
    writer.node(id);
    writer.out
}

pub(super) fn push_declaration(out: &mut String, entries: &[(String, String)]) {
    out.push_str("<?xml");
    for (name, value) in entries {
        push_attribute(out, name, value);
    }
    out.push_str("?>");
}

struct Writer<'a> {
    document: &'a XmlDocument,
    out: String,
    /// Prefixes and their namespaces, innermost last.
    scope: Vec<(String, String)>,
}

impl Writer<'_> {
    fn node(&mut self, id: XmlNodeId) {
        let document = self.document;
        match &document.node(id).kind {
            XmlNodeKind::Root => document.children(id).for_each(|child| self.node(child)),
            XmlNodeKind::Element { name, self_closing: closed } => self.element(id, name, *closed),
            XmlNodeKind::Text { text, cdata: true, .. } => push_cdata(&mut self.out, text),
            XmlNodeKind::Text { text, .. } => push_text(&mut self.out, text),
            XmlNodeKind::Comment(text) => self.out.extend(["<!--", text, "-->"]),
            XmlNodeKind::Instruction { target, value } => {
                self.out.extend(["<?", target, if value.is_empty() { "" } else { " " }, value, "?>"]);
            }
            XmlNodeKind::Attribute { value, .. } => self.out.push_str(value),
            XmlNodeKind::Namespace { uri, .. } => self.out.push_str(uri),
        }
    }

    fn element(&mut self, id: XmlNodeId, name: &XmlName, closed: bool) {
        let (document, outside) = (self.document, self.scope.len());
        let qualified = name.qualified();
        self.out.extend(["<", &qualified]);
        let declared = document.attributes(id).filter_map(|id| match &document.node(id).kind {
            XmlNodeKind::Namespace { prefix, uri } => Some((prefix.to_string(), uri.to_string())),
            _ => None,
        });
        self.scope.extend(declared);
        self.declare_if_needed(name);
        for attribute in document.attributes(id) {
            match &document.node(attribute).kind {
                XmlNodeKind::Namespace { prefix, uri } => self.declare(prefix, uri),
                XmlNodeKind::Attribute { name, value } => {
                    if !name.prefix.is_empty() {
                        self.declare_if_needed(name);
                    }
                    push_attribute(&mut self.out, &name.qualified(), value);
                }
                _ => {}
            }
        }
        if closed {
            self.out.push_str(" />");
        } else {
            self.out.push('>');
            document.children(id).for_each(|child| self.node(child));
            self.out.extend(["</", &qualified, ">"]);
        }
        self.scope.truncate(outside);
    }

    fn declare(&mut self, prefix: &str, uri: &str) {
        let name = if prefix.is_empty() { "xmlns".to_owned() } else { format!("xmlns:{prefix}") };
        push_attribute(&mut self.out, &name, uri);
    }

    fn declare_if_needed(&mut self, name: &XmlName) {
        let known = self.scope.iter().rev().find(|(prefix, _)| **prefix == *name.prefix);
        if &*name.prefix == "xml" || known.map_or("", |(_, uri)| uri) == &*name.namespace {
            return;
        }
        self.scope.push((name.prefix.to_string(), name.namespace.to_string()));
        self.declare(&name.prefix, &name.namespace);
    }
}

pub(super) fn push_cdata(out: &mut String, text: &str) {
    out.extend(["<![CDATA[", text, "]]>"]);
}

pub(super) fn push_text(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#xD;"),
            c => out.push(c),
        }
    }
}

pub(super) fn push_attribute(out: &mut String, name: &str, value: &str) {
    out.extend([" ", name, "=\""]);
    for c in value.chars() {
        match c {
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#xA;"),
            '\t' => out.push_str("&#x9;"),
            c => push_text(out, c.encode_utf8(&mut [0; 4])),
        }
    }
    out.push('"');
}
