//! The settings in a source of the language `agent`. A source with a key that its function does not read is rejected,
//! so that misspelt keys are found.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_value::{Map, Value};

pub(super) struct Config<'a> {
    map: &'a Map,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Config<'a> {
    pub(crate) fn new(source: &'a Value) -> Option<Config<'a>> {
        Some(Config { map: source.as_map()?, read: RefCell::default() })
    }

    pub(crate) fn value(&self, key: &'static str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(key);
        self.map.get(key)
    }

    /// Returns a value that is not null.
    pub(crate) fn non_null(&self, key: &'static str) -> Option<&'a Value> {
        self.value(key).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, key: &'static str) -> Result<Arc<str>, String> {
        self.optional_text(key)?.ok_or_else(|| format!("missing `{key}`, a text"))
    }

    pub(crate) fn optional_text(&self, key: &'static str) -> Result<Option<Arc<str>>, String> {
        match self.non_null(key) {
            None => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text.clone())),
            Some(other) => Err(format!("`{key}` must be a text, not {}", other.kind())),
        }
    }

    pub(crate) fn flag(&self, key: &'static str) -> Result<bool, String> {
        match self.non_null(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| format!("`{key}` must be true or false")),
        }
    }

    pub(crate) fn count(&self, key: &'static str) -> Result<Option<usize>, String> {
        let Some(value) = self.non_null(key) else { return Ok(None) };
        let count = value.as_int().and_then(|count| usize::try_from(count).ok());
        count.map(Some).ok_or_else(|| format!("`{key}` must be a whole number, 0 or more"))
    }

    pub(crate) fn list(&self, key: &'static str) -> Result<&'a [Value], String> {
        match self.non_null(key) {
            None => Ok(&[]),
            Some(value) => value.as_list().ok_or_else(|| format!("`{key}` must be a list")),
        }
    }

    pub(crate) fn texts(&self, key: &'static str) -> Result<Vec<Arc<str>>, String> {
        let text = |value: &Value| match value {
            Value::Str(text) => Ok(text.clone()),
            _ => Err(format!("`{key}` must be a list of texts")),
        };
        self.list(key)?.iter().map(text).collect()
    }

    pub(crate) fn inner(&self, key: &'static str) -> Result<Option<Config<'a>>, String> {
        let Some(value) = self.non_null(key) else { return Ok(None) };
        Config::new(value).map(Some).ok_or_else(|| format!("`{key}` must be an object"))
    }

    pub(crate) fn check_all_read(&self) -> Result<(), String> {
        let read = self.read.borrow();
        let unknown = self.map.keys().find(|key| !read.contains(&***key));
        unknown.map_or(Ok(()), |key| Err(format!("it has no setting `{key}`")))
    }
}
