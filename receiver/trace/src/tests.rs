//! The reader with traces of real programs, compared with another JSON library, and with small traces for one claim each.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use probe_abi::counters::SelfCounter;
use probe_abi::fold::Counter;
use probe_abi::record::{StepRecord, flag};
use probe_abi::{Action, Direction, PROBES};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use event::{Event, EventSource};

const REAL: [&str; 5] = [
    "a100_ddp_nccl.json.gz",
    "a100_train_graphs_nccl_rank0.json.gz",
    "b200_vllm_prefill_eager.json.gz",
    "mi300x_vllm_decode_full_graph.json.gz",
    "mi300x_vllm_mixed_piecewise.json.gz",
];

/// Returns the path of a trace, if the traces are next to the repository.
fn path(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no {}", path.display());
    None
}

/// Returns a real trace, which is read once for all tests.
fn real(name: &'static str) -> Option<Trace> {
    static READ: Mutex<BTreeMap<&'static str, Trace>> = Mutex::new(BTreeMap::new());
    let path = path(name)?;
    let mut read = READ.lock().unwrap();
    let trace = || Trace::read(File::open(path).unwrap(), &Limits::default()).unwrap();
    Some(read.entry(name).or_insert_with(trace).clone())
}

fn read(document: &Value) -> Trace {
    Trace::read(document.to_string().as_bytes(), &Limits::default()).unwrap()
}

fn events(trace: Trace) -> Vec<Event> {
    let (mut source, mut events) = (trace.into_events(), Vec::new());
    while source.read(&mut events).unwrap() {}
    events
}

fn steps(trace: Trace) -> Vec<StepRecord> {
    let step = |e| if let Event::Step(s) = e { Some(s) } else { None };
    events(trace).into_iter().filter_map(step).collect()
}

fn count(step: &StepRecord, counter: Counter) -> u64 {
    step.work[counter as usize]
}

#[test]
fn calls_of_real_traces_are_counted_by_symbol() {
    for name in REAL {
        let Some(trace) = real(name) else { return };
        let text = GzDecoder::new(File::open(path(name).unwrap()).unwrap());
        let document: Value = serde_json::from_reader(std::io::BufReader::new(text)).unwrap();
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        for entry in document["traceEvents"].as_array().unwrap() {
            if matches!(entry["cat"].as_str(), Some("cuda_runtime" | "cuda_driver")) {
                *expected.entry(entry["name"].as_str().unwrap().into()).or_default() += 1;
            }
        }
        let known = trace.stats.calls.iter().map(|(name, count)| (String::from(*name), *count));
        let found: BTreeMap<_, _> = known.chain(trace.stats.ignored.clone()).collect();
        assert_eq!(found, expected, "{name}");
        assert_eq!(trace.calls.len() as u64, trace.stats.calls.values().sum::<u64>(), "{name}");
        assert!(trace.calls.is_sorted_by_key(|c| c.entry_ns), "{name}");
        assert_eq!(trace.stats.entries, document["traceEvents"].as_array().unwrap().len() as u64, "{name}");
    }
}

#[test]
fn calls_are_joined_with_their_device_rows() {
    for (name, unmatched, orphans) in [
        // Three fills have no device rows.
        (REAL[0], 3, 0),
        // The trace began while the device ran earlier work.
        (REAL[1], 0, 872),
        (REAL[2], 0, 0),
        (REAL[3], 0, 0),
        (REAL[4], 0, 0),
    ] {
        let Some(trace) = real(name) else { return };
        assert_eq!((trace.stats.unmatched_calls, trace.stats.orphan_rows), (unmatched, orphans), "{name}");
        assert_eq!(trace.stats.malformed, 0, "{name}");
        for call in &trace.calls {
            let action = call.probe().unwrap().action;
            assert!(action != Action::Launch || call.threads > 0, "{name}: a launch of no threads");
            assert!(action != Action::Copy || call.direction != Direction::Unknown, "{name}: a copy nowhere");
            assert!(action != Action::Copy || call.bytes > 0, "{name}: a copy of nothing");
        }
    }
}

/// Returns the shape of a step: stream, launches, graph launches, copies, and whether it is unfinished.
fn shape(step: &StepRecord) -> (u64, u64, u64, u64, bool) {
    let unfinished = step.header.flags & flag::UNFINISHED != 0;
    let of = |counter| count(step, counter);
    (step.stream, of(Counter::Launches), of(Counter::GraphLaunches), of(Counter::Copies), unfinished)
}

