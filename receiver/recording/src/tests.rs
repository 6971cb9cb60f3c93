//! Recordings under truncation and damage: every event is restored, or the damage is located.

use std::array::from_fn;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::fold::COUNTERS;
use probe_abi::function::{SIGNATURE, Signature};
use probe_abi::record::{CallRecord, CountParts, Header, StepRecord};
use proptest::prelude::*;

use super::codec::{Encoder, Field as _};
use super::frames::{self, kind};
use super::*;
use event::{
    Account, CallArgs, Clocks, Device, Event, EventSource, ExitStatus, FileCounts, FunctionRecord,
    FunctionTotal, GpuFunction, LauncherEnv, OperationTotal, Overhead, ProcessId, ProcessInfo,
    ThrottleReason, ThrottleTime, TraceContext, UnderWay,
};

fn info() -> Info {
    Info::here("0.1.0", ClockOffsets { at_ns: 5, to_unix_ns: 7, to_boottime_ns: -3 })
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), &info()).unwrap();
    for event in events {
        writer.write(event).unwrap();
    }
    writer.finish().unwrap()
}

/// Returns all events of a reader, and the error that ended it.
fn read(bytes: &[u8]) -> (Vec<Event>, Option<RecordingError>) {
    let mut events = Vec::new();
    let result = Reader::open(bytes).and_then(|mut reader| {
        while reader.read(&mut events)? {}
        Ok(())
    });
    (events, result.err())
}

fn process() -> impl Strategy<Value = ProcessId> {
    any::<(u32, u64)>().prop_map(|(pid, start_ns)| ProcessId { pid, start_ns })
}

fn header() -> impl Strategy<Value = Header> {
    (any::<(u16, u16, u32, u32, u32)>(), any::<[u64; 3]>()).prop_map(|((kind, row, flags, pid, tid), t)| {
        Header { kind, row, flags, pid, tid, process_start_ns: t[0], entry_ns: t[1], duration_ns: t[2] }
    })
}

fn step() -> impl Strategy<Value = Event> {
    (header(), any::<[u64; 10]>(), any::<(u32, i32)>(), any::<([u64; COUNTERS], [u64; SIGNATURE])>())
        .prop_map(|(header, n, (first_tid, device), (work, signature))| {
            Event::Step(StepRecord {
                header,
                stream: n[0],
                sequence: n[1],
                previous_exit_ns: n[2],
                first_ns: n[3],
                recorded_ns: n[4],
                run_queue: CountParts { gap: n[5], enqueue: n[6], wait: n[7] },
                enqueued_since_sync: n[8],
                process_enqueued_since_sync: n[9],
                first_tid,
                device,
                work,
                signature: Signature(signature),
                ..StepRecord::default()
            })
        })
}

fn function() -> impl Strategy<Value = Event> {
    let texts = [".{0,40}", ".{0,20}"];
    (process(), any::<(u64, u32, u64)>(), texts).prop_map(
        |(process, (at_ns, ordinal, offset), [symbol, module])| {
            Event::Function(Box::new(GpuFunction { process, at_ns, ordinal, symbol, module, offset }))
        },
    )
}

fn launch() -> impl Strategy<Value = Event> {
    (header(), any::<([u64; 3], [u32; 2], [[u32; 3]; 2])>()).prop_map(
        |(header, ([address, stream, launches], [ordinal, shared_bytes], [grid, block]))| {
            Event::Launch(FunctionRecord {
                header,
                address,
                stream,
                launches,
                ordinal,
                shared_bytes,
                grid,
                block,
            })
        },
    )
}

fn function_total() -> impl Strategy<Value = Event> {
    (process(), any::<(u64, u32, u64)>()).prop_map(|(process, (at_ns, ordinal, launches))| {
        Event::FunctionTotal(FunctionTotal { at_ns, process, ordinal, launches })
    })
}

fn call() -> impl Strategy<Value = Event> {
    (header(), any::<(u32, i32, u64, u64, u64)>()).prop_map(
        |(header, (result, device, handle, bytes, stream))| {
            Event::Call(CallRecord { header, result, device, handle, bytes, stream })
        },
    )
}

fn args() -> impl Strategy<Value = Event> {
    let memory = || prop::collection::vec(any::<u8>(), 0..600);
    (header(), any::<(u32, i32, [u64; 8], Option<u64>)>(), memory(), memory()).prop_map(
        |(header, (result, device, arguments, ordinal), entry, exit)| {
            Event::CallArgs(CallArgs { header, result, device, arguments, entry, exit, ordinal })
        },
    )
}

