//! For any observations in any order: no panic, no uncounted loss, no unbounded memory, and equal findings for equal
//! observations.

mod sim;

use event::{ExitStatus, ProcessId};
use nccl::observe::{Arguments, Environment, Function, NcclCall, OngoingCall, Out, StreamAction, StreamCall};
use nccl::{Finding, FlightRecord, Observation, Operation, Settings};
use probe_abi::record::StreamKey;
use proptest::collection::vec;
use proptest::prelude::*;
use sim::{S, US, Watch, allocated_bytes, unique_id};

fn process() -> impl Strategy<Value = ProcessId> {
    (1000u32..1004, 1u64..3).prop_map(|(pid, start_ns)| ProcessId { pid, start_ns })
}

fn handle() -> impl Strategy<Value = u64> {
    0u64..5
}

fn stream() -> impl Strategy<Value = StreamKey> {
    (0u32..3, 0u64..4).prop_map(|(tid, handle)| StreamKey::of(1000, tid, handle, tid == 2))
}

fn out() -> impl Strategy<Value = Out> {
    (0u64..3, handle()).prop_map(|(at, handle)| Out { at, handle })
}

fn operation() -> impl Strategy<Value = Function> {
    let ordinal = prop_oneof![Just(None), (0u64..50).prop_map(Some), any::<u64>().prop_map(Some)];
    let parts = (
        0u8..10,
        handle(),
        stream(),
        any::<u64>(),
        0u32..14,
        -2i32..5,
        ordinal,
        proptest::bool::weighted(0.1),
    );
    parts.prop_map(|(number, comm, stream, count, datatype, peer, ordinal, is_unarmed)| {
        let operation = Operation::from_number(number).expect("below ten");
        Function::Operation(Arguments {
            operation,
            comm,
            stream,
            count,
            datatype,
            reduction: 0,
            peer,
            ordinal,
            is_unarmed,
        })
    })
}

fn function() -> impl Strategy<Value = Function> {
    let small = -1i32..5;
    let init = (out(), small.clone(), small.clone(), proptest::option::of(0u8..3)).prop_map(
        |(out, nranks, rank, id)| Function::Init {
            out,
            nranks,
            rank,
            id: id.map(|id| Box::new(unique_id(id))),
        },
    );
    let all = (vec(handle(), 0..4), small.clone(), vec(small.clone(), 0..3))
        .prop_map(|(handles, count, devices)| Function::InitAll { handles, count, devices });
    let split = (handle(), small.clone(), any::<i32>(), out())
        .prop_map(|(parent, color, key, child)| Function::Split { parent, color, key, child });
    let shrink = (handle(), vec(small.clone(), 0..3), small.clone(), out()).prop_map(
        |(parent, excluded, excluded_count, child)| Function::Shrink {
            parent,
            excluded,
            excluded_count,
            child,
        },
    );
    let grow = (handle(), small.clone(), small.clone(), out())
        .prop_map(|(parent, nranks, rank, child)| Function::Grow { parent, nranks, rank, child });
    let property = (handle(), any::<i32>(), 0..3).prop_map(|(comm, value, which)| match which {
        0 => Function::Count { comm, value },
        1 => Function::UserRank { comm, value },
        _ => Function::CuDevice { comm, value },
    });
    let end = (handle(), 0..3).prop_map(|(comm, which)| match which {
        0 => Function::Destroy { comm },
        1 => Function::Abort { comm },
        _ => Function::Finalize { comm },
    });
    prop_oneof![
        20 => operation(),
        4 => init,
        1 => all,
        2 => split,
        1 => shrink,
        1 => grow,
        2 => property,
        2 => end,
        1 => out().prop_map(Function::Written),
        1 => (0u8..3).prop_map(|id| Function::GetUniqueId { id: Box::new(unique_id(id)) }),
        3 => Just(Function::GroupStart),
        4 => Just(Function::GroupEnd),
    ]
}

fn action() -> impl Strategy<Value = StreamAction> {
    (stream(), 0u64..4, any::<u64>(), 0..10).prop_map(|(stream, event, at_ns, which)| match which {
        0 => StreamAction::Sync(stream),
        1 => StreamAction::EventSync(event),
        2 => StreamAction::SyncUntil(stream, at_ns),
        3 => StreamAction::DeviceSync,
        4 => StreamAction::Record(event, stream),
        5 => StreamAction::WaitEvent(stream, event),
        6 => StreamAction::BeginCapture(stream),
        7 => StreamAction::EndCapture(stream),
        8 => StreamAction::DestroyStream(stream),
        _ => StreamAction::DestroyEvent(event),
    })
}