#[test]
fn trace_of_one_step_has_one_step() {
    for (name, expected, threads) in [
        (REAL[2], (0, 768, 0, 161, true), None),
        // 1 x 256, 32 x 256 twice, and 114,944 threads by hipExtModuleLaunchKernel.
        (REAL[3], (0, 4, 1, 9, true), Some(114_944)),
        (REAL[4], (0, 52, 25, 10, true), None),
    ] {
        let Some(trace) = real(name) else { return };
        let last = trace.calls.iter().map(Call::exit_ns).max().unwrap();
        let [step] = steps(trace)[..] else { panic!("{name}: not one step") };
        assert_eq!(shape(&step), expected, "{name}");
        assert_eq!((step.header.entry_ns, step.header.duration_ns), (last, 0), "{name}");
        assert!(threads.is_none_or(|t| count(&step, Counter::Threads) >= t), "{name}");
    }
}

#[test]
fn training_steps_end_between_labelled_turns() {
    let Some(trace) = real(REAL[0]) else { return };
    let turns = trace.annotations.iter().filter(|a| a.name.starts_with("ProfilerStep#"));
    let turns: Vec<_> = turns.cloned().collect();
    let steps: Vec<_> = steps(trace).into_iter().filter(|s| s.stream == 0).collect();
    assert_eq!((turns.len(), steps.len()), (3, 3));
    // Work enqueued after the last event of a turn is not awaited in the next turn: it is in the next step.
    let mut awaited_ns = turns[0].start_ns;
    for (turn, step) in turns.iter().zip(&steps) {
        assert!(awaited_ns <= step.first_ns && step.first_ns < turn.end_ns, "{} begins there", turn.name);
        let entry_ns = step.header.entry_ns;
        assert!((turn.end_ns..turn.end_ns + 2_000_000).contains(&entry_ns), "{} ends there", turn.name);
        assert_eq!(count(step, Counter::Enqueues) / 100, 12, "{}", turn.name);
        assert_eq!(step.header.flags & flag::FIRST_UNKNOWN, 0, "{}: its first enqueue is known", turn.name);
        awaited_ns = step.recorded_ns;
    }
}

#[test]
fn every_turn_of_a_training_loop_has_equal_waits() {
    let Some(trace) = real(REAL[1]) else { return };
    let turns = trace.annotations.iter().filter(|a| a.name.starts_with("ProfilerStep#"));
    let turns: Vec<_> = turns.map(|a| a.start_ns..a.end_ns).collect();
    let steps: Vec<_> = steps(trace).into_iter().filter(|s| s.header.flags & flag::ITERATION == 0).collect();
    let waited =
        |turn: &std::ops::Range<u64>| steps.iter().filter(|s| turn.contains(&s.header.entry_ns)).count();
    assert_eq!(turns.iter().map(waited).collect::<Vec<_>>(), [15; 5]);
    // After the last turn, the device synchronisation of the profiler ends the steps of the other streams.
    assert_eq!(steps.len(), 15 * 5 + 5);
}

#[test]
fn enqueues_of_real_traces_are_in_exactly_one_step() {
    for name in REAL {
        let Some(trace) = real(name) else { return };
        let enqueues = |c: &&Call| c.probe().unwrap().cookie().enqueues();
        let expected = trace.calls.iter().filter(enqueues).count() as u64;
        let calls = trace.calls.len() as u64;
        let events = events(trace);
        let found: u64 =
            events.iter().map(|e| if let Event::Step(s) = e { count(s, Counter::Enqueues) } else { 0 }).sum();
        assert_eq!(found, expected, "{name}");
        let Some(Event::Account(account)) = events.iter().rfind(|e| matches!(e, Event::Account(_))) else {
            panic!("{name}: no account")
        };
        assert!(account.is_balanced(), "{name}: {account:?}");
        assert_eq!(account.hits + account[SelfCounter::Suppressed], calls, "{name}");
    }
}

fn entry(cat: &str, name: &str, ts: f64, dur: f64, args: Value) -> Value {
    json!({"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": dur, "args": args})
}

fn call(name: &str, ts: f64, correlation: u64) -> Value {
    entry("cuda_runtime", name, ts, 1.0, json!({"correlation": correlation}))
}

fn kernel(correlation: u64, stream: u64) -> Value {
    let args = json!({"correlation": correlation, "device": 0, "stream": stream, "grid": [2, 1, 1], "block": [32, 1, 1]});
    entry("kernel", "k", 50.0, 1.0, args)
}

