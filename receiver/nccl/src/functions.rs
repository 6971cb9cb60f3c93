//! NCCL's functions and the argument positions that a probe must read.
//!
//! Functions are rows of a table. A source that has the row, the arguments by position and the memory read at the
//! return gets the [`Function`] from [`Row::read`]. Positions count C arguments from 1. Calls that pass the 128-byte
//! `ncclUniqueId` by value are an exception: on x86-64 it uses no register (the rank is the third integer argument, the
//! id is on the stack), on AArch64 it uses the register that points to it (the rank is the fourth). [`Row::rank`]
//! counts C arguments in both cases, the id being number 3 and the rank number 4; [`Row::has_id_by_value`] marks these
//! functions.
//!
//! | read at | what | for |
//! |---|---|---|
//! | entry | the arguments of the row, as whole registers; `int`s are their low 32 bits | every function |
//! | entry | the 128 bytes of the id, by value or at a pointer | the `Init` functions |
//! | entry | up to 64 `int`s at a pointer | devices of `ncclCommInitAll`, ranks excluded by `ncclCommShrink` |
//! | return | 8 bytes at [`Row::out`]; for `ncclCommInitAll` up to 64 times 8 | functions that make communicators |
//! | return | 4 bytes at [`Row::out`] | `ncclCommCount`, `ncclCommUserRank`, `ncclCommCuDevice` |
//! | return | 128 bytes at [`Row::out`] | `ncclGetUniqueId` |
//! | return | the result | every function |
//!
//! A nested call that NCCL makes itself (`ncclBcast` calls `ncclBroadcast`) is best suppressed in the kernel programs;
//! otherwise the engine recognizes it by its time.

use probe_abi::record::StreamKey;

use crate::hash::UniqueId;
use crate::observe::{Arguments, Function, Out};
use crate::operation::Operation;

/// Decoding rule of a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A function that moves data.
    Operation(Operation),
    /// A function that makes a communicator from an id.
    Init,
    /// `ncclCommInitAll`.
    InitAll,
    /// `ncclGetUniqueId`.
    GetUniqueId,
    /// `ncclCommSplit`.
    Split,
    /// `ncclCommShrink`.
    Shrink,
    /// `ncclCommGrow`.
    Grow,
    /// `ncclCommFinalize`.
    Finalize,
    /// `ncclCommDestroy`.
    Destroy,
    /// `ncclCommAbort`.
    Abort,
    /// `ncclCommCount`.
    Count,
    /// `ncclCommUserRank`.
    UserRank,
    /// `ncclCommCuDevice`.
    CuDevice,
    /// `ncclGroupStart`.
    GroupStart,
    /// `ncclGroupEnd`.
    GroupEnd,
}

/// A function and its argument positions; 0 for an argument that it does not have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Exported symbol; the same name with a `p` prefix is an alias at the same address.
    pub symbol: &'static str,
    /// Decoding rule of the function.
    pub role: Role,
    /// Handle of the communicator.
    pub comm: u8,
    /// Pointer that the function writes through.
    pub out: u8,
    /// Number of elements; for `ncclCommInitAll` and `ncclCommShrink` the length of the list.
    pub count: u8,
    /// Datatype of the elements.
    pub datatype: u8,
    /// Reduction operator.
    pub reduction: u8,
    /// Root or peer rank; for `ncclCommSplit` the color.
    pub peer: u8,
    /// Stream that the operation is enqueued on.
    pub stream: u8,
    /// Number of ranks.
    pub nranks: u8,
    /// Rank; for `ncclCommSplit` the key.
    pub rank: u8,
    /// Pointer to the ids or to the list of `int`s.
    pub list: u8,
    /// The id is passed by value, as argument 3.
    pub has_id_by_value: bool,
}

const fn row(symbol: &'static str, role: Role) -> Row {
    let none = 0;
    Row {
        symbol,
        role,
        comm: none,
        out: none,
        count: none,
        datatype: none,
        reduction: none,
        peer: none,
        stream: none,
        nranks: none,
        rank: none,
        list: none,
        has_id_by_value: false,
    }
}

/// Returns a row with count and datatype, reduction, peer, and the communicator followed by the stream.
const fn moves(
    symbol: &'static str,
    operation: Operation,
    count: u8,
    reduction: u8,
    peer: u8,
    comm: u8,
) -> Row {
    let base = row(symbol, Role::Operation(operation));
    Row { count, datatype: count + 1, reduction, peer, comm, stream: comm + 1, ..base }
}

const fn of_comm(symbol: &'static str, role: Role, out: u8) -> Row {
    Row { comm: 1, out, ..row(symbol, role) }
}

