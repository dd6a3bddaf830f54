//! XML to JSON and back: attributes as `@name`, text as `#text`, repeated elements as arrays, the declaration as
//! `?xml`.

use windlass_value::{EvalError, Map, Value};

use super::document::{ROOT, XmlDocument, XmlName, XmlNodeId, XmlNodeKind, declared_prefix};
use super::write::{push_attribute, push_cdata, push_declaration, push_text};
use crate::wdl::values::{MAX_DEPTH, WdlContext, WdlResult, describe, to_text, too_deep, type_error};

const TEXT: &str = "#text";
const CDATA: &str = "#cdata-section";
const COMMENT: &str = "#comment";
/// An attribute `Array="true"` in this namespace makes a single element an array.
const HINT_NAMESPACE: &str = "http://james.newtonking.com/projects/json";

pub(crate) fn to_json(context: &mut WdlContext, document: &XmlDocument) -> WdlResult {
    let mut map = Map::new();
    if !document.declaration.is_empty() {
        let entries = document.declaration.iter();
        map.insert("?xml", Value::object(entries.map(|(name, value)| (format!("@{name}"), value.as_str()))));
    }
    members(context, document, ROOT, &mut map)?;
    Ok(Value::map(map))
}

fn element(context: &mut WdlContext, document: &XmlDocument, id: XmlNodeId, closed: bool) -> WdlResult {
    let mut map = Map::new();
    for attribute in document.attributes(id) {
        match &document.node(attribute).kind {
            XmlNodeKind::Namespace { uri, .. } if &**uri == HINT_NAMESPACE => {}
            XmlNodeKind::Namespace { prefix, uri } if prefix.is_empty() => {
                map.insert("@xmlns", &**uri);
            }
            XmlNodeKind::Namespace { prefix, uri } => {
                map.insert(format!("@xmlns:{prefix}"), &**uri);
            }
            XmlNodeKind::Attribute { name, .. } if is_array_hint(name) => {}
            XmlNodeKind::Attribute { name, value } => {
                map.insert(format!("@{}", name.qualified()), &**value);
            }
            _ => {}
        }
    }
    let plain = map.is_empty();
    let children = document.children(id).count();
    members(context, document, id, &mut map)?;
    Ok(match (plain, children) {
        (true, 0) if closed => Value::Null,
        (true, 0) => Value::from(""),
        (true, _) if map.len() == 1 && map.contains_key(TEXT) => map.remove(TEXT).unwrap_or_default(),
        _ => Value::map(map),
    })
}

fn is_array_hint(name: &XmlName) -> bool {
    &*name.namespace == HINT_NAMESPACE && &*name.local == "Array"
}

/// Collects the children, grouped by name in order of first occurrence.
fn members(context: &mut WdlContext, document: &XmlDocument, id: XmlNodeId, map: &mut Map) -> Result<(), EvalError> {
    let mut groups: Map = Map::new();
    // The values of each group, and whether a single value is an array too.
    let mut lists: Vec<(Vec<Value>, bool)> = Vec::new();
    for child in document.children(id) {
        context.charge_items(1)?;
        let mut hinted = false;
        let (name, value) = match &document.node(child).kind {
            XmlNodeKind::Element { name, self_closing: closed } => {
                hinted = document.attributes(child).any(|id| match &document.node(id).kind {
                    XmlNodeKind::Attribute { name, value } => is_array_hint(name) && &**value == "true",
                    _ => false,
                });
                (name.qualified(), element(context, document, child, *closed)?)
            }
            XmlNodeKind::Text { text, cdata, .. } => {
                ((if *cdata { CDATA } else { TEXT }).to_owned(), Value::from(&**text))
            }
            XmlNodeKind::Comment(_) => (COMMENT.to_owned(), Value::Null),
            XmlNodeKind::Instruction { target, value } => (format!("?{target}"), Value::from(&**value)),
            _ => continue,
        };
        // The group's index in `lists`.
        let index = groups.get(&name).and_then(Value::as_int);
        match index.and_then(|index| lists.get_mut(index as usize)) {
            Some((list, array)) => {
                list.push(value);
                *array |= hinted;
            }
            None => {
                groups.insert(name, lists.len());
                lists.push((vec![value], hinted));
            }
        }
    }
    for ((name, _), (mut list, array)) in groups.into_iter().zip(lists) {
        let alone = list.len() == 1 && !array;
        match (&*name, alone) {
            // As in Json.NET: a single comment leaves nothing, several leave an empty array.
            (COMMENT, true) => {}
            (COMMENT, false) => drop(map.insert(name, Value::list(Vec::new()))),
            (_, true) => drop(map.insert(name, list.pop())),
            (_, false) => drop(map.insert(name, Value::list(list))),
        }
    }
    Ok(())
}

/// Returns the XML text of an object that has one property, the root element.
pub(crate) fn from_json(context: &mut WdlContext, map: &Map) -> Result<String, EvalError> {
    let mut writer = Writer { context, out: String::new(), prefixes: vec!["xml".to_owned()] };
    let mut roots = 0;
    for (key, value) in map.iter() {
        let value = writer.context.content(value.clone())?;
        if key.starts_with('?') {
            writer.instruction(key, &value)?;
            continue;
        }
        let several = value.as_list().is_some_and(|items| items.len() != 1);
        if key.starts_with(['@', '#']) || several {
            return Err(root_error(&format!("`{key}` cannot be the root element")));
        }
        roots += 1;
        writer.property(key, &value, 0)?;
    }
    match roots {
        1 => Ok(writer.out),
        count => Err(root_error(&format!("the object has {count} properties for the root element"))),
    }
}