#[test]
fn clock_is_that_of_the_base_time() {
    let trace = read(
        &json!({"traceEvents": [call("cudaMalloc", 2.5, 1)], "baseTimeNanoseconds": 1_767_189_312_000_000_000i64}),
    );
    let clock = trace.clock.unwrap();
    assert_eq!((clock.at_ns, clock.to_unix_ns), (2_500, 1_767_189_312_000_000_000));
    assert_eq!(read(&json!({"traceEvents": [call("cudaMalloc", 2.5, 1)]})).clock, None);
    let absolute = read(&json!([call("cudaMalloc", 1_683_564_901_951_734.0, 1)]));
    assert_eq!(absolute.clock.map(|c| c.to_unix_ns), Some(0));
    assert_eq!(absolute.calls[0].entry_ns, 1_683_564_901_951_734_000);
}

#[test]
fn device_rows_may_precede_their_call() {
    let trace = read(&json!([kernel(1, 20), call("cudaLaunchKernel", 1.0, 1)]));
    assert_eq!((trace.calls[0].stream, trace.calls[0].threads), (20, 64));
    assert_ne!(trace.calls[0].identity, 0);
}

#[test]
fn call_without_stream_takes_the_last_of_its_thread() {
    let trace = read(&json!([
        call("cudaStreamSynchronize", 0.0, 9),
        call("cudaLaunchKernel", 2.0, 1),
        kernel(1, 20),
        call("cudaLaunchKernel", 4.0, 2),
        kernel(2, 7),
        call("cudaStreamSynchronize", 6.0, 3),
    ]));
    assert_eq!(trace.calls.iter().map(|c| c.stream).collect::<Vec<_>>(), [20, 20, 0, 0]);
    assert_eq!(trace.stats.inferred_streams, 2);
    assert_eq!(trace.processes[0].gaps.len(), 1);
}

#[test]
fn sync_rows_determine_the_awaited_event() {
    let sync = |name: &str, correlation: u64, args: Value| {
        let mut args = args;
        args["correlation"] = correlation.into();
        entry("cuda_sync", name, 50.0, 1.0, args)
    };
    let trace = read(&json!([
        call("cudaLaunchKernel", 1.0, 1),
        kernel(1, 20),
        call("cudaEventRecord", 2.0, 2),
        call("cudaLaunchKernel", 3.0, 3),
        kernel(3, 21),
        call("cudaEventRecord", 4.0, 4),
        call("cudaEventSynchronize", 5.0, 5),
        sync(
            "Event Sync",
            5,
            json!({"stream": -1, "wait_on_stream": 20, "wait_on_cuda_event_record_corr_id": 2, "device": 0})
        ),
        call("cudaStreamSynchronize", 7.0, 6),
        sync("Stream Sync", 6, json!({"stream": 21, "device": 0})),
    ]));
    assert_eq!((trace.stats.inferred_streams, trace.stats.inferred_events), (1, 0));
    let shapes: Vec<_> = steps(trace).iter().map(|s| (s.stream, s.header.entry_ns, s.header.flags)).collect();
    assert_eq!(shapes, [(20, 5_000, 0), (21, 7_000, 0)]);
}

#[test]
fn devices_have_distinct_streams() {
    let mut other = kernel(2, 20);
    other["args"]["device"] = 3.into();
    let trace = read(&json!([
        call("cudaLaunchKernel", 1.0, 1),
        kernel(1, 20),
        call("cudaLaunchKernel", 2.0, 2),
        other
    ]));
    assert_eq!(trace.calls.iter().map(|c| c.stream).collect::<Vec<_>>(), [20, (1 << 32) + 20]);
}

#[test]
fn graphs_of_different_kernels_are_distinct() {
    let of = |correlation: u64, name: &str| {
        entry("kernel", name, 50.0, 1.0, json!({"correlation": correlation, "stream": 7}))
    };
    let trace = read(&json!([
        call("cudaGraphLaunch", 1.0, 1),
        of(1, "a"),
        of(1, "b"),
        call("cudaGraphLaunch", 2.0, 2),
        of(2, "b"),
        of(2, "a"),
        call("cudaGraphLaunch", 3.0, 3),
        of(3, "a"),
        of(3, "c"),
    ]));
    let [one, two, three] = trace.calls[..] else { panic!("three calls") };
    assert_eq!(one.identity, two.identity);
    assert_ne!(one.identity, three.identity);
    assert_eq!(one.handle, Some(one.identity));
}