/// Returns instants that are usually a few milliseconds apart and occasionally anywhere in time.
fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![30 => S..20 * S, 1 => any::<u64>()]
}

fn observation() -> impl Strategy<Value = Observation> {
    let duration = prop_oneof![20 => 0..1000 * US, 1 => any::<u64>()];
    let result = prop_oneof![9 => Just(0u32), 1 => Just(7u32), 1 => 1u32..6];
    let call = (process(), 0u32..3, instant(), duration.clone(), result, -1i32..9, function()).prop_map(
        |(process, tid, entry_ns, duration_ns, result, device, function)| {
            Observation::Call(NcclCall { process, tid, entry_ns, duration_ns, result, device, function })
        },
    );
    let stream = (process(), 0u32..3, instant(), duration, action()).prop_map(
        |(process, tid, entry_ns, duration_ns, action)| {
            Observation::Stream(StreamCall { process, tid, entry_ns, duration_ns, action })
        },
    );
    let rare =
        (process(), instant(), 0u32..4, 0..5).prop_map(|(process, at_ns, number, which)| match which {
            0 => Observation::Exit { process, at_ns, status: ExitStatus::of_wait(number) },
            1 => Observation::Lost { at_ns, count: u64::from(number) },
            2 => Observation::OngoingCall(OngoingCall { process, tid: 0, entry_ns: at_ns / 2, at_ns }),
            3 => Observation::Library { process, version: number * 10_000 },
            _ => {
                let (rank, world_size) = (Some(number), Some(3));
                Observation::Environment(Environment { process, rank, world_size, job: 5 })
            }
        });
    let tick = instant().prop_map(|at_ns| Observation::Tick { at_ns });
    prop_oneof![20 => call, 8 => stream, 1 => rare, 2 => tick]
}

fn small() -> Settings {
    Settings {
        members_max: 8,
        processes_max: 4,
        threads_max: 4,
        group_calls_max: 4,
        streams_max: 4,
        pending_max: 4,
        events_max: 3,
        rounds_max: 4,
        hang_timeout_ns: S,
        recorder_last: 4,
        ..Settings::default()
    }
}

fn findings(observations: &[Observation], settings: Settings) -> Watch {
    let mut watch = Watch::new(settings);
    observations.iter().for_each(|o| watch.see(o.clone()));
    watch.finish();
    watch
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_operation_is_accounted_for_and_memory_is_bounded(observations in vec(observation(), 0..400)) {
        for settings in [Settings::default(), small()] {
            let watch = findings(&observations, settings);
            watch.check_balance();
            let tally = watch.engine.tally();
            prop_assert_eq!(tally.joined - tally.left, watch.engine.ranks().count() as u64);
            let enqueued = watch.count(|f| matches!(f, Finding::Enqueued(_))) as u64;
            prop_assert_eq!(enqueued, tally.operations + tally.captured);
            let reported = watch.count(|f| matches!(f, Finding::Completed(_))) as u64;
            prop_assert_eq!(reported + tally.waits_unarmed, tally.completed);
            let before = allocated_bytes();
            drop(watch.engine);
            let bytes = before - allocated_bytes();
            prop_assert!(bytes < 2 << 20, "{bytes}");
        }
        let tight = findings(&observations, small());
        prop_assert!(tight.engine.ranks().count() <= 8 && tight.engine.sizes().1 <= 4);
    }

    #[test]
    fn the_same_observations_give_the_same_findings(observations in vec(observation(), 0..200)) {
        let (a, b) = (findings(&observations, small()), findings(&observations, small()));
        prop_assert_eq!(a.findings, b.findings);
    }

    #[test]
    fn flight_records_decode_to_what_was_encoded(observations in vec(observation(), 0..200)) {
        let mut watch = findings(&observations, Settings::default());
        for process in watch.engine.take_changed() {
            let Some(record) = watch.engine.flight_record(process) else { continue };
            prop_assert_eq!(FlightRecord::decode(&record.encode()), Ok(record.clone()));
            let mut again = Watch::new(small());
            again.engine.restore(&record, &mut Vec::new());
            prop_assert!(again.engine.ranks().count() <= record.ranks.len());
        }
    }

    #[test]
    fn hostile_bytes_are_rejected_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(FlightRecord::decode(&bytes).is_err());
        // Hostile fields with a valid header and checksum.
        let _ = FlightRecord::decode(&nccl::record::FORMAT.seal(&bytes));
    }
}
