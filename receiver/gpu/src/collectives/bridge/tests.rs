//! Conversion of the records of each probe row.

use event::{ExitStatus, StepRecord};
use nccl::Operation;
use nccl::observe::Arguments;
use probe_abi::Library;
use probe_abi::record::flag;

use super::*;

const PROCESS: ProcessId = ProcessId { pid: 7, start_ns: 5 };

fn header(symbol: &str) -> Header {
    let row = probe_abi::PROBES.iter().find(|p| p.symbol == symbol).expect("a probed function").id;
    Header {
        row,
        pid: PROCESS.pid,
        tid: 8,
        process_start_ns: PROCESS.start_ns,
        entry_ns: 100,
        duration_ns: 5,
        ..Header::default()
    }
}

fn observed(event: &Event) -> Vec<Observation> {
    let mut all = Vec::new();
    Bridge::new().cross(event, &mut |observation| all.push(observation));
    all
}

fn functions(symbol: &str, change: impl FnOnce(&mut CallArgs)) -> Vec<Function> {
    let mut args = CallArgs { header: header(symbol), device: -1, ..CallArgs::default() };
    args.arguments = [11, 12, 13, 14, 15, 16, 17, 18];
    change(&mut args);
    let functions = observed(&Event::CallArgs(args)).into_iter().map(|o| match o {
        Observation::Call(call) => {
            let times = (call.tid, call.entry_ns, call.exit_ns());
            assert_eq!((call.process, times), (PROCESS, (8, 100, 105)));
            call.function
        }
        other => panic!("{other:?}"),
    });
    functions.collect()
}

fn key(stream: u64) -> StreamKey {
    StreamKey { pid: PROCESS.pid, tid: 0, stream }
}

#[test]
fn every_row_of_nccl_is_observed() {
    for row in probe_abi::PROBES.iter().filter(|p| p.library == Library::Nccl) {
        let written = vec![0; row.wiring.args.exit.kind.bytes(2) as usize];
        let args = CallArgs {
            header: header(row.symbol),
            entry: vec![0; 128],
            exit: written,
            ..CallArgs::default()
        };
        assert_eq!(observed(&Event::CallArgs(args)).len(), 1, "{}", row.symbol);
    }
}

#[test]
fn operation_has_its_arguments() {
    let expected = Arguments {
        operation: Operation::Reduce,
        comm: 17,
        stream: key(18),
        count: 13,
        datatype: 14,
        reduction: 15,
        peer: 16,
        ordinal: Some(19),
        is_unarmed: true,
    };
    let functions = functions("ncclReduce", |args| {
        (args.ordinal, args.header.flags) = (Some(19), flag::UNARMED);
    });
    assert_eq!(functions, [Function::Operation(expected)]);
}

/// Regression test: `ncclUniqueId` was read as a pointer, so rank, number of ranks and communicator were 0.
#[test]
fn rank_is_found_after_the_id_passed_by_value() {
    let id: UniqueId = std::array::from_fn(|at| at as u8);
    let of = |t: &mut CallArgs| (t.entry, t.exit) = (id.to_vec(), vec![0, 0x50, 0, 0, 0, 0, 0, 0]);
    let out = Out { at: 11, handle: 0x5000 };
    let made = Function::Init { out, nranks: 12, rank: 14, id: Some(Box::new(id)) };
    assert_eq!(functions("ncclCommInitRank", of), [made]);
}

#[test]
fn unreadable_memory_is_unknown() {
    let out = Out { at: 11, handle: 0 };
    let made = Function::Init { out, nranks: 12, rank: 14, id: None };
    assert_eq!(functions("ncclCommInitRankConfig", |_| {}), [made]);
    assert_eq!(functions("ncclGetUniqueId", |_| {}), []);
    assert_eq!(functions("ncclCommCount", |_| {}), []);
}

#[test]
fn lists_of_devices_and_handles_are_read_completely() {
    let words = |all: &[u64]| all.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let ints = |all: &[i32]| all.iter().flat_map(|i| i.to_le_bytes()).collect::<Vec<u8>>();
    let all = functions("ncclCommInitAll", |t| (t.entry, t.exit) = (ints(&[3, 1]), words(&[0x30, 0x31])));
    assert_eq!(all, [Function::InitAll { handles: vec![0x30, 0x31], count: 12, devices: vec![3, 1] }]);
    let child = Out { at: 14, handle: 0x40 };
    let shrunk = functions("ncclCommShrink", |t| (t.entry, t.exit) = (ints(&[5]), words(&[0x40])));
    assert_eq!(shrunk, [Function::Shrink { parent: 11, excluded: vec![5], excluded_count: 13, child }]);
}