fn context() -> impl Strategy<Value = Event> {
    (header(), any::<([u8; 16], [u8; 8], u8)>()).prop_map(|(header, (trace_id, span_id, trace_flags))| {
        Event::Context(TraceContext { header, trace_id, span_id, trace_flags })
    })
}

fn launcher() -> impl Strategy<Value = Event> {
    let variables = prop::collection::vec(("[A-Z_]{1,9}", ".{0,9}"), 0..4);
    (process(), any::<u64>(), variables).prop_map(|(process, at_ns, variables)| {
        Event::LauncherEnv(Box::new(LauncherEnv { process, at_ns, variables }))
    })
}

fn under_way() -> impl Strategy<Value = Event> {
    (process(), any::<(u64, u32, u16, u64)>()).prop_map(|(process, (at_ns, tid, row, entry_ns))| {
        Event::UnderWay(UnderWay { at_ns, process, tid, row, entry_ns })
    })
}

fn device() -> impl Strategy<Value = Event> {
    let processes = prop::collection::vec(any::<u32>(), 0..9);
    (any::<(u64, u32)>(), [".{0,40}", ".{0,20}"], processes).prop_map(
        |((at_ns, index), [id, pci], processes)| {
            Event::Device(Box::new(Device { at_ns, index, id, pci, processes }))
        },
    )
}

fn clocks() -> impl Strategy<Value = Event> {
    let held = (0..ThrottleReason::ALL.len(), any::<(u64, bool)>());
    let held = held.prop_map(|(at, (ns, is_counted))| ThrottleTime {
        reason: ThrottleReason::ALL[at],
        ns,
        is_counted,
    });
    (any::<(u64, u64, u32)>(), prop::collection::vec(held, 0..9)).prop_map(
        |((from_ns, to_ns, device), held)| Event::Clocks(Clocks { from_ns, to_ns, device, throttled: held }),
    )
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(".{0,20}", 0..5)
}

fn described() -> impl Strategy<Value = Event> {
    let names = [".{0,30}", "[a-z/]{0,30}", "[0-9a-f]{0,64}"];
    let attributes = prop::collection::vec((".{0,9}", ".{0,9}"), 0..4);
    (process(), any::<[u64; 2]>(), names, texts(), attributes, texts(), texts()).prop_map(
        |(
            process,
            [at_ns, unobserved_ns],
            [executable, executable_path, container_id],
            command,
            attributes,
            observed,
            gaps,
        )| {
            Event::Process(Box::new(ProcessInfo {
                process,
                at_ns,
                executable,
                executable_path,
                command,
                container_id,
                attributes,
                observed,
                gaps,
                since_unix_ns: 0,
                unobserved_ns,
            }))
        },
    )
}

fn operation() -> impl Strategy<Value = Event> {
    let buckets = prop::collection::vec(any::<(i32, u64)>(), 0..160);
    (process(), any::<u16>(), any::<[u64; 8]>(), buckets).prop_map(|(process, row, n, buckets)| {
        Event::Operation(Box::new(OperationTotal {
            at_ns: n[0],
            process,
            row,
            calls: n[1],
            returned: n[2],
            errors: n[3],
            sum_ns: n[4],
            max_ns: n[5],
            zero_count: n[6],
            buckets,
            unobserved: n[7],
        }))
    })
}

fn overhead() -> impl Strategy<Value = Event> {
    (process(), any::<u64>(), 0.0..1.0f64, any::<[u16; 3]>()).prop_map(|(process, at_ns, share, attached)| {
        let attached = attached.map(|part| 1.0 / f64::from(part));
        Event::Overhead(Box::new(Overhead { at_ns, process, share, attached }))
    })
}

fn account() -> impl Strategy<Value = Event> {
    let counts =
        (any::<[u64; 11]>(), any::<[u64; DropReason::ALL.len()]>(), any::<[u64; SelfCounter::ALL.len()]>());
    counts.prop_map(|(n, dropped, other)| {
        Event::Account(Box::new(Account {
            at_ns: n[0],
            hits: n[1],
            folded: n[2],
            delivered: n[3],
            sampled_out: n[4],
            dropped,
            other,
            records: n[5],
            received: n[6],
            runs: n[7],
            run_cost_ns: n[8],
            libraries: n[9],
            functions: n[10],
            since_unix_ns: 0,
        }))
    })
}

