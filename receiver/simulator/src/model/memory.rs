//! Addresses and handles: made-up, never followed, and used again as a real allocator uses them again.

use std::collections::HashMap;

/// What is granted at a time: `cudaMalloc` aligns to 512 bytes.
const GRAIN: u64 = 512;
/// Live allocations; beyond it there is no memory, whatever is left.
const ALLOCATIONS_MAX: usize = 1 << 20;

/// Device memory: how much of it is given to whom.
#[derive(Debug)]
pub struct Memory {
    capacity: u64,
    used: u64,
    next: u64,
    live: HashMap<u64, u64>,
    free: HashMap<u64, Vec<u64>>,
}

impl Memory {
    /// A device with `capacity` bytes whose addresses begin at `base`.
    pub fn new(capacity: u64, base: u64) -> Memory {
        Memory { capacity, used: 0, next: base, live: HashMap::new(), free: HashMap::new() }
    }

    /// An address of `bytes`, the latest freed of that size first. `None`: out of memory.
    pub fn alloc(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let used = self.used.checked_add(size).filter(|used| *used <= self.capacity)?;
        if self.live.len() >= ALLOCATIONS_MAX {
            return None;
        }
        let address = match self.free.get_mut(&size).and_then(Vec::pop) {
            Some(address) => address,
            None => self.fresh(size),
        };
        self.used = used;
        self.live.insert(address, size);
        Some(address)
    }

    fn fresh(&mut self, size: u64) -> u64 {
        let address = self.next;
        self.next += size;
        address
    }

    /// False where nothing was allocated at `address`.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(size) = self.live.remove(&address) else { return false };
        self.used -= size;
        self.free.entry(size).or_default().push(address);
        true
    }

    /// Bytes allocated and not freed.
    pub fn used(&self) -> u64 {
        self.used
    }
}

/// A sort of object: handles that look like addresses, the latest ended used first.
#[derive(Debug)]
pub struct Objects<T> {
    base: u64,
    made: u64,
    free: Vec<u64>,
    live: HashMap<u64, T>,
}

/// Live objects of a sort; beyond it making one fails as out of memory does.
const OBJECTS_MAX: usize = 1 << 16;
/// Distance of two handles.
const HANDLE_STEP: u64 = 0x90;

impl<T> Objects<T> {
    /// No objects yet; the first one's handle is `base`.
    pub fn new(base: u64) -> Objects<T> {
        Objects { base, made: 0, free: Vec::new(), live: HashMap::new() }
    }

    /// Keeps `object` and names it. `None`: too many.
    pub fn make(&mut self, object: T) -> Option<u64> {
        if self.live.len() >= OBJECTS_MAX {
            return None;
        }
        let handle = self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            self.base + (self.made - 1) * HANDLE_STEP
        });
        self.live.insert(handle, object);
        Some(handle)
    }

    /// The object of this handle; where there is none and `vivify`, a new one of that handle.
    pub fn find(&mut self, handle: u64, vivify: bool) -> Option<&mut T>
    where
        T: Default,
    {
        if vivify && self.live.len() < OBJECTS_MAX {
            return Some(self.live.entry(handle).or_default());
        }
        self.live.get_mut(&handle)
    }

    /// Ends an object. `None` where there is none.
    pub fn end(&mut self, handle: u64) -> Option<T> {
        let ended = self.live.remove(&handle)?;
        if (self.base..self.base + self.made * HANDLE_STEP).contains(&handle) {
            self.free.push(handle);
        }
        Some(ended)
    }

    /// Every live object.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.live.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_comes_back_at_the_same_address() {
        let mut memory = Memory::new(4096, 0x1000);
        let first = memory.alloc(1000).unwrap();
        let second = memory.alloc(1000).unwrap();
        assert_ne!(first, second);
        assert!(memory.free(first) && !memory.free(first));
        assert_eq!(memory.alloc(900), Some(first));
    }

    #[test]
    fn a_full_device_refuses() {
        let mut memory = Memory::new(2048, 0x1000);
        let taken = memory.alloc(2048).unwrap();
        assert_eq!(memory.alloc(1), None);
        assert_eq!(memory.alloc(u64::MAX), None);
        assert!(memory.free(taken));
        assert_eq!((memory.used(), memory.alloc(2048)), (0, Some(taken)));
    }

    #[test]
    fn handles_are_used_again() {
        let mut objects = Objects::new(0x5000);
        let (a, b) = (objects.make(1).unwrap(), objects.make(2).unwrap());
        assert_ne!(a, b);
        assert_eq!((objects.end(a), objects.end(a)), (Some(1), None));
        assert_eq!(objects.make(3), Some(a));
        assert_eq!(objects.find(b, false), Some(&mut 2));
        assert_eq!(objects.find(0xdead, false), None);
        assert_eq!(objects.find(0xdead, true), Some(&mut 0));
    }
}
