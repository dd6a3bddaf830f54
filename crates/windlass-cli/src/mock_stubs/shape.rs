//! The shape of a value, collected from the places that read it, and a sample of it.

use windlass_value::{Map, Value};

use super::schema_samples::{schema_number, schema_text};

/// A step on the way into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShapeKey {
    Field(String),
    /// An element of a list.
    Element,
}

/// The parts of a value that are read.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadShape {
    fields: Vec<(String, ReadShape)>,
    element: Option<Box<ReadShape>>,
    /// A value that is known to be useful: one that a condition compares with.
    sample: Option<Value>,
}

/// Maximum depth of a sample: a schema may refer to itself.
const MAX_DEPTH: usize = 12;

impl ReadShape {
    /// Returns the part at this place, and creates it.
    pub(super) fn at(&mut self, path: &[ShapeKey]) -> &mut ReadShape {
        let Some((first, rest)) = path.split_first() else { return self };
        let inner = match first {
            ShapeKey::Element => self.element.get_or_insert_default().as_mut(),
            ShapeKey::Field(name) => {
                let index = self.fields.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                    self.fields.push((name.clone(), ReadShape::default()));
                    self.fields.len() - 1
                });
                &mut self.fields[index].1
            }
        };
        inner.at(rest)
    }

    /// Returns the part at this place, if anything reads it.
    pub(super) fn get(&self, name: &str) -> Option<&ReadShape> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, shape)| shape)
    }

    pub(super) fn set_sample(&mut self, value: Value) {
        self.sample.get_or_insert(value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.element.is_none() && self.sample.is_none()
    }

    /// Adds the parts that a JSON Schema describes.
    pub(super) fn add_schema(&mut self, schema: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let kind = schema.get("type").map(|kind| kind.as_list().and_then(<[Value]>::first).unwrap_or(kind));
        let first_of = schema.get("enum").and_then(Value::as_list).and_then(<[Value]>::first);
        let given = [schema.get("const"), schema.get("default"), schema.get("example"), first_of];
        if let Some(value) = given.into_iter().flatten().next() {
            self.set_sample(value.clone());
        }
        match kind.and_then(Value::as_str) {
            Some("array") => {
                let items = schema.get("items").cloned().unwrap_or_default();
                self.at(&[ShapeKey::Element]).add_schema(&items, depth + 1);
            }
            Some("integer" | "number") => self.set_sample(schema_number(schema)),
            Some("boolean") => self.set_sample(Value::Bool(true)),
            Some("string") => self.set_sample(schema_text(schema)),
            Some("null") => self.set_sample(Value::Null),
            _ => {}
        }
        for (name, part) in schema.get("properties").and_then(Value::as_map).into_iter().flat_map(Map::iter) {
            self.at(&[ShapeKey::Field(name.to_string())]).add_schema(part, depth + 1);
        }
    }

    /// Returns a value of this shape. Names decide what is not known otherwise.
    pub(super) fn sample(&self, name: &str) -> Value {
        if !self.fields.is_empty() {
            return Value::object(self.fields.iter().map(|(name, shape)| (name.as_str(), shape.sample(name))));
        }
        if let Some(element) = &self.element {
            return Value::list(vec![element.sample(name.trim_end_matches('s'))]);
        }
        // A page that is compared with true still has to be the last one.
        match &self.sample {
            Some(value) if !ends_pages(name) => value.clone(),
            _ => sample_by_name(name),
        }
    }
}

/// Returns true for the names of flags that there are more pages.
fn ends_pages(name: &str) -> bool {
    name.to_lowercase().contains("more")
}

/// A sample that ends pages and satisfies most conditions.
fn sample_by_name(name: &str) -> Value {
    let name = name.to_lowercase().replace(['_', '-'], "");
    let is_one_of = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let starts = |parts: &[&str]| parts.iter().any(|part| name.starts_with(part));
    if ends_pages(&name) {
        return Value::Bool(false);
    }
    if name.contains("next") {
        return Value::Null;
    }
    if starts(&["is", "has", "can"]) || ["ok", "done", "success", "enabled", "complete", "approved"].contains(&&*name) {
        return Value::Bool(true);
    }
    if is_one_of(&["url", "uri", "link", "href"]) {
        return "https://example.com".into();
    }
    if ["id", "n", "page", "index", "number", "version", "value"].contains(&&*name)
        || is_one_of(&["count", "total", "amount", "price", "score", "percent", "size", "offset", "limit"])
    {
        return Value::Int(1);
    }
    "text".into()
}