/// Rows of all analyzed functions, sorted by symbol. `ncclXConfig` (2.32) is `ncclX` with one more argument.
pub static FUNCTIONS: &[Row] = &[
    moves("ncclAllGather", Operation::AllGather, 3, 0, 0, 5),
    moves("ncclAllGatherConfig", Operation::AllGather, 3, 0, 0, 5),
    moves("ncclAllReduce", Operation::AllReduce, 3, 5, 0, 6),
    moves("ncclAllReduceConfig", Operation::AllReduce, 3, 5, 0, 6),
    // RCCL's name of this function.
    moves("ncclAllToAll", Operation::AllToAll, 3, 0, 0, 5),
    moves("ncclAlltoAll", Operation::AllToAll, 3, 0, 0, 5),
    moves("ncclAlltoAllConfig", Operation::AllToAll, 3, 0, 0, 5),
    moves("ncclBcast", Operation::Broadcast, 2, 0, 4, 5),
    moves("ncclBroadcast", Operation::Broadcast, 3, 0, 5, 6),
    moves("ncclBroadcastConfig", Operation::Broadcast, 3, 0, 5, 6),
    of_comm("ncclCommAbort", Role::Abort, 0),
    of_comm("ncclCommCount", Role::Count, 2),
    of_comm("ncclCommCuDevice", Role::CuDevice, 2),
    of_comm("ncclCommDestroy", Role::Destroy, 0),
    of_comm("ncclCommFinalize", Role::Finalize, 0),
    Row { nranks: 2, list: 3, rank: 4, ..of_comm("ncclCommGrow", Role::Grow, 5) },
    Row { out: 1, count: 2, list: 3, ..row("ncclCommInitAll", Role::InitAll) },
    Row { out: 1, nranks: 2, rank: 4, has_id_by_value: true, ..row("ncclCommInitRank", Role::Init) },
    Row { out: 1, nranks: 2, rank: 4, has_id_by_value: true, ..row("ncclCommInitRankConfig", Role::Init) },
    Row { out: 1, nranks: 2, rank: 3, list: 5, ..row("ncclCommInitRankScalable", Role::Init) },
    Row { list: 2, count: 3, ..of_comm("ncclCommShrink", Role::Shrink, 4) },
    Row { peer: 2, rank: 3, ..of_comm("ncclCommSplit", Role::Split, 4) },
    of_comm("ncclCommUserRank", Role::UserRank, 2),
    moves("ncclGather", Operation::Gather, 3, 0, 5, 6),
    moves("ncclGatherConfig", Operation::Gather, 3, 0, 5, 6),
    Row { out: 1, ..row("ncclGetUniqueId", Role::GetUniqueId) },
    row("ncclGroupEnd", Role::GroupEnd),
    row("ncclGroupStart", Role::GroupStart),
    moves("ncclRecv", Operation::Recv, 2, 0, 4, 5),
    moves("ncclReduce", Operation::Reduce, 3, 5, 6, 7),
    moves("ncclReduceConfig", Operation::Reduce, 3, 5, 6, 7),
    moves("ncclReduceScatter", Operation::ReduceScatter, 3, 5, 0, 6),
    moves("ncclReduceScatterConfig", Operation::ReduceScatter, 3, 5, 0, 6),
    moves("ncclScatter", Operation::Scatter, 3, 0, 5, 6),
    moves("ncclScatterConfig", Operation::Scatter, 3, 0, 5, 6),
    moves("ncclSend", Operation::Send, 2, 0, 4, 5),
];

/// Returns the row of a symbol or of its `pnccl` alias.
pub fn of_symbol(symbol: &str) -> Option<&'static Row> {
    let symbol = symbol.strip_prefix('p').unwrap_or(symbol);
    FUNCTIONS.binary_search_by(|row| row.symbol.cmp(symbol)).ok().map(|at| &FUNCTIONS[at])
}

/// Memory that a call's pointers refer to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallMemory {
    /// The id, passed by value or the first at a pointer, read at entry or written by the call.
    pub id: Option<Box<UniqueId>>,
    /// The `int`s that [`Row::list`] points to.
    pub list: Vec<i32>,
    /// Memory at [`Row::out`] after the return: handles or an `int`; empty if it was not read.
    pub out: Vec<u64>,
    /// Value of [`Arguments::ordinal`].
    pub ordinal: Option<u64>,
}

impl Row {
    /// Decodes a call. `argument` returns an argument by position, `stream` the stream of a handle in the calling
    /// thread. Returns `None` if a required value was not read.
    pub fn read(
        &self,
        argument: impl Fn(u8) -> u64,
        stream: impl Fn(u64) -> StreamKey,
        memory: CallMemory,
    ) -> Option<Function> {
        let at = |number: u8| if number == 0 { 0 } else { argument(number) };
        let int = |number: u8| at(number) as i32;
        let (comm, handle) = (at(self.comm), memory.out.first().copied());
        let value = handle.map(|value| value as i32);
        let out = Out { at: at(self.out), handle: handle.unwrap_or(0) };
        Some(match self.role {
            Role::Operation(operation) => Function::Operation(Arguments {
                operation,
                comm,
                stream: stream(at(self.stream)),
                count: at(self.count),
                datatype: at(self.datatype) as u32,
                reduction: at(self.reduction) as u32,
                peer: if self.peer == 0 { -1 } else { int(self.peer) },
                ordinal: memory.ordinal,
            }),
            Role::Init => {
                Function::Init { out, nranks: int(self.nranks), rank: int(self.rank), id: memory.id }
            }
            Role::InitAll => {
                Function::InitAll { handles: memory.out, count: int(self.count), devices: memory.list }
            }
            Role::GetUniqueId => Function::GetUniqueId { id: memory.id? },
            Role::Split => {
                Function::Split { parent: comm, color: int(self.peer), key: int(self.rank), child: out }
            }
            Role::Shrink => Function::Shrink {
                parent: comm,
                excluded: memory.list,
                excluded_count: int(self.count),
                child: out,
            },
            Role::Grow => {
                Function::Grow { parent: comm, nranks: int(self.nranks), rank: int(self.rank), child: out }
            }
            Role::Finalize => Function::Finalize { comm },
            Role::Destroy => Function::Destroy { comm },
            Role::Abort => Function::Abort { comm },
            Role::Count => Function::Count { comm, value: value? },
            Role::UserRank => Function::UserRank { comm, value: value? },
            Role::CuDevice => Function::CuDevice { comm, value: value? },
            Role::GroupStart => Function::GroupStart,
            Role::GroupEnd => Function::GroupEnd,
        })
    }
}

#[cfg(test)]
mod tests;
