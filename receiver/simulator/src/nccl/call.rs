//! What the functions do: collectives come to their barrier, groups hold them back, communicators are made and ended.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the exported functions call these, and are unsafe themselves"
)]

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::OnceLock;

use super::abi::{INVALID_ARGUMENT, INVALID_USAGE, NO_COLOR, SUCCESS, UniqueId};
use super::comm::{self, Comm, comms, is_lenient, meet, mix, of_key};
use super::streams::{Pending, streams};
use crate::model::clock;
use crate::model::link::Loaded;
use crate::model::order::take_next;

/// What an operation does beside being counted.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Every rank comes to it.
    Collective,
    /// A message to a rank.
    Send(usize),
    /// A message from a rank.
    Recv(usize),
}

/// An operation or a communicator held back until the end of its group.
#[derive(Clone, Copy)]
enum Held {
    Operation { handle: u64, stream: u64, kind: Kind },
    Init { out: *mut u64, comm: Comm },
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
}

/// Spends the call's host time; what it returns, if it is ordered to fail.
pub fn begin() -> Option<c_int> {
    let order = take_next();
    clock::burn(order.host_ns);
    (order.result != crate::model::order::Order::BY_MODEL).then_some(order.result as c_int)
}

/// An operation on a communicator.
pub fn operation(handle: u64, stream: u64, kind: Kind) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    if comms().get(handle).is_none() {
        return if is_lenient() { SUCCESS } else { INVALID_ARGUMENT };
    }
    match DEPTH.get() {
        0 => run(handle, stream, kind),
        _ => HELD.with_borrow_mut(|held| held.push(Held::Operation { handle, stream, kind })),
    }
    SUCCESS
}

/// Puts it on its stream, and says to the other ranks that this one is there.
fn run(handle: u64, stream: u64, kind: Kind) {
    let Some(comm) = comms().get(handle).copied() else { return };
    launch(stream);
    let Some(entry) = comm.entry.filter(|_| !streams().is_capturing(stream)) else { return };
    let key = comm.key;
    match kind {
        Kind::Collective => {
            let number = entry.work.arrive(comm.rank, comm.nranks);
            streams().push(stream, Pending::Work { entry, key, number });
        }
        Kind::Send(to) => entry.send(comm.rank, to),
        Kind::Recv(from) => {
            let mut streams = streams();
            let count = streams.received.entry((key, from, comm.rank)).or_default();
            *count += 1;
            let number = *count;
            streams.push(stream, Pending::Message { entry, key, from, to: comm.rank, number });
        }
    }
}

/// NCCL's kernel, launched as NCCL does it: by the driver's function, from its own code.
fn launch(stream: u64) {
    type Launch =
        unsafe extern "C" fn(u64, u32, u32, u32, u32, u32, u32, u32, u64, *mut u64, *mut u64) -> u32;
    static DRIVER: OnceLock<usize> = OnceLock::new();
    let address =
        *DRIVER.get_or_init(|| Loaded::present("libcuda.so.1").map_or(0, |l| l.find("cuLaunchKernel")));
    if address == 0 {
        return;
    }
    let none = std::ptr::null_mut();
    // SAFETY: it is the stub driver's function of this prototype, which follows no pointer.
    unsafe {
        std::mem::transmute::<usize, Launch>(address)(0x6e6363, 8, 1, 1, 512, 1, 1, 0, stream, none, none)
    };
}

/// `ncclGroupStart`.
pub fn group_start() -> c_int {
    begin();
    DEPTH.set(DEPTH.get() + 1);
    SUCCESS
}

/// `ncclGroupEnd`: the work of a group begins at the outermost.
pub fn group_end() -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    match DEPTH.get() {
        0 => return if is_lenient() { SUCCESS } else { INVALID_USAGE },
        depth => DEPTH.set(depth - 1),
    }
    if DEPTH.get() > 0 {
        return SUCCESS;
    }
    let held = HELD.take();
    // Communicators of one thread wait for each other: all come before any waits.
    let made: Vec<(*mut u64, Comm, u64)> = held
        .iter()
        .filter_map(|held| match held {
            Held::Init { out, comm } => {
                let number = comm.entry.map_or(0, |e| e.control.arrive(comm.rank, comm.nranks));
                Some((*out, *comm, number))
            }
            Held::Operation { .. } => None,
        })
        .collect();
    for (out, comm, number) in made {
        if let Some(entry) = comm.entry {
            entry.control.wait(number, || comms().is_aborted(comm.key));
        }
        give(out, comms().add(comm));
    }
    for held in held {
        if let Held::Operation { handle, stream, kind } = held {
            run(handle, stream, kind);
        }
    }
    SUCCESS
}

fn give(out: *mut u64, handle: u64) {
    if !out.is_null() {
        // SAFETY: by the prototype a pointer to where the caller wants the handle.
        unsafe { *out = handle };
    }
}

