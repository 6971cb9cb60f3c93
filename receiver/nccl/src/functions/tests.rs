//! Tests of the rows against the argument lists of nccl.h.

use super::*;

fn read(symbol: &str, memory: CallMemory) -> Option<Function> {
    let row = of_symbol(symbol).expect(symbol);
    row.read(|number| 100 + u64::from(number), |handle| StreamKey::of(1, 1, handle, false), memory)
}

#[track_caller]
fn check(symbol: &str, memory: CallMemory, expected: Function) {
    assert_eq!(read(symbol, memory), Some(expected), "{symbol}");
}

fn arguments(operation: Operation, count: u64, reduction: u32, peer: i32, comm: u64) -> Function {
    let stream = StreamKey::of(1, 1, comm + 1, false);
    let datatype = count as u32 + 1;
    Function::Operation(Arguments {
        operation,
        comm,
        stream,
        count,
        datatype,
        reduction,
        peer,
        ordinal: None,
    })
}

#[test]
fn rows_are_sorted_and_found_under_both_names() {
    assert!(FUNCTIONS.is_sorted_by(|a, b| a.symbol < b.symbol));
    for row in FUNCTIONS {
        assert_eq!(of_symbol(row.symbol), Some(row));
        assert_eq!(of_symbol(&format!("p{}", row.symbol)), Some(row));
    }
    assert_eq!(of_symbol("ncclMemAlloc"), None);
}

#[test]
fn every_argument_has_a_distinct_position() {
    for row in FUNCTIONS {
        let numbers = [
            row.comm,
            row.out,
            row.count,
            row.datatype,
            row.reduction,
            row.peer,
            row.stream,
            row.nranks,
            row.rank,
            row.list,
        ];
        let used: Vec<u8> = numbers.into_iter().filter(|n| *n != 0).collect();
        assert!(used.iter().all(|n| *n <= 9), "{}", row.symbol);
        assert!(used.iter().enumerate().all(|(at, n)| !used[..at].contains(n)), "{}", row.symbol);
    }
}

#[test]
fn operations_are_read_from_the_positions_of_nccl_h() {
    check("ncclAllReduce", CallMemory::default(), arguments(Operation::AllReduce, 103, 105, -1, 106));
    check("ncclReduceScatter", CallMemory::default(), arguments(Operation::ReduceScatter, 103, 105, -1, 106));
    check("ncclAllGather", CallMemory::default(), arguments(Operation::AllGather, 103, 0, -1, 105));
    check("ncclReduce", CallMemory::default(), arguments(Operation::Reduce, 103, 105, 106, 107));
    check("ncclBroadcast", CallMemory::default(), arguments(Operation::Broadcast, 103, 0, 105, 106));
    check("ncclBcast", CallMemory::default(), arguments(Operation::Broadcast, 102, 0, 104, 105));
    check("ncclSend", CallMemory::default(), arguments(Operation::Send, 102, 0, 104, 105));
    check("pncclRecv", CallMemory::default(), arguments(Operation::Recv, 102, 0, 104, 105));
    check("ncclGather", CallMemory::default(), arguments(Operation::Gather, 103, 0, 105, 106));
    check("ncclAllToAll", CallMemory::default(), arguments(Operation::AllToAll, 103, 0, -1, 105));
    check("ncclAlltoAll", CallMemory::default(), arguments(Operation::AllToAll, 103, 0, -1, 105));
}

#[test]
fn communicators_are_read_from_the_positions_of_nccl_h() {
    let id = || Some(Box::new([7; 128]));
    let init = |rank| Function::Init { out: Out { at: 101, handle: 9 }, nranks: 102, rank, id: id() };
    let memory = || CallMemory { id: id(), out: vec![9], ..CallMemory::default() };
    check("ncclCommInitRank", memory(), init(104));
    check("ncclCommInitRankConfig", memory(), init(104));
    check("ncclCommInitRankScalable", memory(), init(103));
    let child = Out { at: 104, handle: 9 };
    check("ncclCommSplit", memory(), Function::Split { parent: 101, color: 102, key: 103, child });
    check("ncclCommCount", memory(), Function::Count { comm: 101, value: 9 });
    assert_eq!(read("ncclCommUserRank", CallMemory::default()), None);
}

#[test]
fn every_operation_has_a_row() {
    for operation in Operation::ALL {
        let rows = || FUNCTIONS.iter().filter(|row| row.role == Role::Operation(operation));
        assert!(rows().next().is_some(), "{}", operation.name());
        assert!(rows().all(|row| (row.reduction != 0) == operation.reduces()), "{}", operation.name());
    }
}
