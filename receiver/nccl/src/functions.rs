//! Decoding of NCCL's functions: what a call's arguments and memory mean, by the columns of its probe row.
//!
//! [`ArgsSpec`] has the positions. Functions that take the 128-byte `ncclUniqueId` by value are an exception: on x86-64
//! it uses no register (the rank is the third integer argument, the id is on the stack), on AArch64 it uses the
//! register that points to it (the rank is the fourth). Positions count C arguments in both cases, the id being number
//! 3 and the rank number 4.
//!
//! A nested call that NCCL makes itself (`ncclBcast` calls `ncclBroadcast`) is best suppressed in the kernel programs;
//! otherwise the engine recognizes it by its time.

use probe_abi::nccl::Role;
use probe_abi::record::StreamKey;
use probe_abi::{ArgPos, ArgsSpec};

use crate::hash::UniqueId;
use crate::observe::{Arguments, Function, Out};

/// Memory that a call's pointers refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallMemory {
    /// The id, passed by value or the first at a pointer, read at entry or written by the call.
    pub id: Option<Box<UniqueId>>,
    /// The `int`s read at the entry.
    pub list: Vec<i32>,
    /// Memory read at the return: handles or an `int`; empty if it was not read.
    pub out: Vec<u64>,
    /// Value of [`Arguments::ordinal`].
    pub ordinal: Option<u64>,
    /// Value of [`Arguments::is_unarmed`].
    pub is_unarmed: bool,
}

/// Decodes a call of a function with these columns. `argument` returns an argument by position, `stream` the stream
/// of a handle in the calling thread. Returns `None` if a required value was not read, or if nothing is decoded.
pub fn read(
    args: &ArgsSpec,
    argument: impl Fn(u8) -> u64,
    stream: impl Fn(u64) -> StreamKey,
    memory: CallMemory,
) -> Option<Function> {
    let at = |position: ArgPos| if position == ArgPos::NONE { 0 } else { argument(position.0) };
    let int = |position: ArgPos| at(position) as i32;
    let (comm, handle) = (at(args.comm), memory.out.first().copied());
    let value = handle.map(|value| value as i32);
    let out = Out { at: at(args.exit.arg), handle: handle.unwrap_or(0) };
    Some(match args.role? {
        Role::Operation(operation) => Function::Operation(Arguments {
            operation,
            comm,
            stream: stream(at(args.stream)),
            count: at(args.elements),
            datatype: at(ArgPos(args.elements.0 + 1)) as u32,
            reduction: at(args.reduction) as u32,
            peer: if args.peer == ArgPos::NONE { -1 } else { int(args.peer) },
            ordinal: memory.ordinal,
            is_unarmed: memory.is_unarmed,
        }),
        Role::Init => Function::Init { out, nranks: int(args.nranks), rank: int(args.rank), id: memory.id },
        Role::InitAll => {
            Function::InitAll { handles: memory.out, count: int(args.count), devices: memory.list }
        }
        Role::GetUniqueId => Function::GetUniqueId { id: memory.id? },
        Role::Split => {
            Function::Split { parent: comm, color: int(args.peer), key: int(args.rank), child: out }
        }
        Role::Shrink => Function::Shrink {
            parent: comm,
            excluded: memory.list,
            excluded_count: int(args.count),
            child: out,
        },
        Role::Grow => {
            Function::Grow { parent: comm, nranks: int(args.nranks), rank: int(args.rank), child: out }
        }
        Role::Finalize => Function::Finalize { comm },
        Role::Destroy => Function::Destroy { comm },
        Role::Abort => Function::Abort { comm },
        Role::Count => Function::Count { comm, value: value? },
        Role::UserRank => Function::UserRank { comm, value: value? },
        Role::CuDevice => Function::CuDevice { comm, value: value? },
        Role::GroupStart => Function::GroupStart,
        Role::GroupEnd => Function::GroupEnd,
        Role::Version => return None,
    })
}

#[cfg(test)]
mod tests;