/// A communicator of an id.
pub fn init(out: *mut u64, nranks: c_int, id: &UniqueId, rank: c_int) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    if is_lenient() {
        give(out, super::abi::LENIENT_HANDLE);
        return SUCCESS;
    }
    if nranks < 1 || !(0..nranks).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    let comm = of_key(comm::key_of(id), nranks as usize, rank as usize, rank as usize);
    if DEPTH.get() > 0 {
        HELD.with_borrow_mut(|held| held.push(Held::Init { out, comm }));
        return SUCCESS;
    }
    meet(&comm);
    give(out, comms().add(comm));
    SUCCESS
}

/// All ranks in this process. `id` is what `ncclGetUniqueId` made.
pub fn init_all(out: *mut u64, count: c_int, devices: *const c_int, id: &UniqueId) -> c_int {
    for rank in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by the prototype both lists have `count` items, or there are no devices.
        let device = if devices.is_null() { rank as c_int } else { unsafe { *devices.add(rank) } };
        let comm = of_key(comm::key_of(id), count as usize, rank, device as usize);
        let handle = match is_lenient() {
            true => super::abi::LENIENT_HANDLE + rank as u64,
            false => comms().add(comm),
        };
        // SAFETY: as above.
        give(unsafe { out.add(rank) }, handle);
    }
    SUCCESS
}

/// A part of a communicator: those of one color, in the order of their keys.
pub fn split(parent: u64, color: c_int, key: c_int, out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return stranger_child(out) };
    let parts = exchange(&comm, color, key);
    let mine: Vec<(c_int, usize)> =
        parts.into_iter().filter(|(c, ..)| *c == color).map(|(_, k, r)| (k, r)).collect();
    let place = mine.iter().filter(|other| **other < (key, comm.rank)).count();
    let handle = match color {
        NO_COLOR => 0,
        _ => child(&comm, comm.splits << 32 | u64::from(color as u32), mine.len(), place),
    };
    give(out, handle);
    SUCCESS
}

/// What all ranks bring to a split: color, key, rank.
fn exchange(comm: &Comm, color: c_int, key: c_int) -> Vec<(c_int, c_int, usize)> {
    let Some(entry) = comm.entry else { return vec![(color, key, comm.rank)] };
    let round = &entry.split[comm.splits as usize % 2];
    round[comm.rank]
        .store(u64::from(color as u32) << 32 | u64::from(key as u32), std::sync::atomic::Ordering::SeqCst);
    meet(comm);
    let all = round.iter().take(comm.nranks).enumerate();
    all.map(|(rank, brought)| {
        let brought = brought.load(std::sync::atomic::Ordering::SeqCst);
        ((brought >> 32) as c_int, brought as c_int, rank)
    })
    .collect()
}

/// The communicator, one split further.
fn count_split(parent: u64) -> Option<Comm> {
    let mut comms = comms();
    let comm = comms.get(parent)?;
    comm.splits += 1;
    Some(*comm)
}

fn stranger_child(out: *mut u64) -> c_int {
    if !is_lenient() {
        return INVALID_ARGUMENT;
    }
    give(out, super::abi::LENIENT_HANDLE);
    SUCCESS
}

fn child(parent: &Comm, what: u64, nranks: usize, rank: usize) -> u64 {
    let comm = of_key(mix(parent.key ^ mix(what + 1)), nranks, rank, parent.device);
    comms().add(comm)
}

/// A communicator without some of its ranks.
pub fn shrink(parent: u64, excluded: &[c_int], out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return stranger_child(out) };
    let below = excluded.iter().filter(|rank| (**rank as usize) < comm.rank).count();
    let what = comm.splits << 32 | 0xffff_fff0;
    give(out, child(&comm, what, comm.nranks - excluded.len().min(comm.nranks - 1), comm.rank - below));
    SUCCESS
}

/// A communicator with more ranks: those of the parent keep theirs.
pub fn grow(parent: u64, nranks: c_int, rank: c_int, out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return stranger_child(out) };
    let rank = if rank < 0 { comm.rank } else { rank as usize };
    give(out, child(&comm, comm.splits << 32 | 0xffff_fff1, nranks.max(1) as usize, rank));
    SUCCESS
}

/// The end of a communicator.
pub fn end(handle: u64, is_abort: bool) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let known = comms().remove(handle, is_abort);
    if known || is_lenient() { SUCCESS } else { INVALID_ARGUMENT }
}

/// A number about a communicator; `place` says which of [`super::abi::STRANGER`]'s stands for one that is not ours.
pub fn ask(handle: u64, into: *mut c_int, place: usize, fact: fn(&Comm) -> usize) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let known = comms().get(handle).map(|comm| fact(comm) as c_int);
    let Some(value) = known.or(is_lenient().then_some(super::abi::STRANGER[place])) else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: by the prototype a pointer to where the caller wants the number.
    unsafe { *into = value };
    SUCCESS
}