fn event() -> impl Strategy<Value = Event> {
    let lost = (any::<u64>(), prop::sample::select(&DropReason::ALL[..]), any::<u64>());
    prop_oneof![
        any::<(u64, i64, i64)>().prop_map(|(at_ns, to_unix_ns, to_boottime_ns)| {
            Event::Clock(ClockOffsets { at_ns, to_unix_ns, to_boottime_ns })
        }),
        described(),
        (process(), any::<u64>(), any::<u32>()).prop_map(|(process, at_ns, status)| {
            Event::Exit { process, at_ns, status: ExitStatus::of_wait(status) }
        }),
        step(),
        call(),
        args(),
        context(),
        under_way(),
        device(),
        clocks(),
        launcher(),
        operation(),
        overhead(),
        function(),
        launch(),
        function_total(),
        account(),
        any::<(u64, u32, u64)>().prop_map(|(at_ns, pid, mapped_ns)| Event::Armed { at_ns, pid, mapped_ns }),
        any::<(u64, bool, u64, u64)>().prop_map(|(at_ns, follows_mappings, mappings_lost, unreached)| {
            Event::Discovery { at_ns, follows_mappings, mappings_lost, unreached }
        }),
        any::<(u64, [u64; 3])>().prop_map(|(at_ns, [excluded, discarded, unfiltered])| {
            Event::Selection { at_ns, excluded, discarded, unfiltered }
        }),
        any::<(u64, [u64; 8], [u64; 3], [u64; 2])>().prop_map(|(at_ns, refused, evicted, rest)| {
            let [postponed, unanswered] = rest;
            Event::Files { at_ns, counts: FileCounts { refused, evicted, postponed, unanswered } }
        }),
        lost.prop_map(|(at_ns, reason, count)| Event::Lost { at_ns, reason, count }),
        any::<u64>().prop_map(|at_ns| Event::Tick { at_ns }),
    ]
}

/// Returns one small event of each kind.
fn sample() -> Vec<Event> {
    let process = ProcessId { pid: 9, start_ns: 90 };
    vec![
        Event::Clock(ClockOffsets { at_ns: 1, to_unix_ns: 2, to_boottime_ns: 3 }),
        Event::Process(Box::new(ProcessInfo {
            process,
            executable: "python3".into(),
            ..ProcessInfo::default()
        })),
        Event::Step(StepRecord::default()),
        Event::Call(CallRecord::default()),
        Event::Lost { at_ns: 4, reason: DropReason::RingFull, count: 5 },
        Event::Operation(Box::new(OperationTotal { buckets: vec![(-4, 6)], ..OperationTotal::default() })),
        Event::Account(Box::default()),
        Event::Tick { at_ns: 7 },
        Event::Exit { process, at_ns: 8, status: ExitStatus::Exited(1) },
    ]
}

/// Returns an event of each kind with a field that names its encoding.
fn uncommon() -> Vec<Event> {
    let header = Header {
        kind: 6,
        row: 9,
        flags: 1,
        pid: 2,
        tid: 3,
        process_start_ns: 4,
        entry_ns: 5,
        duration_ns: 6,
    };
    let args = CallArgs {
        header,
        result: 1,
        device: -1,
        arguments: [7; 8],
        entry: vec![1, 2],
        exit: vec![3],
        ordinal: Some(4),
    };
    let throttled =
        ThrottleReason::ALL.map(|reason| ThrottleTime { reason, ns: 8, is_counted: true }).to_vec();
    let mut step = StepRecord { header, stream: 1, first_tid: 2, device: 3, ..StepRecord::default() };
    step.work[0] = 9;
    vec![
        Event::Step(step),
        Event::CallArgs(args.clone()),
        Event::CallArgs(CallArgs { ordinal: None, ..args }),
        Event::Context(TraceContext { header, trace_id: [1; 16], span_id: [2; 8], trace_flags: 3 }),
        Event::Clocks(Clocks { from_ns: 1, to_ns: 2, device: 3, throttled }),
        Event::Account(Box::new(Account {
            dropped: [1, 2, 3, 4, 5, 6, 7],
            other: from_fn(|at| if at == 7 { 8 } else { 0 }),
            ..Account::default()
        })),
        Event::LauncherEnv(Box::new(LauncherEnv {
            variables: vec![("RANK".into(), "0".into())],
            ..LauncherEnv::default()
        })),
    ]
}

