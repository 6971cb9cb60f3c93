//! Steps through the whole analysis: durations, baselines, outliers, spans, log records, exemplars.

mod common;

use std::collections::BTreeSet;

use common::*;
use event::{CallRecord, Event, OperationTotal, TraceContext};
use gpu::{Relation, Settings};
use opentelemetry_proto::tonic::metrics::v1::exemplar;
use probe_abi::detail::Detail;
use probe_abi::fold::Counter;
use probe_abi::record::Header;
use steps::Finding;

/// Returns a server one of whose tokens takes 40 ms instead of 5.
fn slow_decode() -> Vec<Event> {
    let mut program = Program::new(100);
    program.serve(200, 5 * MS);
    program.decode(40 * MS);
    program.serve(50, 5 * MS);
    events(&[program], true)
}

/// Returns the steps that the engine finds.
fn found(events: &[Event]) -> Vec<steps::Step> {
    let mut engine = steps::Engine::new(steps::Settings::default());
    let mut findings = Vec::new();
    events.iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    let step = |finding| match finding {
        Finding::Step(step) => Some(step),
        Finding::BaselineShift(_) => None,
    };
    findings.into_iter().filter_map(step).collect()
}

#[test]
fn a_slow_step_is_one_span() {
    let events = slow_decode();
    let output = analysed(&events, Settings::default());
    let [span] = output.outliers()[..] else { panic!("one outlier: {:?}", output.outliers()) };
    let steps = found(&events);
    let slow = steps.iter().max_by_key(|s| s.duration_ns).unwrap();
    assert_eq!(span.name, "infer.outlier.3x");
    assert_eq!(span.kind, 1, "internal");
    assert_eq!(
        (span.start_time_unix_nano, span.end_time_unix_nano),
        (UNIX + slow.start_ns, UNIX + slow.end_ns)
    );
    let status = span.status.as_ref().unwrap();
    assert_eq!(status.code, 2, "error");
    assert!(status.message.starts_with("decode step took 40."), "{}", status.message);
    assert_eq!(text(&span.attributes, "gpu.step.phase"), "decode");
    assert_eq!(text(&span.attributes, "gpu.step.outlier"), "3x");
    assert_eq!(number(&span.attributes, "gpu.step.duration"), slow.duration_ns as f64 / 1e9);
    let p95 = number(&span.attributes, "gpu.step.baseline.p95");
    assert!((0.005..0.0055).contains(&p95), "{p95}");
    assert_eq!(number(&span.attributes, "gpu.step.ratio"), slow.ratio);
    assert_eq!(text(&span.attributes, "gen_ai.request.model"), "meta/llama");
}

/// Checks the attributes that the span of every outlier has.
#[test]
fn outlier_has_times_phase_and_baseline() {
    let output = analysed(&slow_decode(), Settings::default());
    let steps = found(&slow_decode());
    let slow = steps.iter().max_by_key(|s| s.duration_ns).unwrap();
    let (resource, span) = output.spans()[0];
    let level = slow.baseline.unwrap();
    let work = |counter: Counter| slow.work.of(counter) as f64;
    let rows = [
        ("gpu.step.confidence", slow.confidence),
        ("gpu.step.duration", slow.duration_ns as f64 / 1e9),
        ("gpu.step.baseline.mean", level.mean_ns / 1e9),
        ("gpu.step.baseline.p95", level.p95_ns / 1e9),
        ("gpu.step.ratio", slow.ratio),
        ("gpu.step.host_bound.share", slow.host_bound_share()),
        ("gpu.step.launches", work(Counter::Launches)),
        ("gpu.step.graph_launches", work(Counter::GraphLaunches)),
        ("gpu.step.copies", work(Counter::Copies)),
        ("gpu.step.threads", work(Counter::Threads)),
        ("gpu.step.bytes.to_device", work(Counter::BytesToDevice)),
        ("gpu.step.bytes.from_device", work(Counter::BytesFromDevice)),
        ("gpu.step.bytes.on_device", work(Counter::BytesOnDevice)),
        ("gpu.step.bytes.other", work(Counter::BytesElsewhere)),
        ("gpu.step.bytes.filled", work(Counter::BytesFilled)),
        ("gpu.stream.ordinal", f64::from(slow.stream)),
        ("gpu.step.sequence", slow.sequence as f64),
        ("thread.id", f64::from(slow.thread)),
    ];
    for (key, expected) in rows {
        assert_eq!(number(&span.attributes, key), expected, "{key}");
    }
    assert!(work(Counter::Copies) > 0.0 && work(Counter::GraphLaunches) > 0.0);
    assert_eq!(text(&span.attributes, "gpu.step.cause"), "unknown");
    assert!(text(&span.attributes, "gpu.step.causes").contains('%'));
    assert_eq!(text(&span.attributes, "gpu.event.id"), slow.id.to_string());
    assert_eq!(pid_of(Some(resource)), Some(100));
}

