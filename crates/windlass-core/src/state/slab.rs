//! Numbered places that are used again. An id also carries a stamp, so an old id never reaches a new tenant.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

#[derive(Debug, Serialize, Deserialize)]
pub struct Id<T> {
    index: u32,
    stamp: u32,
    #[serde(skip)]
    kind: PhantomData<fn() -> T>,
}

impl<T> std::fmt::Display for Id<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}.{}", self.index, self.stamp)
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Id<T> {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Id<T>) -> bool {
        (self.index, self.stamp) == (other.index, other.stamp)
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Id<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Id<T>) -> std::cmp::Ordering {
        (self.index, self.stamp).cmp(&(other.index, other.stamp))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<T> {
    stamp: u32,
    tenant: Option<T>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, tenant: T) -> Id<T> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { stamp: 0, tenant: None });
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[index as usize];
        entry.stamp = entry.stamp.wrapping_add(1);
        entry.tenant = Some(tenant);
        Id { index, stamp: entry.stamp, kind: PhantomData }
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        let entry = self.entries.get(id.index as usize)?;
        if entry.stamp == id.stamp { entry.tenant.as_ref() } else { None }
    }

    pub fn get_mut(&mut self, id: Id<T>) -> Option<&mut T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.stamp == id.stamp { entry.tenant.as_mut() } else { None }
    }

    // A frame is large: it is moved to the caller last, so that it is moved once.
    #[inline]
    pub fn remove(&mut self, id: Id<T>) -> Option<T> {
        let entry = self.entries.get_mut(id.index as usize)?;
        if entry.stamp != id.stamp || entry.tenant.is_none() {
            return None;
        }
        self.free.push(id.index);
        entry.tenant.take()
    }

    /// Whether exactly the vacant places are listed as free, each once.
    pub(crate) fn is_sound(&self) -> bool {
        let mut free = vec![false; self.entries.len()];
        for index in &self.free {
            match free.get_mut(*index as usize) {
                Some(listed) if !*listed => *listed = true,
                _ => return false,
            }
        }
        self.entries.iter().zip(free).all(|(entry, free)| entry.tenant.is_none() == free)
    }

    pub(crate) fn tenants_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| entry.tenant.as_mut())
    }

    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| {
            let id = Id { index: index as u32, stamp: entry.stamp, kind: PhantomData };
            entry.tenant.as_ref().map(|tenant| (id, tenant))
        })
    }
}
