//! No recording causes a panic or exceeds the memory bounds.

mod common;

use common::*;
use event::{
    Account, CallArgs, CallRecord, ClockOffsets, Event, ExitStatus, LauncherEnv, OperationTotal, Overhead,
    ProcessId, ProcessInfo, StepRecord, UnderWay,
};
use gpu::Settings;
use probe_abi::counters::DropReason;
use probe_abi::record::{CountParts, Header};
use proptest::prelude::*;

/// Generates ordinary and extreme numbers.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        0..1_000u64,
        0..20 * SECOND,
        Just(u64::MAX - 1),
        Just(u64::MAX),
        any::<u64>()
    ]
}

fn process() -> impl Strategy<Value = ProcessId> {
    (0..4u32, 0..2u64).prop_map(|(pid, start_ns)| ProcessId { pid, start_ns })
}

fn header() -> impl Strategy<Value = Header> {
    (process(), 0..260u16, number(), number(), any::<u32>()).prop_map(
        |(p, row, entry_ns, duration_ns, flags)| {
            let (pid, process_start_ns) = (p.pid, p.start_ns);
            Header { row, flags, pid, process_start_ns, entry_ns, duration_ns, ..Header::default() }
        },
    )
}

fn step() -> impl Strategy<Value = Event> {
    (header(), proptest::collection::vec(number(), 32)).prop_map(|(header, n)| {
        let mut record = StepRecord { header, stream: n[0], sequence: n[1], ..StepRecord::default() };
        (record.previous_exit_ns, record.first_ns, record.recorded_ns) = (n[2], n[3], n[4]);
        record.run_queue = CountParts { gap: n[5], enqueue: n[6], wait: n[7] };
        (record.enqueued_since_sync, record.process_enqueued_since_sync, record.device) =
            (n[8], n[9], n[10] as i32);
        record.work.iter_mut().zip(&n[11..]).for_each(|(work, n)| *work = *n);
        Event::Step(record)
    })
}

fn call() -> impl Strategy<Value = Event> {
    (header(), any::<u32>(), number(), number(), number()).prop_map(
        |(header, result, handle, bytes, stream)| {
            let result = if result % 2 == 0 { 0 } else { result % 1_100 };
            Event::Call(CallRecord { header, result, device: -1, handle, bytes, stream })
        },
    )
}

/// Generates calls of NCCL, mostly with few handles of few processes, so that they are related.
fn call_args() -> impl Strategy<Value = Event> {
    let word = || prop_oneof![4 => 0..4u64, 1 => number()];
    let memory = || {
        prop_oneof![
            Just(Vec::new()),
            word().prop_map(|word| word.to_le_bytes().to_vec()),
            any::<u8>().prop_map(|byte| vec![byte % 2; 128]),
            proptest::collection::vec(any::<u8>(), 0..260),
        ]
    };
    let parts = (header(), 190..234u16, proptest::collection::vec(word(), 8), 0..9u32, any::<i32>());
    (parts, memory(), memory()).prop_map(|((header, row, words, result, device), entry, exit)| {
        let mut args = CallArgs { header, result: result / 8, device, entry, exit, ..CallArgs::default() };
        args.header.row = row;
        args.arguments.iter_mut().zip(words).for_each(|(argument, word)| *argument = word);
        Event::CallArgs(args)
    })
}

fn total() -> impl Strategy<Value = Event> {
    let buckets = proptest::collection::vec((any::<i32>(), number()), 0..4);
    (process(), 0..260u16, proptest::collection::vec(number(), 8), buckets).prop_map(
        |(process, row, n, buckets)| {
            let (calls, returned, errors) = (n[1], n[2], n[3]);
            let (sum_ns, max_ns, zero_count, at_ns) = (n[4], n[5], n[6], n[0]);
            let total = OperationTotal {
                at_ns,
                process,
                row,
                calls,
                returned,
                errors,
                sum_ns,
                max_ns,
                zero_count,
                buckets,
                unobserved: n[7],
            };
            Event::Operation(Box::new(total))
        },
    )
}

fn event() -> impl Strategy<Value = Event> {
    let offsets = (number(), any::<i64>());
    prop_oneof![
        6 => step(),
        3 => call(),
        6 => call_args(),
        1 => (process(), number(), number(), 0..260u16).prop_map(|(process, at_ns, entry_ns, row)| {
            Event::UnderWay(UnderWay { at_ns, process, tid: process.pid, row, entry_ns })
        }),
        1 => (process(), number(), ".{0,9}").prop_map(|(process, at_ns, value)| {
            let variables = ["MASTER_ADDR", "RANK", "WORLD_SIZE"].map(|name| (name.to_owned(), value.clone()));
            Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns, variables: variables.to_vec() }))
        }),
        3 => total(),
        1 => (process(), number(), any::<u32>()).prop_map(|(process, at_ns, status)| {
            Event::Exit { process, at_ns, status: ExitStatus::of_wait(status) }
        }),
        1 => (process(), number(), ".{0,40}").prop_map(|(process, at_ns, text)| {
            let attributes = vec![(text.clone(), text.clone())];
            let command = vec![text.clone(), text.clone()];
            let info = ProcessInfo { process, at_ns, executable: text, command, attributes, ..Default::default() };
            Event::Process(Box::new(info))
        }),
        1 => offsets.prop_map(|(at_ns, to_unix_ns)| {
            Event::Clock(ClockOffsets { at_ns, to_unix_ns, to_boottime_ns: 0 })
        }),
        1 => number().prop_map(|at_ns| Event::Tick { at_ns }),
        1 => (number(), number()).prop_map(|(at_ns, count)| {
            Event::Lost { at_ns, reason: DropReason::RingFull, count }
        }),
        1 => (process(), number(), any::<f64>()).prop_map(|(process, at_ns, share)| {
            Event::Overhead(Box::new(Overhead { at_ns, process, share, attached: [share; 3] }))
        }),
        1 => proptest::collection::vec(number(), 8).prop_map(|n| {
            let account = Account { at_ns: n[0], hits: n[1], runs: n[2], run_cost_ns: n[3], ..Account::default() };
            Event::Account(Box::new(account))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_recording_breaks_the_analysis(events in proptest::collection::vec(event(), 0..60)) {
        let mut settings = Settings { processes_max: 3, ..Settings::default() };
        settings.collectives.communicators_max = 2;
        settings.collectives.engine.trace.rate = 0.5;
        let output = analysed(&events, settings.clone());
        let bytes: usize = output.bytes().iter().map(Vec::len).sum();
        prop_assert!(bytes < 4 << 20, "{bytes} bytes of {} events", events.len());
        prop_assert!(read_in_batches(&events, 3, settings).bytes() == output.bytes());
    }
}