/// Recorded calls are neither memory nor errors nor operations of their own, because the folds count them.
#[test]
fn recorded_calls_are_children_of_their_outlier() {
    let (plain, output) = (
        analysed(&slow_decode(), Settings::default()),
        analysed(&in_detail(slow_decode()), Settings::default()),
    );
    let spans = output.spans();
    let names: Vec<&str> = spans.iter().map(|(_, s)| s.name.as_str()).collect();
    assert_eq!(names, ["infer.outlier.3x", "gpu.step.enqueue", "gpu.step.wait", "gpu.step.call"]);
    let (root, call) = (spans[0].1, spans[3].1);
    assert_eq!((&call.trace_id, &call.parent_span_id), (&root.trace_id, &root.span_id));
    assert_eq!(text(&call.attributes, "gpu.cuda.operation.name"), "cudaMemcpyAsync");
    assert_eq!(call.start_time_unix_nano, root.start_time_unix_nano);
    assert!(call.end_time_unix_nano > call.start_time_unix_nano);
    assert_eq!(plain.outliers().len(), output.outliers().len());
}

/// Analyzes the slow decode with a trace context on every wait.
fn in_context(trace_flags: u8, relation: Relation) -> Output {
    let mut with = Vec::new();
    for event in slow_decode() {
        if let Event::Step(step) = &event {
            let header = Header { kind: 8, ..step.header };
            let span_id = [if step.header.duration_ns >= 40 * MS { 0x51 } else { 0x11 }; 8];
            with.push(Event::Context(TraceContext { header, trace_id: [0x7a; 16], span_id, trace_flags }));
        }
        with.push(event);
    }
    analysed(&with, Settings { relation, ..Settings::default() })
}

/// Returns trace id, parent and linked spans of the outlier's span.
fn belongs(output: &Output) -> (Vec<u8>, Vec<u8>, Vec<Vec<u8>>) {
    let [span] = output.outliers()[..] else { panic!("one outlier: {:?}", output.outliers()) };
    let links = span.links.iter().map(|link| [&link.trace_id[..], &link.span_id].concat()).collect();
    (span.trace_id.clone(), span.parent_span_id.clone(), links)
}

#[test]
fn outlier_is_a_child_of_the_sampled_application_span() {
    let output = in_context(1, Relation::Auto);
    assert_eq!(belongs(&output), (vec![0x7a; 16], vec![0x51; 8], vec![]));
    let spans = output.spans();
    assert!(spans.iter().all(|(_, s)| s.trace_id == [0x7a; 16]), "its own children are in that trace, too");
    let (_, record) = output.logs("gpu.step.outlier")[0];
    assert_eq!((&record.trace_id, &record.span_id), (&spans[0].1.trace_id, &spans[0].1.span_id));
}

#[test]
fn outlier_is_linked_to_an_unsampled_application_span() {
    let plain = belongs(&analysed(&slow_decode(), Settings::default()));
    let link = [[0x7a; 16].as_slice(), &[0x51; 8]].concat();
    for (flags, relation) in [(0, Relation::Auto), (1, Relation::Link)] {
        let (trace, parent, links) = belongs(&in_context(flags, relation));
        assert_eq!((&trace, parent, links), (&plain.0, vec![], vec![link.clone()]), "{relation:?}");
    }
    assert_eq!(belongs(&in_context(1, Relation::None)), plain);
    assert_eq!(belongs(&in_context(0, Relation::Child)).1, vec![0x51; 8]);
}

