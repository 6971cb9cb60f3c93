//! Processes that leak, and processes with similar memory use that do not.

use super::super::{Memory, Piece, Space};
use super::*;

const MINUTE: u64 = 60_000_000_000;
const MB: u64 = 1 << 20;

/// A process with thirty steps per minute.
#[derive(Default)]
struct Process {
    memory: Memory,
    now_ns: u64,
    next: u64,
    leaks: Vec<(u64, Leak)>,
}

impl Process {
    fn allocate(&mut self, bytes: u64) -> u64 {
        self.next += 1;
        self.memory.allocate(Space::Addresses, self.next, Piece { bytes, at_ns: self.now_ns });
        self.next
    }

    fn free(&mut self, address: u64) {
        self.memory.free(Space::Addresses, address, self.now_ns);
    }

    /// Runs a minute of steps, each of which allocates and frees a batch.
    fn minute(&mut self) {
        for _ in 0..30 {
            let batch = self.allocate(300 * MB);
            self.now_ns += MINUTE / 30;
            self.free(batch);
            let leaks = self.memory.step(self.now_ns);
            self.leaks.extend(leaks.map(|leak| (self.now_ns / MINUTE, leak)));
        }
    }
}

fn server() -> Process {
    let mut process = Process::default();
    process.allocate(40 << 30);
    (0..3).for_each(|_| process.minute());
    process
}

#[test]
fn a_leak_is_suspected_once_with_its_class() {
    let mut process = server();
    for _ in 0..200 {
        process.allocate(24 * MB);
        process.minute();
        // The same amount of another size is allocated and freed.
        let other = process.allocate(500 * MB);
        process.free(other);
        process.allocate(1000);
    }
    let [(minute, leak)] = process.leaks[..] else { panic!("{:?}", process.leaks) };
    assert!((17..23).contains(&minute), "{minute}: a hundredth of 40 GiB");
    assert!(leak.is_suspected && leak.growth_bytes > 400 * MB, "{leak:?}");
    assert_eq!(leak.class.from_bytes, 16 * MB);
    assert!(leak.class.growth_bytes.abs_diff(leak.growth_bytes) < MB, "{leak:?}");
}

#[test]
fn a_leak_ends_when_half_is_freed_or_growth_stops() {
    for comes_back in [true, false] {
        let mut process = server();
        let leaked: Vec<u64> = (0..30)
            .map(|_| {
                process.minute();
                process.allocate(100 * MB)
            })
            .collect();
        if comes_back {
            leaked.iter().take(25).for_each(|address| process.free(*address));
        }
        (0..5).for_each(|_| process.minute());
        let leaks: Vec<bool> = process.leaks.iter().map(|(_, leak)| leak.is_suspected).collect();
        assert_eq!(leaks, [true, false], "comes back: {comes_back}");
    }
}

#[test]
fn loading_caches_and_varying_use_are_not_leaks() {
    // Loading: minutes without steps.
    let mut process = server();
    for _ in 0..60 {
        process.allocate(1 << 30);
        process.now_ns += MINUTE;
        process.memory.step(process.now_ns);
    }
    // A cache that grows until it is full.
    for size in [8u64, 4, 2, 1] {
        process.minute();
        process.allocate(size << 30);
    }
    (0..60).for_each(|_| process.minute());
    // Conversations that last minutes.
    let mut held = Vec::new();
    for minute in 0..300u64 {
        held.push(process.allocate((100 + minute * 37 % 200) * MB));
        if held.len() as u64 > 5 + minute * 13 % 7 {
            process.free(held.remove(0));
            process.free(held.remove(0));
        }
        process.minute();
    }
    assert_eq!(process.leaks, []);
}

#[test]
fn slow_growth_is_not_a_leak() {
    let mut process = server();
    for _ in 0..60 {
        process.allocate(MB / 8);
        process.minute();
    }
    assert_eq!(process.leaks, []);
}

#[test]
fn every_size_has_a_class() {
    for (bytes, class) in [(0, 0), (1, 0), (3, 1), (1 << 30, 30), (u64::MAX, CLASSES - 1)] {
        assert_eq!(class_of(bytes), class, "{bytes}");
    }
}
