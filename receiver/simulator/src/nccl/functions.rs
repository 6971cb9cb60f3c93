// The functions of libnccl: symbol, arguments as nccl.h 2.32 and rccl.h have them, and what the stub does. The macro
// `nccl_functions!` makes exported functions of it in the library, and the table of prototypes in the simulator.

nccl_functions! {
    collectives {
        ncclAllGather(Word, Word, Word, Int);
        ncclAllGatherConfig(Word, Word, Word, Int; Word);
        ncclAllReduce(Word, Word, Word, Int, Int);
        ncclAllReduceConfig(Word, Word, Word, Int, Int; Word);
        ncclAllToAll(Word, Word, Word, Int);
        ncclAlltoAll(Word, Word, Word, Int);
        ncclAlltoAllConfig(Word, Word, Word, Int; Word);
        ncclBroadcast(Word, Word, Word, Int, Int);
        ncclBroadcastConfig(Word, Word, Word, Int, Int; Word);
        ncclGather(Word, Word, Word, Int, Int);
        ncclGatherConfig(Word, Word, Word, Int, Int; Word);
        ncclReduce(Word, Word, Word, Int, Int, Int);
        ncclReduceConfig(Word, Word, Word, Int, Int, Int; Word);
        ncclReduceScatter(Word, Word, Word, Int, Int);
        ncclReduceScatterConfig(Word, Word, Word, Int, Int; Word);
        ncclScatter(Word, Word, Word, Int, Int);
        ncclScatterConfig(Word, Word, Word, Int, Int; Word);
    }

    ncclBcast(buffer: Word, count: Word, datatype: Int, root: Int, comm: Word, stream: Word) {
        // A call, not a jump, as in the real library.
        // SAFETY: the caller's promise.
        black_box(unsafe { ncclBroadcast(buffer, buffer, count, datatype, root, comm, stream) })
    }
    ncclSend(_buffer: Word, _count: Word, _datatype: Int, peer: Int, comm: Word, stream: Word) {
        call::operation(comm, stream, OperationKind::Send(peer as usize))
    }
    ncclRecv(_buffer: Word, _count: Word, _datatype: Int, peer: Int, comm: Word, stream: Word) {
        call::operation(comm, stream, OperationKind::Recv(peer as usize))
    }
    ncclGroupStart() {
        call::group_start()
    }
    ncclGroupEnd() {
        call::group_end()
    }
    ncclCommInitRank(out: OutHandle, nranks: Int, id: Id, rank: Int) {
        call::init(out, nranks, &id, rank)
    }
    ncclCommInitRankConfig(out: OutHandle, nranks: Int, id: Id, rank: Int, _config: Word) {
        call::init(out, nranks, &id, rank)
    }
    ncclCommInitRankScalable(out: OutHandle, nranks: Int, rank: Int, _ids: Int, ids: IdPointer, _config: Word) {
        // SAFETY: by the prototype at least one id.
        call::init(out, nranks, unsafe { &*ids }, rank)
    }
    ncclCommInitAll(out: OutHandles, count: Count, devices: Ints) {
        if let Some(result) = call::begin() {
            return result;
        }
        let mut id = NcclId([0; 128]);
        // SAFETY: a live id.
        unsafe { ncclGetUniqueId(&mut id) };
        call::init_all(out, count, devices, &id)
    }
    ncclCommSplit(parent: Word, color: Int, key: Int, out: OutHandle, _config: Word) {
        call::split(parent, color, key, out)
    }
    ncclCommShrink(parent: Word, excluded: Ints, count: Count, out: OutHandle, _config: Word, _flags: Int) {
        // SAFETY: by the prototype a list of this length.
        call::shrink(parent, unsafe { std::slice::from_raw_parts(excluded, count.max(0) as usize) }, out)
    }
    ncclCommGrow(parent: Word, nranks: Int, _id: IdPointer, rank: Int, out: OutHandle, _config: Word) {
        call::grow(parent, nranks, rank, out)
    }
    ncclCommFinalize(_comm: Word) {
        call::begin().unwrap_or(SUCCESS)
    }
    ncclCommDestroy(comm: Word) {
        call::end(comm, false)
    }
    ncclCommAbort(comm: Word) {
        call::end(comm, true)
    }
    ncclCommCount(comm: Word, into: OutInt) {
        call::query(comm, into, UNKNOWN_COMM[0], |comm| comm.nranks)
    }
    ncclCommUserRank(comm: Word, into: OutInt) {
        call::query(comm, into, UNKNOWN_COMM[1], |comm| comm.rank)
    }
    ncclCommCuDevice(comm: Word, into: OutInt) {
        call::query(comm, into, UNKNOWN_COMM[2], |comm| comm.device)
    }
    ncclGetUniqueId(into: OutId) {
        if let Some(result) = call::begin() {
            return result;
        }
        // SAFETY: by the prototype a pointer to an id.
        unsafe { *into = comm::new_id() };
        SUCCESS
    }
    ncclGetVersion(into: OutInt) {
        // SAFETY: by the prototype a pointer to an int.
        unsafe { *into = VERSION };
        SUCCESS
    }
}