#[test]
fn bytes_stay_those_of_version_1_5() {
    let mut writer = Writer::begin(Vec::new(), &Info::default()).unwrap();
    let grows = |event: &&Event| matches!(event, Event::Process(_) | Event::Step(_) | Event::Account(_));
    let (sample, uncommon) = (sample(), uncommon());
    sample.iter().chain(&uncommon).filter(|e| !grows(e)).for_each(|event| writer.write(event).unwrap());
    let bytes = writer.finish().unwrap();
    assert_eq!((VERSION, bytes.len(), crc32fast::hash(&bytes)), ((1, 5), 1063, 1_119_189_559));
    // Later versions append the fields that are new in them.
    let hash = |event: &Event, length: usize| {
        let mut out = Encoder::new(LIST_MAX);
        frames::put(event, &mut out);
        crc32fast::hash(&out.bytes[..length])
    };
    assert_eq!([hash(&uncommon[0], 290), hash(&uncommon[5], 210)], [1_946_647_178, 191_610_554]);
    assert_eq!(hash(&sample[1], 41), 176_598_151);
}

#[test]
fn header_is_read_as_written() {
    let bytes = written(&[]);
    let reader = Reader::open(&bytes[..]).unwrap();
    assert_eq!(reader.info(), &info());
    assert_eq!(reader.info().symbol(34), Some("cudaEventSynchronize"));
    assert_eq!(reader.info().rows.len(), PROBES.len());
}

#[test]
fn truncated_recording_delivers_whole_frames_and_an_error() {
    let (events, bytes) = (sample(), written(&sample()));
    // The end of each event's frame: the length of a recording that stops there, without the end frame.
    let ends: Vec<_> = (0..=events.len()).map(|n| unfinished(&events[..n]).len()).collect();
    for end in 0..bytes.len() {
        let (read, error) = read(&bytes[..end]);
        let whole = ends.iter().skip(1).filter(|e| **e <= end).count();
        assert_eq!(read, events[..whole], "cut at byte {end}");
        let error = error.unwrap_or_else(|| panic!("cut at byte {end}: no error"));
        let in_magic = matches!(error, RecordingError::NotARecording { .. }) && end < MAGIC.len();
        assert!(error.is_cut() || in_magic, "cut at byte {end}: {error}");
    }
    assert!(read(&bytes).1.is_none());
}

/// Returns a recording without an end frame.
fn unfinished(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::begin(&mut bytes, &info()).unwrap();
    for event in events {
        writer.write(event).unwrap();
    }
    drop(writer);
    bytes
}

#[test]
fn every_flipped_bit_is_detected() {
    let (events, bytes) = (sample(), written(&sample()));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let (read, error) = read(&damaged);
            assert!(error.is_some(), "byte {at}, bit {bit}");
            assert!(events.starts_with(&read), "byte {at}, bit {bit}: an event that was not written");
        }
    }
}

#[test]
fn fields_missing_in_an_earlier_account_are_zero() {
    let mut account = Account { other: from_fn(|at| at as u64 + 1), ..Account::default() };
    let mut out = Encoder::new(LIST_MAX);
    account.put(&mut out);
    let earlier = &out.bytes[..out.bytes.len() - 8];
    account.other[SelfCounter::ALL.len() - 1] = 0;
    assert_eq!(Account::take(&mut &*earlier), Some(account));
}

#[test]
fn truncated_gzip_is_a_truncated_recording() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&written(&vec![Event::Tick { at_ns: 1 }; 5000])).unwrap();
    let gzip = gzip.finish().unwrap();
    assert!(read(&gzip).1.is_none());
    let (events, error) = read(&gzip[..gzip.len() - 12]);
    assert!(!events.is_empty());
    assert!(error.unwrap().is_cut());
}

