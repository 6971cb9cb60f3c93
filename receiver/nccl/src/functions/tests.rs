//! Tests of the rows against the argument lists of nccl.h.

use probe_abi::{Library, PROBES, Probe};

use super::*;
use crate::Operation;

fn functions() -> impl Iterator<Item = &'static Probe> {
    PROBES.iter().filter(|probe| probe.library == Library::Nccl)
}

fn read(symbol: &str, memory: CallMemory) -> Option<Function> {
    let probe = functions().find(|probe| probe.symbol == symbol).expect(symbol);
    super::read(
        &probe.wiring.args,
        |number| 100 + u64::from(number),
        |handle| StreamKey::of(1, 1, handle, false),
        memory,
    )
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
        is_unarmed: false,
    })
}

#[test]
fn every_argument_has_a_distinct_position() {
    for probe in functions() {
        let args = &probe.wiring.args;
        let datatype = if args.elements == ArgPos::NONE { 0 } else { args.elements.0 + 1 };
        let positions = [
            args.comm,
            args.exit.arg,
            args.entry.arg,
            args.count,
            args.elements,
            ArgPos(datatype),
            args.reduction,
            args.peer,
            args.stream,
            args.nranks,
            args.rank,
        ];
        let used: Vec<u8> = positions.into_iter().filter(|p| *p != ArgPos::NONE).map(|p| p.0).collect();
        assert!(used.iter().all(|n| *n <= args.arguments), "{}", probe.symbol);
        assert!(used.iter().enumerate().all(|(at, n)| !used[..at].contains(n)), "{}", probe.symbol);
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
    check("ncclRecv", CallMemory::default(), arguments(Operation::Recv, 102, 0, 104, 105));
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
        let rows = || functions().filter(|p| p.wiring.args.role == Some(Role::Operation(operation)));
        assert!(rows().next().is_some(), "{}", operation.name());
        let reduces = |p: &Probe| p.wiring.args.reduction != ArgPos::NONE;
        assert!(rows().all(|p| reduces(p) == operation.reduces()), "{}", operation.name());
    }
}