/// Analyzes the slow decode with a fill of 31 ms in it, recorded with this weight, after fills of 80 us.
fn slow_fill(weight: u32, fills: u64) -> Output {
    let mut all = slow_decode();
    let slow = all.iter().enumerate().find_map(|(at, event)| match event {
        Event::Step(step) if step.header.duration_ns >= 40 * MS => Some((at, *step)),
        _ => None,
    });
    let Some((at, step)) = slow else { panic!("a slow step") };
    let (row, flags) = (row("cudaMemsetAsync"), Detail::flags(weight));
    let header = Header { kind: 2, row, flags, entry_ns: step.first_ns, duration_ns: 31 * MS, ..step.header };
    let total = OperationTotal {
        at_ns: step.first_ns,
        process: (&step.header).into(),
        row,
        calls: fills,
        returned: fills,
        buckets: vec![(-55, fills)],
        ..OperationTotal::default()
    };
    let added =
        [Event::Operation(Box::new(total)), Event::Call(CallRecord { header, ..CallRecord::default() })];
    all.splice(at..at, added);
    analysed(&all, Settings::default())
}

#[test]
fn slow_call_has_the_usual_duration_of_its_function() {
    let output = slow_fill(1, 1_000);
    let (_, record) = output.logs("gpu.step.outlier")[0];
    let expected = "cudaMemsetAsync took 31.00 ms, usually 0.08 ms";
    let body = show(record.body.as_ref());
    assert!(body.ends_with(&format!("; {expected}")), "{body}");
    assert_eq!(text(&record.attributes, "gpu.step.calls"), expected);
    let spans = output.spans();
    let call = spans.iter().find(|(_, s)| s.name == "gpu.step.call").unwrap().1;
    let usual = number(&call.attributes, "gpu.call.baseline.median");
    assert!((72e-6..87e-6).contains(&usual), "{usual}");
    assert_eq!(number(&call.attributes, "gpu.call.weight"), 1.0);
    assert_eq!(call.end_time_unix_nano - call.start_time_unix_nano, 31 * MS);
}

#[test]
fn rarely_called_functions_have_no_usual_duration() {
    let output = slow_fill(100, 9);
    let (_, record) = output.logs("gpu.step.outlier")[0];
    assert_eq!(text(&record.attributes, "gpu.step.calls"), "cudaMemsetAsync took 31.00 ms");
    let spans = output.spans();
    let call = spans.iter().find(|(_, s)| s.name == "gpu.step.call").unwrap().1;
    assert_eq!(number(&call.attributes, "gpu.call.weight"), 100.0);
    assert!(call.attributes.iter().all(|a| a.key != "gpu.call.baseline.median"), "{:?}", call.attributes);
}