/// Returns a frame of any kind with a valid checksum.
fn frame(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

#[test]
fn exit_of_an_earlier_version_has_unknown_status() {
    let mut out = Encoder::new(LIST_MAX);
    let exit =
        Event::Exit { process: ProcessId { pid: 9, start_ns: 90 }, at_ns: 8, status: ExitStatus::Killed(9) };
    let kind = frames::put(&exit, &mut out);
    let before = out.bytes.len() - size_of::<u32>();
    let frames::Payload::Event(Event::Exit { at_ns, status, .. }) = frames::take(kind, &out.bytes[..before])
    else {
        panic!("no end")
    };
    assert_eq!((at_ns, status), (8, ExitStatus::Unknown));
}

#[test]
fn frames_of_a_later_version_are_skipped() {
    let mut bytes = unfinished(&[Event::Tick { at_ns: 1 }]);
    bytes.extend(frame(999, b"news"));
    // A tick with a field more than this version knows.
    bytes.extend(frame(kind::TICK, &[2, 0, 0, 0, 0, 0, 0, 0, 77]));
    let end = [&3u64.to_le_bytes()[..], &0u64.to_le_bytes(), &2u16.to_le_bytes(), &kind::TICK.to_le_bytes()];
    let counts = [&2u64.to_le_bytes()[..], &999u16.to_le_bytes(), &1u64.to_le_bytes()];
    bytes.extend(frame(kind::END, &[end.concat(), counts.concat()].concat()));
    let mut reader = Reader::open(&bytes[..]).unwrap();
    let mut events = Vec::new();
    while reader.read(&mut events).unwrap() {}
    assert_eq!(events, [Event::Tick { at_ns: 1 }, Event::Tick { at_ns: 2 }]);
}

#[test]
fn errors_locate_the_damage() {
    let begin = unfinished(&[]);
    let at = begin.len();
    let whole = written(&[]);
    for (bytes, expected) in [
        (b"GIF89a..".to_vec(), "not a recording: it begins with [47, 49, 46, 38, 39, 61, 2e, 2e], expected [89, 57, 54, 41, 50, 0d, 0a, 1a]".into()),
        ([&MAGIC[..], &[2, 0]].concat(), "a recording of version 2: this build reads version 1".into()),
        ([&MAGIC[..], &[1, 0], &frame(kind::TICK, &[0; 8])].concat(), "damaged at byte 10: the fields of a frame of kind 24 are invalid".into()),
        ([&begin[..], &[0xff; 12]].concat(), format!("damaged at byte {at}: a frame of 4294967295 bytes, expected at most 8388608")),
        ([&begin[..], &frame(kind::TICK, &[0; 7])].concat(), format!("damaged at byte {at}: the fields of a frame of kind 24 are invalid")),
        ([&begin[..], &frame(kind::LOST, &[0xff; 18])].concat(), format!("damaged at byte {at}: the fields of a frame of kind 23 are invalid")),
        ([&begin[..], &frame(kind::TICK, &[0; 8]), &whole[at..]].concat(), format!("damaged before byte {}: 1 events of kind 24, expected 0", at + 20)),
        ([&whole[..], b"x"].concat(), format!("bytes after the end of the recording, at byte {}", whole.len())),
        (begin, format!("the recording ends at byte {at} without an end frame: everything before it is valid")),
    ] {
        assert_eq!(read(&bytes).1.map(|e| e.to_string()), Some(expected));
    }
}

#[test]
fn long_texts_and_lists_are_cut_and_counted() {
    let long = ProcessInfo {
        executable: "ä".repeat(TEXT_MAX),
        command: vec!["-v".into(); LIST_MAX + 1],
        ..ProcessInfo::default()
    };
    let bytes = written(&[Event::Process(Box::new(long))]);
    let mut reader = Reader::open(&bytes[..]).unwrap();
    let mut events = Vec::new();
    while reader.read(&mut events).unwrap() {}
    let [Event::Process(info)] = &events[..] else { panic!("one process") };
    assert_eq!((info.executable.len(), info.command.len()), (TEXT_MAX, LIST_MAX));
    assert_eq!(reader.cut(), 2);
}

#[test]
fn longest_event_fits_into_a_frame() {
    let text = "x".repeat(TEXT_MAX);
    let texts = vec![text.clone(); LIST_MAX];
    let longest = Event::Process(Box::new(ProcessInfo {
        executable: text.clone(),
        executable_path: text.clone(),
        container_id: text.clone(),
        command: texts.clone(),
        attributes: texts.iter().map(|t| (t.clone(), t.clone())).collect(),
        observed: texts.clone(),
        gaps: texts,
        ..ProcessInfo::default()
    }));
    assert_eq!(read(&written(std::slice::from_ref(&longest))).0, [longest]);
}

proptest! {
    #[test]
    fn events_are_read_as_written(events in prop::collection::vec(event(), 0..20)) {
        let (read, error) = read(&written(&events));
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(read, events);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (_, error) = read(&bytes);
        prop_assert!(error.is_some());
        // The same bytes as a frame with a valid checksum, after a valid header.
        let mut framed = unfinished(&[]);
        framed.extend(frame(u16::from(bytes.first().copied().unwrap_or(0)) % 32, &bytes));
        let _ = read(&framed);
    }
}
