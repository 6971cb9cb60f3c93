//! Places for things that come and go: a key names one thing for ever, its place is used again.

use std::marker::PhantomData;

/// Names one thing of a slab. Keys of things that are gone find nothing.
pub(crate) struct Key<T> {
    index: u32,
    serial: u32,
    of: PhantomData<fn() -> T>,
}

/// Things by key.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Place<T> {
    serial: u32,
    thing: Option<T>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    /// Keeps what `make` makes of its key.
    pub(crate) fn insert(&mut self, make: impl FnOnce(Key<T>) -> T) -> Key<T> {
        let index = self.free.pop().unwrap_or(self.places.len() as u32);
        if index as usize == self.places.len() {
            self.places.push(Place { serial: 0, thing: None });
        }
        let place = &mut self.places[index as usize];
        let key = Key { index, serial: place.serial, of: PhantomData };
        place.thing = Some(make(key));
        key
    }

    pub(crate) fn get(&self, key: Key<T>) -> Option<&T> {
        self.places.get(key.index as usize).filter(|p| p.serial == key.serial)?.thing.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key<T>) -> Option<&mut T> {
        self.places.get_mut(key.index as usize).filter(|p| p.serial == key.serial)?.thing.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key<T>) -> Option<T> {
        let place = self.places.get_mut(key.index as usize).filter(|p| p.serial == key.serial)?;
        let thing = place.thing.take()?;
        place.serial = place.serial.wrapping_add(1);
        self.free.push(key.index);
        Some(thing)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// All there are, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter_map(|p| p.thing.as_ref())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter_map(|p| p.thing.as_mut())
    }

    /// The keys of all there are, in the order of their places.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Key<T>> + '_ {
        let key = |(at, p): (usize, &Place<T>)| {
            let key = Key { index: at as u32, serial: p.serial, of: PhantomData };
            p.thing.as_ref().map(|_| key)
        };
        self.places.iter().enumerate().filter_map(key)
    }
}

// By hand: derives would ask the same of `T`.
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
    /// The same place as the key of something else.
    pub(crate) fn cast<U>(self) -> Key<U> {
        Key { index: self.index, serial: self.serial, of: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_finds_what_came_later_to_its_place() {
        let mut slab = Slab::new();
        let first = slab.insert(|_| 'a');
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert(|_| 'b');
        assert_eq!((slab.get(first).copied(), slab.remove(first)), (None, None));
        assert_eq!(slab.get_mut(first), None);
        assert_eq!((slab.get(second), slab.len(), slab.places.len()), (Some(&'b'), 1, 1));
    }
}
