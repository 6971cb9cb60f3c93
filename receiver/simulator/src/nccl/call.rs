//! The bodies of the functions: operations arrive at their barrier, groups defer them, communicators are created and
//! destroyed.

#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "the exported functions call these, and are unsafe themselves"
)]

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::OnceLock;

use super::abi::{INVALID_ARGUMENT, INVALID_USAGE, NO_COLOR, NcclId, SUCCESS};
use super::comm::{self, Comm, comms, is_lenient, meet, mix, of_key};
use super::streams::{Pending, streams};
use crate::model::clock;
use crate::model::link::Loaded;
use crate::model::order::take_next;

/// The kind of an operation.
#[derive(Clone, Copy)]
pub enum OperationKind {
    /// A collective of all ranks.
    Collective,
    /// A message to a rank.
    Send(usize),
    /// A message from a rank.
    Recv(usize),
}

/// An operation or a communicator deferred until the end of its group.
#[derive(Clone, Copy)]
enum Deferred {
    Operation { handle: u64, stream: u64, kind: OperationKind },
    Init { out: *mut u64, comm: Comm },
}

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static DEFERRED: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
}

/// Spends the call's host time; returns the result of a call that is ordered to fail.
pub fn begin() -> Option<c_int> {
    let order = take_next();
    clock::burn(order.host_ns);
    (order.result != crate::model::order::Order::BY_MODEL).then_some(order.result as c_int)
}

/// Runs an operation, or defers it in a group.
pub fn operation(handle: u64, stream: u64, kind: OperationKind) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    if comms().get(handle).is_none() {
        return if is_lenient() { SUCCESS } else { INVALID_ARGUMENT };
    }
    match DEPTH.get() {
        0 => run(handle, stream, kind),
        _ => DEFERRED.with_borrow_mut(|deferred| deferred.push(Deferred::Operation { handle, stream, kind })),
    }
    SUCCESS
}

/// Enqueues an operation and signals its arrival to the other ranks.
fn run(handle: u64, stream: u64, kind: OperationKind) {
    let Some(comm) = comms().get(handle).copied() else { return };
    launch(stream);
    let Some(entry) = comm.entry.filter(|_| !streams().is_capturing(stream)) else { return };
    let key = comm.key;
    match kind {
        OperationKind::Collective => {
            let number = entry.work.arrive(comm.rank, comm.nranks);
            streams().push(stream, Pending::Work { entry, key, number });
        }
        OperationKind::Send(to) => entry.send(comm.rank, to),
        OperationKind::Recv(from) => {
            let mut streams = streams();
            let count = streams.received.entry((key, from, comm.rank)).or_default();
            *count += 1;
            let number = *count;
            streams.push(stream, Pending::Message { entry, key, from, to: comm.rank, number });
        }
    }
}

/// Launches NCCL's kernel by the driver's function, as NCCL does.
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

/// Implements `ncclGroupStart`.
pub fn group_start() -> c_int {
    begin();
    DEPTH.set(DEPTH.get() + 1);
    SUCCESS
}

/// Implements `ncclGroupEnd`: at the outermost level, runs the deferred work.
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
    let deferred = DEFERRED.take();
    // Communicators of one thread wait for each other, so all arrive before any waits.
    let made: Vec<(*mut u64, Comm, u64)> = deferred
        .iter()
        .filter_map(|one| match one {
            Deferred::Init { out, comm } => {
                let number = comm.entry.map_or(0, |e| e.control.arrive(comm.rank, comm.nranks));
                Some((*out, *comm, number))
            }
            Deferred::Operation { .. } => None,
        })
        .collect();
    for (out, comm, number) in made {
        if let Some(entry) = comm.entry {
            entry.control.wait(number, || comms().is_aborted(comm.key));
        }
        write(out, comms().add(comm));
    }
    for one in deferred {
        if let Deferred::Operation { handle, stream, kind } = one {
            run(handle, stream, kind);
        }
    }
    SUCCESS
}

fn write(out: *mut u64, handle: u64) {
    if !out.is_null() {
        // SAFETY: by the prototype a pointer to a handle.
        unsafe { *out = handle };
    }
}

/// Creates the communicator of an id.
pub fn init(out: *mut u64, nranks: c_int, id: &NcclId, rank: c_int) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    if is_lenient() {
        write(out, super::abi::LENIENT_HANDLE);
        return SUCCESS;
    }
    if nranks < 1 || !(0..nranks).contains(&rank) {
        return INVALID_ARGUMENT;
    }
    let comm = of_key(comm::key_of(id), nranks as usize, rank as usize, rank as usize);
    if DEPTH.get() > 0 {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(Deferred::Init { out, comm }));
        return SUCCESS;
    }
    meet(&comm);
    write(out, comms().add(comm));
    SUCCESS
}

