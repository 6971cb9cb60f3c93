//! Frontiers: snapshots taken, stored with events and passed from stream to stream ([`probe_abi::frontier`]).

use probe_abi::atomic::Relaxed;
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Snapshot;
use probe_abi::frontier::{Frontier, Placement, WAITED, WaitedStreams};
use probe_abi::record::{EventKey, StreamKey};

use crate::enter::active_key;
use crate::maps::{self, EVENTS};
use crate::process;
use crate::stream::found;
use crate::task::{Task, now_ns};

/// Returns the frontier of the event's latest record.
#[inline(always)]
pub fn event(pid: u32, event: u64) -> Option<&'static Frontier> {
    // SAFETY: an entry of a hash map stays readable for the length of this run, even where it is replaced.
    EVENTS.get_ptr(&EventKey { pid, pad: 0, event }).map(|frontier| unsafe { &*frontier })
}

/// Takes the frontier of the stream; `ns` as for [`probe_abi::fold::StreamFold::snapshot`].
#[unsafe(no_mangle)]
#[inline(never)]
pub fn take(key: &StreamKey, ns: u64, into: &Frontier, scratch: &Snapshot) {
    into.waited.clear();
    let mut is_blocking = key.is_own_default();
    if let Some(stream) = found(key) {
        if stream.is_capturing() {
            return stream.snapshot_capture(&into.own);
        }
        stream.snapshot(ns, &into.own);
        into.waited.copy(&stream.waited);
        is_blocking = stream.is_blocking();
    } else {
        into.own.clear(key);
    }
    if key.is_legacy() {
        add_blocking(key, ns, into, scratch);
    } else if is_blocking {
        add_legacy(key, ns, into, scratch);
    }
}

/// Adds the legacy default stream of its device, for which a blocking stream waits.
#[unsafe(no_mangle)]
#[inline(never)]
fn add_legacy(key: &StreamKey, ns: u64, into: &Frontier, scratch: &Snapshot) {
    let first = first_device(key.pid);
    let legacy = found(key).map_or(key.legacy(), |stream| stream.legacy(first));
    add_snapshot(key, &legacy, ns, into, scratch);
}

/// Returns the device, plus one, that a thread of the process chose first.
#[inline(always)]
fn first_device(pid: u32) -> u64 {
    process::find(&Task { pid, tid: 0 }).map_or(0, |process| process.device.load(Relaxed))
}

/// Adds the blocking streams, for which the legacy default stream waits.
#[unsafe(no_mangle)]
#[inline(never)]
fn add_blocking(key: &StreamKey, ns: u64, into: &Frontier, scratch: &Snapshot) {
    let Some(process) = process::find(&Task { pid: key.pid, tid: 0 }) else { return };
    if process.blocking.load(Relaxed) == 0 {
        return;
    }
    let first = process.device.load(Relaxed);
    for slot in &process.active {
        let other = active_key(key.pid, slot);
        let is_other = slot.taken.load(Relaxed) != 0 && !other.is_legacy();
        if is_other && waits_with(key, &other, first) {
            add_snapshot(key, &other, ns, into, scratch);
        }
    }
}

/// Returns true if the stream and this legacy default stream wait for each other.
#[inline(always)]
fn waits_with(legacy: &StreamKey, other: &StreamKey, first: u64) -> bool {
    found(other).is_some_and(|stream| stream.is_blocking() && stream.legacy(first).stream == legacy.stream)
}

#[unsafe(no_mangle)]
#[inline(never)]
fn add_snapshot(key: &StreamKey, other: &StreamKey, ns: u64, into: &Frontier, scratch: &Snapshot) {
    if let Some(stream) = found(other).filter(|stream| stream.has_open_work()) {
        stream.snapshot(ns, scratch);
        add(key, &into.waited, scratch);
    }
}

/// Takes the snapshot of a stream that is destroyed, without the streams that it waited for. Returns false if it has
/// no open work.
#[inline(always)]
pub fn take_last(key: &StreamKey, into: &Frontier, scratch: &Snapshot) -> bool {
    take(key, 0, into, scratch);
    into.waited.clear();
    enter(key.pid, into)
}

/// Stores the stream's frontier with the event.
#[inline(always)]
pub fn record(key: &StreamKey, event: u64, into: &Frontier, scratch: &Snapshot) {
    take(key, now_ns(), into, scratch);
    let _ = EVENTS.insert(&EventKey { pid: key.pid, pad: 0, event }, into, 0);
}

/// Removes the event.
#[inline(always)]
pub fn remove_event(pid: u32, event: u64) {
    let _ = EVENTS.remove(&EventKey { pid, pad: 0, event });
}

/// Copies the event's frontier for a wait. Returns false if the wait ends no step.
#[inline(always)]
pub fn enter_event(pid: u32, event: &Frontier, into: &Frontier) -> bool {
    into.own.copy(&event.own);
    into.waited.copy(&event.waited);
    enter(pid, into)
}

/// Notes the entry of a wait for the frontier. Returns false if the wait ends no step.
#[inline(always)]
pub fn enter(pid: u32, frontier: &Frontier) -> bool {
    let mut closes = enter_snapshot(pid, &frontier.own);
    for snapshot in &frontier.waited.0 {
        closes |= enter_snapshot(pid, snapshot);
    }
    closes != 0
}

#[unsafe(no_mangle)]
#[inline(never)]
fn enter_snapshot(pid: u32, snapshot: &Snapshot) -> u64 {
    if snapshot.is_empty() {
        return 0;
    }
    let key = snapshot.key(pid);
    u64::from(found(&key).is_some_and(|stream| stream.enter(snapshot)))
}

/// Makes the stream wait for the event.
#[inline(always)]
pub fn wait(key: &StreamKey, event: &Frontier) {
    let Some(stream) = maps::stream(key).and_then(|_| found(key)) else { return count_unclosed() };
    if event.own.born_ns.load(Relaxed) == Snapshot::CAPTURED {
        return stream.join_capture(&event.own);
    }
    add(key, &stream.waited, &event.own);
    for snapshot in &event.waited.0 {
        add(key, &stream.waited, snapshot);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn add(key: &StreamKey, waited: &WaitedStreams, snapshot: &Snapshot) {
    let (slot, taken) = match waited.slot(key, snapshot) {
        Placement::Redundant => return,
        Placement::Slot(slot) => (slot, false),
        Placement::Evict(slot) => (slot, true),
    };
    if slot >= WAITED {
        return;
    }
    let stored = &waited.0[slot];
    if taken && found(&stored.key(key.pid)).is_some_and(|stream| stream.closes(stored)) {
        count_unclosed();
    }
    stored.copy(snapshot);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_unclosed() {
    maps::count(SelfCounter::UnclosedStream);
}