#[test]
fn the_id_of_a_grown_communicator_is_not_a_list() {
    let grown = functions("ncclCommGrow", |t| (t.entry, t.exit) = (vec![9; 128], vec![1; 8]));
    let child = Out { at: 15, handle: 0x0101_0101_0101_0101 };
    assert_eq!(grown, [Function::Grow { parent: 11, nranks: 12, rank: 14, child }]);
}

#[test]
fn handles_written_at_the_end_of_a_group_precede_it() {
    let pairs: Vec<u8> = [0x20u64, 0x2000, 0x21, 0, 0, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let written = Function::Written(Out { at: 0x20, handle: 0x2000 });
    assert_eq!(functions("ncclGroupEnd", |t| t.exit = pairs), [written, Function::GroupEnd]);
    assert_eq!(functions("ncclGroupEnd", |_| {}), [Function::GroupEnd]);
}

#[test]
fn library_version_is_observed() {
    let version = |result| CallArgs {
        header: header("ncclGetVersion"),
        result,
        exit: 22_304u32.to_le_bytes().to_vec(),
        ..CallArgs::default()
    };
    let library = Observation::Library { process: PROCESS, version: 22_304 };
    assert_eq!(observed(&Event::CallArgs(version(0))), [library]);
    assert_eq!(observed(&Event::CallArgs(version(1))), []);
}

#[track_caller]
fn check(symbol: &str, result: u32, expected: Option<StreamAction>) {
    let record =
        CallRecord { header: header(symbol), result, handle: 0xe, stream: 0x77, ..CallRecord::default() };
    let seen = observed(&Event::Call(record)).into_iter().map(|o| match o {
        Observation::Stream(call) => call.action,
        other => panic!("{other:?}"),
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{symbol}");
}

#[test]
fn calls_that_order_streams_are_observed() {
    for library in ["cuda", "hip"] {
        let of = |name: &str| format!("{library}{name}");
        check(&of("EventRecord"), 0, Some(StreamAction::Record(0xe, key(0x77))));
        check(&of("StreamWaitEvent"), 0, Some(StreamAction::WaitEvent(key(0x77), 0xe)));
        check(&of("StreamBeginCapture"), 0, Some(StreamAction::BeginCapture(key(0x77))));
        check(&of("StreamEndCapture"), 0, Some(StreamAction::EndCapture(key(0x77))));
        check(&of("StreamDestroy"), 0, Some(StreamAction::DestroyStream(key(0x77))));
        check(&of("EventDestroy"), 0, Some(StreamAction::DestroyEvent(0xe)));
    }
    check("cuStreamSynchronize", 0, Some(StreamAction::Sync(key(0x77))));
    check("cudaEventSynchronize", 0, Some(StreamAction::EventSync(0xe)));
    check("cudaMemcpyAsync", 0, None);
    check("cudaStreamCreate", 0, None);
    check("cudaMalloc", 0, None);
    check("cudaEventRecord", 1, None);
}

/// A stream must have the same key in records of both kinds; otherwise no wait covers its collectives.
#[test]
fn per_thread_default_stream_has_one_key() {
    let args = functions("ncclAllReduce", |t| t.arguments[6] = 2);
    let Function::Operation(arguments) = &args[0] else { panic!("{args:?}") };
    let step =
        StepRecord { header: header("cudaStreamSynchronize"), stream: 8 << 32, ..StepRecord::default() };
    let [Observation::Stream(wait)] = &observed(&Event::Step(step))[..] else { panic!("a closer") };
    assert_eq!(wait.action, StreamAction::Sync(arguments.stream));
}

#[test]
fn time_loss_and_ends_are_observed() {
    let process = PROCESS;
    let (reason, status) = (DropReason::RingFull, ExitStatus::Killed(9));
    for (event, expected) in [
        (Event::Tick { at_ns: 3 }, Observation::Tick { at_ns: 3 }),
        (Event::Lost { at_ns: 3, reason, count: 2 }, Observation::Lost { at_ns: 3, count: 2 }),
        (Event::Exit { process, at_ns: 3, status }, Observation::Exit { process, at_ns: 3, status }),
    ] {
        assert_eq!(observed(&event), [expected]);
    }
    assert_eq!(observed(&Event::Lost { at_ns: 3, reason: DropReason::DurationsFull, count: 2 }), []);
    let under_way = event::UnderWay { at_ns: 9, process, tid: 8, row: 30, entry_ns: 4 };
    let expected = OngoingCall { process, tid: 8, entry_ns: 4, at_ns: 9 };
    assert_eq!(observed(&Event::UnderWay(under_way)), [Observation::OngoingCall(expected)]);
}
