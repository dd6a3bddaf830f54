//! An object type: keys keep their order and are found by name.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::Value;

/// Maximum number of keys that are compared one by one: faster than hashing, and most objects have fewer.
const MAX_LISTED_KEYS: usize = 12;

/// An ordered object. Keys keep the position of their first insertion.
#[derive(Clone, Debug)]
pub struct Map(Entries);

#[derive(Clone, Debug)]
enum Entries {
    Listed(Vec<(Arc<str>, Value)>),
    Hashed(Box<IndexMap<Arc<str>, Value>>),
}

impl Default for Map {
    fn default() -> Map {
        Map(Entries::Listed(Vec::new()))
    }
}

impl Map {
    pub fn new() -> Map {
        Map::default()
    }

    pub fn with_capacity(capacity: usize) -> Map {
        Map(match capacity <= MAX_LISTED_KEYS {
            true => Entries::Listed(Vec::with_capacity(capacity)),
            false => Entries::Hashed(Box::new(IndexMap::with_capacity(capacity))),
        })
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        match &self.0 {
            Entries::Listed(list) => list.iter().find(|(own, _)| **own == *key).map(|(_, value)| value),
            Entries::Hashed(map) => map.get(key),
        }
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match &mut self.0 {
            Entries::Listed(list) => list.iter_mut().find(|(own, _)| **own == *key).map(|(_, value)| value),
            Entries::Hashed(map) => map.get_mut(key),
        }
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Replaces the value of an existing key at its position; appends a new key.
    pub fn insert(&mut self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match &mut self.0 {
            Entries::Listed(list) => {
                if let Some((_, old)) = list.iter_mut().find(|(own, _)| *own == key) {
                    return Some(std::mem::replace(old, value));
                }
                if list.len() < MAX_LISTED_KEYS {
                    list.push((key, value));
                    return None;
                }
                let mut map: IndexMap<Arc<str>, Value> = std::mem::take(list).into_iter().collect();
                map.insert(key, value);
                self.0 = Entries::Hashed(Box::new(map));
                None
            }
            Entries::Hashed(map) => map.insert(key, value),
        }
    }

    /// Removes a key; the order of the others is preserved.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        match &mut self.0 {
            Entries::Listed(list) => {
                let at = list.iter().position(|(own, _)| **own == *key)?;
                Some(list.remove(at).1)
            }
            Entries::Hashed(map) => map.shift_remove(key),
        }
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Listed(list) => list.len(),
            Entries::Hashed(map) => map.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> MapIter<'_> {
        match &self.0 {
            Entries::Listed(list) => MapIter(Either::Listed(list.iter())),
            Entries::Hashed(map) => MapIter(Either::Hashed(map.iter())),
        }
    }

    /// Returns the entries in order, with mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Value)> {
        match &mut self.0 {
            Entries::Listed(list) => Either::Listed(list.iter_mut().map(|(key, value)| (&*key, value))),
            Entries::Hashed(map) => Either::Hashed(map.iter_mut()),
        }
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.iter_mut().map(|(_, value)| value)
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Arc<str>> + DoubleEndedIterator {
        self.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.iter().map(|(_, value)| value)
    }
}

type Entry = (Arc<str>, Value);

/// Iterator over the entries in order.
pub struct MapIter<'a>(Either<std::slice::Iter<'a, Entry>, indexmap::map::Iter<'a, Arc<str>, Value>>);

pub struct MapIntoIter(Either<std::vec::IntoIter<Entry>, indexmap::map::IntoIter<Arc<str>, Value>>);

enum Either<L, H> {
    Listed(L),
    Hashed(H),
}

impl<T, L: Iterator<Item = T>, H: Iterator<Item = T>> Iterator for Either<L, H> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Either::Listed(list) => list.next(),
            Either::Hashed(map) => map.next(),
        }
    }
}

impl<'a> Iterator for MapIter<'a> {
    type Item = (&'a Arc<str>, &'a Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Listed(list) => list.next().map(|(key, value)| (key, value)),
            Either::Hashed(map) => map.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::Listed(list) => list.size_hint(),
            Either::Hashed(map) => map.size_hint(),
        }
    }
}

impl DoubleEndedIterator for MapIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Listed(list) => list.next_back().map(|(key, value)| (key, value)),
            Either::Hashed(map) => map.next_back(),
        }
    }
}

impl ExactSizeIterator for MapIter<'_> {}

impl Iterator for MapIntoIter {
    type Item = (Arc<str>, Value);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::Listed(list) => list.next(),
            Either::Hashed(map) => map.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::Listed(list) => list.size_hint(),
            Either::Hashed(map) => map.size_hint(),
        }
    }
}

impl ExactSizeIterator for MapIntoIter {}

impl<K: Into<Arc<str>>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Map {
        let entries = entries.into_iter();
        let mut map = Map::with_capacity(entries.size_hint().0);
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl IntoIterator for Map {
    type Item = (Arc<str>, Value);
    type IntoIter = MapIntoIter;

    fn into_iter(self) -> MapIntoIter {
        match self.0 {
            Entries::Listed(list) => MapIntoIter(Either::Listed(list.into_iter())),
            Entries::Hashed(map) => MapIntoIter(Either::Hashed(map.into_iter())),
        }
    }
}

/// Two objects are equal when they have the same keys with equal values, in any order.
impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Listed and hashed maps behave the same: content, order and returned values.
    #[test]
    fn an_object_is_the_same_however_many_keys_it_has() {
        for count in [0, 1, MAX_LISTED_KEYS - 1, MAX_LISTED_KEYS, MAX_LISTED_KEYS + 1, 5 * MAX_LISTED_KEYS] {
            let key = |number: usize| format!("k{number}");
            let mut map = Map::new();
            for number in 0..count {
                assert_eq!(map.insert(key(number), number as i64), None, "{count}");
            }
            for number in 0..count {
                assert_eq!(map.insert(key(number), -(number as i64)), Some(Value::from(number as i64)), "{count}");
            }
            let keys: Vec<String> = map.keys().map(|key| key.to_string()).collect();
            assert_eq!(keys, (0..count).map(key).collect::<Vec<_>>());
            assert_eq!((map.len(), map.is_empty()), (count, count == 0));
            let collected: Map = map.clone().into_iter().collect();
            assert_eq!(collected, map);
            assert_eq!(map.iter().rev().count(), count);
            for number in (0..count).step_by(2) {
                assert_eq!(map.remove(&key(number)), Some(Value::from(-(number as i64))));
                assert!(!map.contains_key(&key(number)));
            }
            let odd: Vec<String> = map.keys().map(|key| key.to_string()).collect();
            assert_eq!(odd, (0..count).filter(|number| number % 2 == 1).map(key).collect::<Vec<_>>());
        }
    }
}
