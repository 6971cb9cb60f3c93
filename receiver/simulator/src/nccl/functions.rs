// The exported functions of libnccl, put at the root of the library by the build script: see `nccl::exports`.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use model::order::Order;
use nccl::abi::{SUCCESS, UniqueId, VERSION};
use nccl::call::{self, Kind};
use nccl::{board, comm, streams};

type Buffer = *const c_void;
type Out = *mut u64;
type Config = *const c_void;

nccl_exports! {
    ncclAllReduce(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclReduceScatter(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclAllGather(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclReduce(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, _root: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclBroadcast(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclBcast(buffer: Buffer, count: usize, datatype: c_int, root: c_int, comm: u64, stream: u64) {
        // As the real one does: a call, not a jump.
        // SAFETY: the caller's promise.
        black_box(unsafe { ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream) })
    }
    ncclSend(_s: Buffer, _n: usize, _t: c_int, peer: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Send(peer as usize))
    }
    ncclRecv(_r: Buffer, _n: usize, _t: c_int, peer: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Recv(peer as usize))
    }
    ncclAllToAll(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclAlltoAll(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclGather(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclScatter(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclAllReduceConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclReduceScatterConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclAllGatherConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclReduceConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _op: c_int, _root: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclBroadcastConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclAlltoAllConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclGatherConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclScatterConfig(_s: Buffer, _r: Buffer, _n: usize, _t: c_int, _root: c_int, comm: u64, stream: u64, _c: Config) {
        call::operation(comm, stream, Kind::Collective)
    }
    ncclGroupStart() {
        call::group_start()
    }
    ncclGroupEnd() {
        call::group_end()
    }
    ncclCommInitRank(out: Out, nranks: c_int, id: UniqueId, rank: c_int) {
        call::init(out, nranks, &id, rank)
    }
    ncclCommInitRankConfig(out: Out, nranks: c_int, id: UniqueId, rank: c_int, _config: Config) {
        call::init(out, nranks, &id, rank)
    }
    ncclCommInitRankScalable(out: Out, nranks: c_int, rank: c_int, _ids: c_int, ids: *const UniqueId, _config: Config) {
        // SAFETY: by the prototype at least one id.
        call::init(out, nranks, unsafe { &*ids }, rank)
    }
    ncclCommInitAll(out: Out, count: c_int, devices: *const c_int) {
        if let Some(result) = call::begin() {
            return result;
        }
        let mut id = UniqueId([0; 128]);
        // SAFETY: a live id.
        unsafe { ncclGetUniqueId(&mut id) };
        call::init_all(out, count, devices, &id)
    }
    ncclCommSplit(parent: u64, color: c_int, key: c_int, out: Out, _config: Config) {
        call::split(parent, color, key, out)
    }
    ncclCommShrink(parent: u64, excluded: *const c_int, count: c_int, out: Out, _config: Config, _flags: c_int) {
        // SAFETY: by the prototype so many ranks.
        call::shrink(parent, unsafe { std::slice::from_raw_parts(excluded, count.max(0) as usize) }, out)
    }
    ncclCommGrow(parent: u64, nranks: c_int, _id: *const UniqueId, rank: c_int, out: Out, _config: Config) {
        call::grow(parent, nranks, rank, out)
    }
    ncclCommFinalize(_comm: u64) {
        call::begin().unwrap_or(SUCCESS)
    }
    ncclCommDestroy(comm: u64) {
        call::end(comm, false)
    }
    ncclCommAbort(comm: u64) {
        call::end(comm, true)
    }
    ncclCommCount(comm: u64, into: *mut c_int) {
        call::ask(comm, into, 0, |comm| comm.nranks)
    }
    ncclCommUserRank(comm: u64, into: *mut c_int) {
        call::ask(comm, into, 1, |comm| comm.rank)
    }
    ncclCommCuDevice(comm: u64, into: *mut c_int) {
        call::ask(comm, into, 2, |comm| comm.device)
    }
    ncclGetUniqueId(into: *mut UniqueId) {
        if let Some(result) = call::begin() {
            return result;
        }
        // SAFETY: by the prototype a pointer to where the caller wants the id.
        unsafe { *into = comm::new_id() };
        SUCCESS
    }
    ncclGetVersion(into: *mut c_int) {
        // SAFETY: by the prototype a pointer to where the caller wants the number.
        unsafe { *into = VERSION };
        SUCCESS
    }
    warptap_stub_next(order: *const Order) {
        // SAFETY: the player's promise: it points to an order.
        model::order::set_next(unsafe { *order });
        SUCCESS
    }
    warptap_stub_lenient(on: c_int) {
        comm::set_lenient(on != 0);
        SUCCESS
    }
    warptap_stub_board(path: *const c_char) {
        // SAFETY: the player's promise: a NUL-terminated string.
        let path = unsafe { CStr::from_ptr(path) };
        c_int::from(board::join(Path::new(OsStr::from_bytes(path.to_bytes()))).is_err())
    }
    warptap_stub_capturing(stream: u64, on: c_int) {
        streams::streams().set_capturing(stream, on != 0);
        SUCCESS
    }
    warptap_stub_record(event: u64, stream: u64) {
        streams::streams().record(event, stream);
        SUCCESS
    }
    warptap_stub_wait_stream(stream: u64) {
        streams::wait_for_stream(stream);
        SUCCESS
    }
    warptap_stub_completed(comm: u64, out: Out) {
        let entry = comm::comms().get(comm).and_then(|comm| comm.entry);
        // SAFETY: the player gives the address of a word.
        unsafe { *out = entry.map_or(0, |entry| entry.work.completed_ns()) };
        SUCCESS
    }
    warptap_stub_wait_event(event: u64) {
        streams::wait_for_event(event);
        SUCCESS
    }
}
