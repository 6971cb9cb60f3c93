//! A slab with generational keys: a key names one item permanently, its entry is reused.

use std::marker::PhantomData;

/// The key of an item. Keys of removed items find nothing.
pub(crate) struct Key<T> {
    index: u32,
    serial: u32,
    of: PhantomData<fn() -> T>,
}

/// A store of items by key.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Entry<T> {
    serial: u32,
    thing: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { entries: Vec::new(), free: Vec::new() }
    }

    /// Stores the item that `make` returns for its key.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Key<T>) -> T) -> Key<T> {
        let index = self.free.pop().unwrap_or(self.entries.len() as u32);
        if index as usize == self.entries.len() {
            self.entries.push(Entry { serial: 0, thing: None });
        }
        let entry = &mut self.entries[index as usize];
        let key = Key { index, serial: entry.serial, of: PhantomData };
        entry.thing = Some(make(key));
        key
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        self.entries.get(key.index as usize).filter(|p| p.serial == key.serial)?.thing.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.entries.get_mut(key.index as usize).filter(|p| p.serial == key.serial)?.thing.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key<T>) -> Option<T> {
        let entry = self.entries.get_mut(key.index as usize).filter(|p| p.serial == key.serial)?;
        let thing = entry.thing.take()?;
        entry.serial = entry.serial.wrapping_add(1);
        self.free.push(key.index);
        Some(thing)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Returns all items in the order of their entries.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|p| p.thing.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|p| p.thing.as_mut())
    }

    /// Returns the keys of all items in the order of their entries.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<T>> + '_ {
        let key = |(at, p): (usize, &Entry<T>)| {
            let key = Key { index: at as u32, serial: p.serial, of: PhantomData };
            p.thing.as_ref().map(|_| key)
        };
        self.entries.iter().enumerate().filter_map(key)
    }
}

// Manual implementations: derives would require the traits of `T`.
impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.serial) == (other.index, other.serial)
    }
}

impl<T> Eq for Key<T> {}

impl<T> std::fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.index, self.serial)
    }
}

#[cfg(test)]
impl<T> Key<T> {
    /// Returns the key with another item type.
    pub(crate) fn cast<U>(self) -> Key<U> {
        Key { index: self.index, serial: self.serial, of: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_key_finds_nothing_after_its_entry_is_reused() {
        let mut slab = Slab::new();
        let first = slab.insert(|_| 'a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(|_| 'b');
        assert_eq!((slab.get(first).copied(), slab.remove(first)), (None, None));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!((slab.get(second), slab.len(), slab.entries.len()), (Some(&'b'), 1, 1));
    }
}
