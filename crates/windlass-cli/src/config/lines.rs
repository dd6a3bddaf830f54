//! Where in a file of settings something is wrong.

use toml::de::DeTable;

/// The keys that lead to the smallest part of `content` which is wrong in the same way: alone it is, and the rest without it
/// is not. So whoever reads settings need not carry places along.
pub(crate) fn way_to(content: &toml::Value, is_wrong: &dyn Fn(toml::Value) -> bool) -> Vec<String> {
    let toml::Value::Table(entries) = content else { return Vec::new() };
    let only = |key: &str, value: toml::Value| toml::Value::Table(toml::Table::from_iter([(key.to_owned(), value)]));
    for (key, value) in entries {
        let mut rest = entries.clone();
        rest.remove(key);
        if is_wrong(only(key, value.clone())) && !is_wrong(toml::Value::Table(rest)) {
            let mut way = way_to(value, &|inner| is_wrong(only(key, inner)));
            way.insert(0, key.clone());
            return way;
        }
    }
    Vec::new()
}

/// The line of the last key of a way.
pub(crate) fn line_of<'k>(text: &str, way: impl IntoIterator<Item = &'k str>) -> usize {
    let Ok(table) = DeTable::parse(text) else { return 1 };
    let (mut inside, mut at) = (Some(table.get_ref()), 0);
    for key in way {
        let found = inside.and_then(|table| table.iter().find(|(name, _)| **name.get_ref() == *key));
        let Some((name, value)) = found else { break };
        (inside, at) = (value.get_ref().as_table(), name.span().start);
    }
    line_at(text, at)
}

pub(crate) fn line_at(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
