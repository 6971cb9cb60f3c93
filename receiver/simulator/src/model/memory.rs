//! Addresses and handles: never dereferenced, and reused as a real allocator reuses them.

use std::collections::HashMap;

/// Alignment of allocations, bytes; `cudaMalloc` aligns to 512.
const GRAIN: u64 = 512;
/// Live allocations; one more fails as out of memory.
const ALLOCATIONS_MAX: usize = 1 << 20;

/// The allocator of device memory.
#[derive(Debug)]
pub struct DeviceMemory {
    capacity: u64,
    used: u64,
    next: u64,
    live: HashMap<u64, u64>,
    free: HashMap<u64, Vec<u64>>,
}

impl DeviceMemory {
    /// Returns an allocator of `capacity` bytes with addresses from `base`.
    pub fn new(capacity: u64, base: u64) -> DeviceMemory {
        DeviceMemory { capacity, used: 0, next: base, live: HashMap::new(), free: HashMap::new() }
    }

    /// Allocates `bytes`, preferring the address of that size freed last; `None` if out of memory.
    pub fn alloc(&mut self, bytes: u64) -> Option<u64> {
        let size = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let used = self.used.checked_add(size).filter(|used| *used <= self.capacity)?;
        if self.live.len() >= ALLOCATIONS_MAX {
            return None;
        }
        let address = match self.free.get_mut(&size).and_then(Vec::pop) {
            Some(address) => address,
            None => self.new_address(size),
        };
        self.used = used;
        self.live.insert(address, size);
        Some(address)
    }

    fn new_address(&mut self, size: u64) -> u64 {
        let address = self.next;
        self.next += size;
        address
    }

    /// Frees an allocation; returns false if there is none at `address`.
    pub fn free(&mut self, address: u64) -> bool {
        let Some(size) = self.live.remove(&address) else { return false };
        self.used -= size;
        self.free.entry(size).or_default().push(address);
        true
    }

    /// Returns the bytes allocated and not freed.
    pub fn used(&self) -> u64 {
        self.used
    }
}

/// Objects of one kind by handle. The handle freed last is reused first.
#[derive(Debug)]
pub struct Objects<T> {
    base: u64,
    made: u64,
    free: Vec<u64>,
    live: HashMap<u64, T>,
}

/// Live objects of one kind; creating one more fails as out of memory.
const OBJECTS_MAX: usize = 1 << 16;
/// Distance of two handles.
const HANDLE_STEP: u64 = 0x90;

impl<T> Objects<T> {
    /// Returns an empty set; the first handle will be `base`.
    pub fn new(base: u64) -> Objects<T> {
        Objects { base, made: 0, free: Vec::new(), live: HashMap::new() }
    }

    /// Stores an object and returns its handle; `None` if there are too many.
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

    /// Returns the object of a handle, creating it if `vivify` is set.
    pub fn find(&mut self, handle: u64, vivify: bool) -> Option<&mut T>
    where
        T: Default,
    {
        if vivify && self.live.len() < OBJECTS_MAX {
            return Some(self.live.entry(handle).or_default());
        }
        self.live.get_mut(&handle)
    }

    /// Removes and returns an object.
    pub fn remove(&mut self, handle: u64) -> Option<T> {
        let removed = self.live.remove(&handle)?;
        if (self.base..self.base + self.made * HANDLE_STEP).contains(&handle) {
            self.free.push(handle);
        }
        Some(removed)
    }

    /// Returns all objects.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.live.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_addresses_are_reused() {
        let mut memory = DeviceMemory::new(4096, 0x1000);
        let first = memory.alloc(1000).unwrap();
        let second = memory.alloc(1000).unwrap();
        assert_ne!(first, second);
        assert!(memory.free(first) && !memory.free(first));
        assert_eq!(memory.alloc(900), Some(first));
    }

    #[test]
    fn full_device_refuses_allocations() {
        let mut memory = DeviceMemory::new(2048, 0x1000);
        let taken = memory.alloc(2048).unwrap();
        assert_eq!(memory.alloc(1), None);
        assert_eq!(memory.alloc(u64::MAX), None);
        assert!(memory.free(taken));
        assert_eq!((memory.used(), memory.alloc(2048)), (0, Some(taken)));
    }

    #[test]
    fn freed_handles_are_reused() {
        let mut objects = Objects::new(0x5000);
        let (a, b) = (objects.make(1).unwrap(), objects.make(2).unwrap());
        assert_ne!(a, b);
        assert_eq!((objects.remove(a), objects.remove(a)), (Some(1), None));
        assert_eq!(objects.make(3), Some(a));
        assert_eq!(objects.find(b, false), Some(&mut 2));
        assert_eq!(objects.find(0xdead, false), None);
        assert_eq!(objects.find(0xdead, true), Some(&mut 0));
    }
}