/// Regression test: a sampler never left its degraded state.
#[test]
fn detail_is_requested_for_a_time_after_an_outlier() {
    let mut program = Program::new(100);
    program.serve(200, 5 * MS);
    program.decode(40 * MS);
    (0..40).for_each(|_| {
        program.decode(5 * MS);
        program.wait(SECOND);
    });
    let mut analyzer = gpu::Analyzer::new(Settings::default());
    let mut asked = Vec::new();
    for event in &events(&[program], true) {
        analyzer.observe(event, &mut |_| {});
        let at_ns = event.at_ns().unwrap_or(0);
        asked.extend(
            analyzer.take_details().into_iter().map(|(process, detail)| (at_ns, process.pid, detail)),
        );
    }
    let [(up_ns, up_pid, up), (down_ns, down_pid, down)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!((up_pid, up, down_pid, down), (100, Some(Detail::ALL), 100, None));
    assert!((28 * SECOND..33 * SECOND).contains(&(down_ns - up_ns)), "{} ns", down_ns - up_ns);
}

#[test]
fn child_spans_are_the_two_halves() {
    let output = analysed(&slow_decode(), Settings::default());
    let spans = output.spans();
    let names: Vec<&str> = spans.iter().map(|(_, s)| s.name.as_str()).collect();
    assert_eq!(names, ["infer.outlier.3x", "gpu.step.enqueue", "gpu.step.wait"]);
    let (root, enqueue, wait) = (spans[0].1, spans[1].1, spans[2].1);
    assert!(root.parent_span_id.is_empty());
    for child in [enqueue, wait] {
        assert_eq!((&child.trace_id, &child.parent_span_id), (&root.trace_id, &root.span_id));
        assert_ne!(child.span_id, root.span_id);
    }
    assert_eq!(root.start_time_unix_nano, enqueue.start_time_unix_nano);
    assert_eq!(enqueue.end_time_unix_nano, wait.start_time_unix_nano);
    assert_eq!(wait.end_time_unix_nano, root.end_time_unix_nano);
    assert_eq!(wait.end_time_unix_nano - wait.start_time_unix_nano, 40 * MS);
}

#[test]
fn span_log_and_exemplar_have_common_ids() {
    let output = analysed(&slow_decode(), Settings::default());
    let span = output.outliers()[0];
    let (_, log) = output.logs("gpu.step.outlier")[0];
    assert_eq!((&log.trace_id, &log.span_id), (&span.trace_id, &span.span_id));
    assert_eq!(text(&log.attributes, "gpu.event.id"), text(&span.attributes, "gpu.event.id"));
    assert_eq!(log.time_unix_nano, span.end_time_unix_nano);
    assert!(text(&log.attributes, "gpu.step.causes").contains('%'), "{:?}", log.attributes);
    assert!(show(log.body.as_ref()).contains("the host waited 40.00 ms for the GPU"), "{:?}", log.body);

    let durations = distributions(output.last_of(100), "gpu.step.duration");
    let with: Vec<_> = durations.iter().filter(|p| !p.exemplars.is_empty()).collect();
    let [point] = with[..] else { panic!("one series has exemplars: {with:?}") };
    assert_eq!(text(&point.attributes, "gpu.step.outlier"), "3x");
    let [exemplar] = &point.exemplars[..] else { panic!("{:?}", point.exemplars) };
    assert_eq!((&exemplar.trace_id, &exemplar.span_id), (&span.trace_id, &span.span_id));
    assert_eq!(exemplar.time_unix_nano, span.end_time_unix_nano);
    let id = text(&span.attributes, "gpu.event.id");
    assert_eq!((id.len(), text(&exemplar.filtered_attributes, "gpu.event.id")), (16, id));
    assert!((point.start_time_unix_nano..=point.time_unix_nano).contains(&exemplar.time_unix_nano));
    let Some(exemplar::Value::AsDouble(value)) = exemplar.value else { panic!("{exemplar:?}") };
    let bucket = buckets(point).into_iter().find(|(low, high, _)| *low < value && value <= *high);
    assert!(bucket.is_some_and(|(_, _, count)| count > 0), "{value} in {:?}", buckets(point));
}

#[test]
fn exemplar_is_exported_once() {
    let mut program = Program::new(100);
    program.serve(200, 5 * MS);
    program.decode(40 * MS);
    program.serve(900, 5 * MS);
    let settings = Settings { collection_interval_ns: SECOND, ..Settings::default() };
    let output = analysed(&events(&[program], false), settings);
    let all = output.collections();
    let exemplars = all.iter().flat_map(|r| distributions(r, "gpu.step.duration")).map(|p| p.exemplars.len());
    assert_eq!(exemplars.sum::<usize>(), 1);
}

#[test]
fn histograms_count_all_steps() {
    let events = slow_decode();
    let output = analysed(&events, Settings::default());
    let steps = found(&events);
    let durations = distributions(output.last_of(100), "gpu.step.duration");
    assert_eq!(durations.iter().map(|p| p.count).sum::<u64>(), steps.len() as u64);
    for point in durations {
        let phase = text(&point.attributes, "gpu.step.phase");
        let outlier = text(&point.attributes, "gpu.step.outlier");
        let of = steps.iter().filter(|s| s.phase.as_str() == phase && s.outlier.as_str() == outlier);
        let raw: Vec<f64> = of.map(|s| s.duration_ns as f64 / 1e9).collect();
        assert_eq!(point.count as usize, raw.len());
        assert!((point.sum.unwrap() - raw.iter().sum::<f64>()).abs() < 1e-9);
        assert_eq!(point.max, raw.iter().copied().reduce(f64::max));
        assert_eq!(point.min, raw.iter().copied().reduce(f64::min));
        for (low, high, count) in buckets(point) {
            let inside = raw.iter().filter(|s| **s > low && **s <= high).count();
            assert_eq!(count as usize, inside, "({low}, {high}]");
        }
    }
    for (name, part) in [
        ("gpu.step.enqueue.duration", (|s| s.enqueue_ns) as fn(&steps::Step) -> u64),
        ("gpu.step.wait.duration", |s| s.wait_ns),
        ("gpu.step.gap.duration", |s| s.gap_ns),
    ] {
        let sum: f64 = distributions(output.last_of(100), name).iter().filter_map(|p| p.sum).sum();
        let raw = steps.iter().map(part).sum::<u64>() as f64 / 1e9;
        assert!((sum - raw).abs() < 1e-9, "{name}: {sum} {raw}");
    }
}

#[test]
fn baseline_and_host_share_are_of_the_last_step() {
    let events = slow_decode();
    let output = analysed(&events, Settings::default());
    let steps = found(&events);
    let decodes: Vec<_> = steps.iter().filter(|s| s.phase.as_str() == "decode").collect();
    let level = decodes.last().unwrap().baseline.unwrap();
    let baseline = values(output.last_of(100), "gpu.step.baseline");
    assert_eq!(baseline["gpu.step.phase=decode,gpu.step.statistic=p95"], level.p95_ns / 1e9);
    assert_eq!(baseline["gpu.step.phase=decode,gpu.step.statistic=mean"], level.mean_ns / 1e9);
    let ratio = values(output.last_of(100), "gpu.step.host_bound.ratio")["gpu.step.phase=decode"];
    let (enqueue, all) = decodes.iter().fold((0, 0), |(e, a), s| (e + s.enqueue_ns, a + s.duration_ns));
    assert_eq!(ratio, enqueue as f64 / all as f64);
}

#[test]
fn spans_are_limited_and_counters_are_not() {
    let mut program = Program::new(100);
    program.serve(400, 5 * MS);
    for _ in 0..12 {
        program.decode(40 * MS);
        program.serve(20, 5 * MS);
    }
    let settings = Settings { spans_burst: 3, spans_per_minute: 1, ..Settings::default() };
    let output = analysed(&events(&[program], true), settings);
    let counted: f64 = values(output.last_of(100), "gpu.step.outliers").values().sum();
    let suppressed = values(output.account(), "warptap.outlier.suppressed")[""];
    assert_eq!(output.outliers().len(), 3);
    assert_eq!(output.logs("gpu.step.outlier").len(), 3);
    assert!(counted >= 12.0 && counted == 3.0 + suppressed, "{counted} = 3 + {suppressed}");
}

#[test]
fn each_outlier_has_its_own_trace_and_event() {
    let mut program = Program::new(100);
    program.serve(400, 5 * MS);
    for _ in 0..8 {
        program.decode(40 * MS);
        program.serve(20, 5 * MS);
    }
    let mut other = program.clone();
    other.info = Program::new(200).info;
    other.calls.iter_mut().for_each(|c| (c.process, c.tid) = (other.info.process, 200));
    let output = analysed(&events(&[program, other], true), Settings::default());
    let outliers = output.outliers();
    let traces: BTreeSet<_> = outliers.iter().map(|s| &s.trace_id).collect();
    let ids: BTreeSet<_> = outliers.iter().map(|s| text(&s.attributes, "gpu.event.id")).collect();
    assert!(outliers.len() >= 16, "{}", outliers.len());
    assert_eq!((traces.len(), ids.len()), (outliers.len(), outliers.len()));
    let spans: BTreeSet<_> = output.spans().iter().map(|(_, s)| s.span_id.clone()).collect();
    assert_eq!(spans.len(), 3 * outliers.len());
}

#[test]
fn lasting_change_is_logged_as_a_baseline_shift() {
    let mut program = Program::new(100);
    program.serve(600, 5 * MS);
    program.serve(600, 12 * MS);
    let output = analysed(&events(&[program], true), Settings::default());
    let logged = output.logs("gpu.step.baseline.shift");
    let decode = logged.iter().find(|(_, log)| text(&log.attributes, "gpu.step.phase") == "decode");
    let (_, log) = decode.expect("the decodes' baseline shifted");
    let (before, after) = ("gpu.step.baseline.previous.mean", "gpu.step.baseline.mean");
    assert!((number(&log.attributes, before) - 0.005).abs() < 0.0005, "{:?}", log.attributes);
    assert!(number(&log.attributes, after) > 0.008, "{:?}", log.attributes);
}

#[test]
fn step_without_a_wait_is_counted_as_unmeasured() {
    let mut program = Program::new(100);
    program.serve(100, 5 * MS);
    program.call("cudaLaunchKernel", US, |c| c.threads = 1_000_000);
    let events = events(&[program], true);
    let output = analysed(&events, Settings::default());
    let durations = distributions(output.last_of(100), "gpu.step.duration");
    let finished = found(&events).iter().filter(|s| !s.is_unfinished).count() as u64;
    assert_eq!(durations.iter().map(|p| p.count).sum::<u64>(), finished);
    assert_eq!(values(output.account(), "warptap.step.unmeasured")[""], 1.0);
}
