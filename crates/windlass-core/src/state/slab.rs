//! A slab: numbered entries that are reused. An id also carries a stamp, so that an old id never refers to a new
//! value.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// The id of an entry of a [`Slab`]. An id whose value was removed finds nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct SlabId<T> {
    index: u32,
    stamp: u32,
    #[serde(skip)]
    kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Display for SlabId<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}.{}", self.index, self.stamp)
    }
}

impl<T> Clone for SlabId<T> {
    fn clone(&self) -> SlabId<T> {
        *self
    }
}

impl<T> Copy for SlabId<T> {}

impl<T> PartialEq for SlabId<T> {
    fn eq(&self, other: &SlabId<T>) -> bool {
        (self.index, self.stamp) == (other.index, other.stamp)
    }
}

impl<T> Eq for SlabId<T> {}

impl<T> PartialOrd for SlabId<T> {
    fn partial_cmp(&self, other: &SlabId<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for SlabId<T> {
    fn cmp(&self, other: &SlabId<T>) -> std::cmp::Ordering {
        (self.index, self.stamp).cmp(&(other.index, other.stamp))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct SlabEntry<T> {
    stamp: u32,
    value: Option<T>,
}

/// Values by id, with constant-time insertion, lookup and removal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Stores a value in a free entry and returns its id.
    pub fn insert(&mut self, value: T) -> SlabId<T> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(SlabEntry { stamp: 0, value: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.stamp = entry.stamp.wrapping_add(1);
        entry.value = Some(value);
        SlabId { index, stamp: entry.stamp, kind: PhantomData }
    }

    /// Returns the value; None if it was removed.
    pub fn get(&self, id: SlabId<T>) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.stamp == id.stamp { entry.value.as_ref() } else { None }
    }

    /// Returns the value for changes; None if it was removed.
    pub fn get_mut(&mut self, id: SlabId<T>) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.stamp == id.stamp { entry.value.as_mut() } else { None }
    }

    // A frame is large: the move to the caller comes last, so that it is moved only once.
    /// Removes the value and returns it; None if it was removed before.
    #[inline]
    pub fn remove(&mut self, id: SlabId<T>) -> Option<T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.stamp != id.stamp || entry.value.is_none() {
            return None;
        }
        self.free.push(id.index);
        entry.value.take()
    }

    /// Returns true if exactly the vacant entries are listed as free, each once.
    pub(crate) fn is_sound(&self) -> bool {
        let mut free = vec![false; self.entries.len()];
        for index in &self.free {
            match free.get_mut(*index as usize) {
                Some(listed) if !*listed => *listed = true,
                _ => return false,
            }
        }
        self.entries.iter().zip(free).all(|(entry, free)| entry.value.is_none() == free)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.value.as_mut())
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns true if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all values with their ids, in the order of their entries, which is not that of insertion.
    pub fn iter(&self) -> impl Iterator<Item = (SlabId<T>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let id = SlabId { index: index as u32, stamp: entry.stamp, kind: PhantomData };
            entry.value.as_ref().map(|tenant| (id, tenant))
        })
    }
}