/// Creates the communicators of all ranks in this process.
pub fn init_all(out: *mut u64, count: c_int, devices: *const c_int, id: &NcclId) -> c_int {
    for rank in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by the prototype both lists have `count` items, or there are no devices.
        let device = if devices.is_null() { rank as c_int } else { unsafe { *devices.add(rank) } };
        let comm = of_key(comm::key_of(id), count as usize, rank, device as usize);
        let handle = match is_lenient() {
            true => super::abi::LENIENT_HANDLE + rank as u64,
            false => comms().add(comm),
        };
        // SAFETY: as above.
        write(unsafe { out.add(rank) }, handle);
    }
    SUCCESS
}

/// Creates the communicator of the ranks of one color, in the order of their keys.
pub fn split(parent: u64, color: c_int, key: c_int, out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return unknown_parent(out) };
    let parts = exchange(&comm, color, key);
    let mine: Vec<(c_int, usize)> =
        parts.into_iter().filter(|(c, ..)| *c == color).map(|(_, k, r)| (k, r)).collect();
    let rank = mine.iter().filter(|other| **other < (key, comm.rank)).count();
    let handle = match color {
        NO_COLOR => 0,
        _ => child(&comm, comm.splits << 32 | u64::from(color as u32), mine.len(), rank),
    };
    write(out, handle);
    SUCCESS
}

/// Exchanges the arguments of a split; returns color, key and rank of each rank.
fn exchange(comm: &Comm, color: c_int, key: c_int) -> Vec<(c_int, c_int, usize)> {
    let Some(entry) = comm.entry else { return vec![(color, key, comm.rank)] };
    let round = &entry.split[comm.splits as usize % 2];
    round[comm.rank]
        .store(u64::from(color as u32) << 32 | u64::from(key as u32), std::sync::atomic::Ordering::SeqCst);
    meet(comm);
    let all = round.iter().take(comm.nranks).enumerate();
    all.map(|(rank, arguments)| {
        let arguments = arguments.load(std::sync::atomic::Ordering::SeqCst);
        ((arguments >> 32) as c_int, arguments as c_int, rank)
    })
    .collect()
}

/// Counts a split of a communicator and returns the communicator.
fn count_split(parent: u64) -> Option<Comm> {
    let mut comms = comms();
    let comm = comms.get(parent)?;
    comm.splits += 1;
    Some(*comm)
}

fn unknown_parent(out: *mut u64) -> c_int {
    if !is_lenient() {
        return INVALID_ARGUMENT;
    }
    write(out, super::abi::LENIENT_HANDLE);
    SUCCESS
}

fn child(parent: &Comm, salt: u64, nranks: usize, rank: usize) -> u64 {
    let comm = of_key(mix(parent.key ^ mix(salt + 1)), nranks, rank, parent.device);
    comms().add(comm)
}

/// Creates a communicator without some of the ranks.
pub fn shrink(parent: u64, excluded: &[c_int], out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return unknown_parent(out) };
    let below = excluded.iter().filter(|rank| (**rank as usize) < comm.rank).count();
    let salt = comm.splits << 32 | 0xffff_fff0;
    write(out, child(&comm, salt, comm.nranks - excluded.len().min(comm.nranks - 1), comm.rank - below));
    SUCCESS
}

/// Creates a communicator with more ranks; those of the parent keep their numbers.
pub fn grow(parent: u64, nranks: c_int, rank: c_int, out: *mut u64) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let Some(comm) = count_split(parent) else { return unknown_parent(out) };
    let rank = if rank < 0 { comm.rank } else { rank as usize };
    write(out, child(&comm, comm.splits << 32 | 0xffff_fff1, nranks.max(1) as usize, rank));
    SUCCESS
}

/// Destroys or aborts a communicator.
pub fn end(handle: u64, is_abort: bool) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let known = comms().remove(handle, is_abort);
    if known || is_lenient() { SUCCESS } else { INVALID_ARGUMENT }
}

/// Writes a property of a communicator, or `unknown` if a lenient stub does not know it.
pub fn query(handle: u64, into: *mut c_int, unknown: c_int, fact: fn(&Comm) -> usize) -> c_int {
    if let Some(result) = begin() {
        return result;
    }
    let known = comms().get(handle).map(|comm| fact(comm) as c_int);
    let Some(value) = known.or(is_lenient().then_some(unknown)) else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: by the prototype a pointer to an int.
    unsafe { *into = value };
    SUCCESS
}