fn root_error(what: &str) -> EvalError {
    type_error(format!("`xml`: {what}")).with_hint(
        "an object becomes XML if it has one property that is not an array: json('{\"root\": …}'), addProperty(…)",
    )
}

struct Writer<'a, 'b> {
    context: &'a mut WdlContext<'b>,
    out: String,
    /// Prefixes that enclosing elements declare.
    prefixes: Vec<String>,
}

impl Writer<'_, '_> {
    fn charge(&mut self) -> Result<(), EvalError> {
        self.context.charge_items(1)?;
        self.context.meter.check_size(self.out.len())
    }

    fn property(&mut self, key: &str, value: &Value, depth: usize) -> Result<(), EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        self.charge()?;
        match value {
            Value::List(items) => items.iter().try_for_each(|item| {
                let item = self.context.content(item.clone())?;
                match &item {
                    Value::List(_) => self.element(key, &Value::object([(key, item.clone())]), depth + 1),
                    item => self.element(key, item, depth + 1),
                }
            }),
            other => self.element(key, other, depth),
        }
    }

    fn element(&mut self, key: &str, value: &Value, depth: usize) -> Result<(), EvalError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let outside = self.prefixes.len();
        let Value::Map(map) = value else {
            let name = self.name(key);
            let text = self.text(value)?;
            match value {
                Value::Null => self.out.extend(["<", &name, " />"]),
                _ => {
                    self.out.extend(["<", &name, ">"]);
                    push_text(&mut self.out, &text);
                    self.out.extend(["</", &name, ">"]);
                }
            }
            return self.charge();
        };
        let declared = map.keys().filter_map(|key| declared_prefix(key.strip_prefix('@')?)).map(str::to_owned);
        self.prefixes.extend(declared.filter(|prefix| !prefix.is_empty()));
        let name = self.name(key);
        self.out.extend(["<", &name]);
        for (key, value) in map.iter() {
            if let Some(attribute) = key.strip_prefix('@') {
                let text = self.text(value)?;
                let attribute =
                    if declared_prefix(attribute).is_some() { attribute.to_owned() } else { self.name(attribute) };
                push_attribute(&mut self.out, &attribute, &text);
            }
        }
        let head = self.out.len();
        self.out.push('>');
        let start = self.out.len();
        for (key, value) in map.iter().filter(|(key, _)| !key.starts_with('@')) {
            let value = self.context.content(value.clone())?;
            match &**key {
                TEXT | CDATA => self.texts(key, &value)?,
                key if key.starts_with('?') => self.instruction(key, &value)?,
                key => self.property(key, &value, depth + 1)?,
            }
        }
        if self.out.len() == start {
            self.out.truncate(head);
            self.out.push_str(" />");
        } else {
            self.out.extend(["</", &name, ">"]);
        }
        self.prefixes.truncate(outside);
        self.charge()
    }

    fn texts(&mut self, key: &str, value: &Value) -> Result<(), EvalError> {
        let items = match value {
            Value::List(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        for item in items {
            let text = self.text(item)?;
            match key {
                TEXT => push_text(&mut self.out, &text),
                _ if text.contains("]]>") => return Err(type_error("`xml`: a CDATA section cannot hold `]]>`")),
                _ => push_cdata(&mut self.out, &text),
            }
            self.charge()?;
        }
        Ok(())
    }

    /// Returns a simple value in XML notation: `true`, not `True`.
    fn text(&mut self, value: &Value) -> Result<String, EvalError> {
        match value {
            Value::Bool(flag) => Ok(flag.to_string()),
            Value::List(_) | Value::Map(_) => {
                Err(type_error(format!("`xml`: text or an attribute cannot be {}", describe(value))))
            }
            other => Ok(to_text(self.context, other)?.to_string()),
        }
    }

    fn instruction(&mut self, key: &str, value: &Value) -> Result<(), EvalError> {
        match (key, value) {
            ("?xml", Value::Map(map)) => {
                let mut entries = Vec::new();
                for name in ["version", "encoding", "standalone"] {
                    if let Some(value) = map.get(&format!("@{name}")) {
                        entries.push((name.to_owned(), self.text(value)?));
                    }
                }
                push_declaration(&mut self.out, &entries);
            }
            (key, value) => {
                let text = self.text(value)?;
                if text.contains("?>") {
                    return Err(type_error("`xml`: a processing instruction cannot hold `?>`"));
                }
                let target = encode_name(&key[1..]);
                self.out.extend(["<?", &target, if text.is_empty() { "" } else { " " }, &text, "?>"]);
            }
        }
        self.charge()
    }

    /// Returns a valid XML name. An undeclared prefix is dropped.
    fn name(&self, key: &str) -> String {
        match key.split_once(':') {
            Some((prefix, local)) if self.prefixes.iter().any(|known| known == prefix) => {
                format!("{}:{}", encode_name(prefix), encode_name(local))
            }
            Some((_, local)) => encode_name(local),
            None => encode_name(key),
        }
    }
}

/// Encodes characters that are invalid in a name as `_xHHHH_`.
fn encode_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        let letter = c.is_alphabetic() || c == '_';
        let later = c.is_alphanumeric() || matches!(c, '-' | '.' | '\u{b7}');
        match letter || at > 0 && later {
            true => out.push(c),
            false => out.push_str(&format!("_x{:04X}_", c as u32)),
        }
    }
    if out.is_empty() { "_".to_owned() } else { out }
}
