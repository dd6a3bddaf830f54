//! Finds the line of an error in a settings file.

use toml::de::DeTable;

/// Returns the path of keys to the smallest part of `content` that causes the error: the part alone has the error, and
/// the content without the part does not. Thus, code that reads settings need not track positions.
pub(crate) fn path_to_error(content: &toml::Value, is_wrong: &dyn Fn(toml::Value) -> bool) -> Vec<String> {
    let toml::Value::Table(entries) = content else { return Vec::new() };
    let only = |key: &str, value: toml::Value| toml::Value::Table(toml::Table::from_iter([(key.to_owned(), value)]));
    for (key, value) in entries {
        let mut rest = entries.clone();
        rest.remove(key);
        if is_wrong(only(key, value.clone())) && !is_wrong(toml::Value::Table(rest)) {
            let mut key_path = path_to_error(value, &|inner| is_wrong(only(key, inner)));
            key_path.insert(0, key.clone());
            return key_path;
        }
    }
    Vec::new()
}

/// Returns the line of the last key of a key path.
pub(crate) fn line_of<'k>(text: &str, key_path: impl IntoIterator<Item = &'k str>) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 1 };
    let (mut inside, mut at) = (Some(table.get_ref()), 0);
    for key in key_path {
        let found = inside.and_then(|table| table.iter().find(|(name, _)| **name.get_ref() == *key));
        let Some((name, value)) = found else { break };
        (inside, at) = (value.get_ref().as_table(), name.span().start);
    }
    line_at(text, at)
}

pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