#[test]
fn malformed_entries_are_counted() {
    let mut negative = call("cudaMalloc", 1.0, 1);
    negative["ts"] = (-1.0).into();
    let mut stranger = call("cudaMalloc", 1.0, 1);
    stranger["pid"] = "Spans".into();
    let trace = read(&json!([negative, stranger, call("cudaWhatever", 1.0, 1), 
        {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python3"}}]));
    assert_eq!((trace.calls.len(), trace.stats.malformed), (0, 2));
    assert_eq!(trace.stats.ignored.get("cudaWhatever"), Some(&1));
    assert!(events(trace).iter().all(|e| matches!(e, Event::Account(_) | Event::Tick { .. })));
}

#[test]
fn batch_size_does_not_change_events() {
    let launches = (0..3000u64).flat_map(|k| {
        [
            call("cudaLaunchKernel", k as f64 * 5000.0, k),
            kernel(k, 7),
            call("cudaDeviceSynchronize", k as f64 * 5000.0 + 2.0, 100_000 + k),
        ]
    });
    let trace = read(&Value::Array(launches.collect()));
    let all = events(trace.clone());
    let mut source = trace.into_events();
    let mut again = Vec::new();
    let mut batch = Vec::new();
    while source.read(&mut batch).unwrap() {
        again.append(&mut batch);
    }
    assert_eq!(all, again);
    let ticks: Vec<_> = all
        .iter()
        .filter_map(|e| if let Event::Tick { at_ns } = e { Some(*at_ns / 1_000_000_000) } else { None })
        .collect();
    assert_eq!(ticks, (1..=14).chain([14]).collect::<Vec<_>>());
    assert!(all.iter().filter_map(Event::at_ns).is_sorted());
}

#[test]
fn exceeded_limits_are_errors_with_advice() {
    let document = json!([call("cudaMalloc", 1.0, 1), call("cudaMalloc", 2.0, 2)]).to_string();
    let message = |limits| Trace::read(document.as_bytes(), &limits).unwrap_err().to_string();
    assert_eq!(
        message(Limits { calls: 1, ..Limits::default() }),
        "more than 1 calls: trace fewer steps at a time"
    );
    assert_eq!(
        message(Limits { bytes: 10, ..Limits::default() }),
        "longer than 10 bytes after decompression"
    );
}

#[test]
fn documents_other_than_traces_are_refused() {
    for (text, expected) in [
        ("", "the trace is truncated at byte 0"),
        ("{}", "not a profiler trace: expected an object with \"traceEvents\""),
        ("42", "not a profiler trace: expected an object with \"traceEvents\""),
        ("{\"traceEvents\": 3}", "not JSON at byte 16: expected ["),
        ("{\"traceEvents\": []} x", "not JSON at byte 20: expected the end of the trace"),
        ("\u{7f}ELF", "not JSON at byte 0: expected a value"),
    ] {
        let error = Trace::read(text.as_bytes(), &Limits::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"{\"traceEvents\": []}").unwrap();
    let gzip = gzip.finish().unwrap();
    assert!(Trace::read(&gzip[..], &Limits::default()).is_ok());
    for end in 0..gzip.len() {
        assert!(Trace::read(&gzip[..end], &Limits::default()).is_err(), "cut at byte {end}");
    }
}

fn sample() -> Vec<u8> {
    let document = json!({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "baseTimeNanoseconds": 5, "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 1.0, "args": {"name": "python3"}},
        entry("user_annotation", "ProfilerStep#1", 0.5, 9.0, json!({})),
        call("cudaLaunchKernel", 1.0, 1), kernel(1, 7),
        call("cudaEventRecord", 2.0, 2), call("cudaEventSynchronize", 3.0, 3),
    ]});
    document.to_string().into_bytes()
}

#[test]
fn truncated_traces_are_errors() {
    let whole = sample();
    for end in 0..whole.len() {
        assert!(Trace::read(&whole[..end], &Limits::default()).is_err(), "cut at byte {end}");
    }
    assert_eq!(steps(Trace::read(&whole[..], &Limits::default()).unwrap()).len(), 1);
}

#[test]
fn every_symbol_of_every_row_makes_a_call() {
    let names = PROBES.iter().flat_map(|p| [Some(p.symbol), p.twin]).flatten();
    let entries: Vec<_> = names.enumerate().map(|(at, name)| call(name, at as f64, at as u64)).collect();
    let count = entries.len();
    let trace = read(&Value::Array(entries));
    assert_eq!((trace.calls.len(), trace.stats.ignored.len()), (count, 0));
    events(trace);
}

proptest! {
    #[test]
    fn a_flipped_bit_never_panics(at in 0usize..4096, bit in 0u8..8) {
        let mut bytes = sample();
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        if let Ok(trace) = Trace::read(&bytes[..], &Limits::default()) {
            events(trace);
        }
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Trace::read(&bytes[..], &Limits::default());
    }
}
