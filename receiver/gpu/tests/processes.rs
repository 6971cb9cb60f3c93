//! Resources, series, bounds and times of processes that start and end.

mod common;

use common::*;
use event::{ClockOffsets, Event, ProcessId, ProcessInfo};
use gpu::Settings;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, metric::Data};

fn serving(pid: u32, steps: u64) -> Program {
    let mut program = Program::new(pid);
    program.serve(steps, 5 * MS);
    program
}

/// Returns the start and the time of every sum and histogram point.
fn windows(resource: &ResourceMetrics) -> Vec<(u64, u64)> {
    let of = |data: &Data| match data {
        Data::Sum(s) => {
            s.data_points.iter().map(|p| (p.start_time_unix_nano, p.time_unix_nano)).collect::<Vec<_>>()
        }
        Data::ExponentialHistogram(h) => {
            h.data_points.iter().map(|p| (p.start_time_unix_nano, p.time_unix_nano)).collect()
        }
        _ => Vec::new(),
    };
    metrics(resource).iter().filter_map(|m| m.data.as_ref()).flat_map(of).collect()
}

#[test]
fn each_process_has_its_own_resource_and_series() {
    let output = analysed(&events(&[serving(100, 60), serving(200, 40)], true), Settings::default());
    let count =
        |pid| distributions(output.last_of(pid), "gpu.step.duration").iter().map(|p| p.count).sum::<u64>();
    assert_eq!((count(100), count(200)), (63, 42));
    let instance = |pid| {
        let resource = output.last_of(pid).resource.clone().unwrap();
        text(&resource.attributes, "service.instance.id")
    };
    assert_ne!(instance(100), instance(200));
    for collected in output.collections() {
        let points = metrics(collected).iter().map(|m| format!("{m:?}")).collect::<String>();
        assert!(!points.contains("process.pid"), "identity is the resource's");
    }
}

#[test]
fn an_exit_flushes_once_and_ends_the_series() {
    let mut events = events(&[serving(100, 60)], true);
    let end_ns = events.iter().filter_map(Event::at_ns).max().unwrap();
    events.extend((1..50).map(|n| Event::Tick { at_ns: end_ns + n * SECOND }));
    let output = analysed(&events, Settings::default());
    let of_process: Vec<_> =
        output.collections().into_iter().filter(|r| pid_of(r.resource.as_ref()) == Some(100)).collect();
    assert_eq!(of_process.len(), 1, "it lived for less than an interval");
    assert!(output.batches.iter().any(|b| !b.is_repeated), "the last values are not repeated");
    assert_eq!(values(output.account(), "warptap.process.tracked")[""], 0.0);
}

#[test]
fn events_of_ended_processes_are_counted() {
    let mut events = events(&[serving(100, 60)], true);
    let step = events.iter().rfind(|e| matches!(e, Event::Step(_))).unwrap().clone();
    events.push(step);
    let output = analysed(&events, Settings::default());
    assert!(values(output.account(), "warptap.event.orphaned")[""] >= 1.0);
    assert_eq!(values(output.account(), "warptap.process.tracked")[""], 0.0);
}

#[test]
fn a_reused_pid_is_another_process() {
    let mut again = serving(100, 40);
    again.info.process.start_ns += 1;
    again.info.at_ns = 60 * SECOND;
    again.calls.iter_mut().for_each(|c| {
        c.process = again.info.process;
        c.entry_ns += 60 * SECOND;
    });
    let mut all = events(&[serving(100, 60)], true);
    all.extend(events(&[again], true).into_iter().skip(1));
    let output = analysed(&all, Settings::default());
    let collections = output.collections();
    let of: Vec<_> = collections.iter().filter(|r| pid_of(r.resource.as_ref()) == Some(100)).collect();
    let (first, last) = (of.first().unwrap(), of.last().unwrap());
    let count = |r| distributions(r, "gpu.step.duration").iter().map(|p| p.count).sum::<u64>();
    assert_eq!((count(first), count(last)), (63, 42), "counts restart");
    assert!(windows(last)[0].0 > windows(first)[0].0, "and so does their start");
}

#[test]
fn start_of_sums_is_constant() {
    let mut program = serving(100, 2_000);
    program.info.at_ns = 1_500 * MS;
    let mut events = events(&[program], false);
    // The wall clock is set ahead in the middle.
    let middle = events.len() / 2;
    let at_ns = events[..middle].iter().filter_map(Event::at_ns).max().unwrap();
    let offsets = ClockOffsets { at_ns, to_unix_ns: (UNIX + 5 * SECOND) as i64, to_boottime_ns: 0 };
    events.insert(middle, Event::Clock(offsets));
    let settings = Settings { collection_interval_ns: SECOND, ..Settings::default() };
    let output = analysed(&events, settings);
    let collections = output.collections();
    let of: Vec<_> = collections.iter().filter(|r| pid_of(r.resource.as_ref()) == Some(100)).collect();
    assert!(of.len() > 10);
    let mut last = 0;
    for collected in of {
        for (start, time) in windows(collected) {
            assert_eq!(start, UNIX + 1_500 * MS);
            assert!(time >= last && time > start, "time does not go back");
            last = time;
        }
    }
}

#[test]
fn collections_follow_event_time() {
    let settings = Settings { collection_interval_ns: 500 * MS, ..Settings::default() };
    let output = analysed(&events(&[serving(100, 1_000)], false), settings);
    let own: Vec<u64> = output
        .collections()
        .iter()
        .filter(|r| pid_of(r.resource.as_ref()).is_none())
        .map(|r| numbers(r, "warptap.process.tracked")[0].time_unix_nano)
        .collect();
    // The last tick is one second later, and the last collection is at the end.
    let (steady, ends) = own.split_at(own.len() - 2);
    assert!(steady.len() > 8 && steady.windows(2).all(|w| w[1] - w[0] == 500 * MS), "{own:?}");
    assert!(ends[0] > steady[steady.len() - 1] && ends[1] >= ends[0], "{own:?}");
}

#[test]
fn idle_intervals_are_collected_once() {
    let mut events = events(&[serving(100, 40)], false);
    let end_ns = events.iter().filter_map(Event::at_ns).max().unwrap();
    events.push(Event::Tick { at_ns: end_ns + 3_600 * SECOND });
    let output = analysed(&events, Settings::default());
    assert!(output.collections().len() <= 6, "{}", output.collections().len());
}

#[test]
fn series_of_ten_thousand_short_streams_are_bounded() {
    let mut program = Program::new(100);
    for stream in 0..10_000 {
        program.on_stream(0x1000 + stream);
        program.call("cudaLaunchKernel", US, |c| c.threads = 1_000);
        program.call("cudaStreamSynchronize", 100 * US, |_| {});
        program.call("cudaStreamDestroy", US, |_| {});
    }
    let output = analysed(&events(&[program], true), Settings::default());
    let last = output.last_of(100);
    let series: usize = metrics(last)
        .iter()
        .map(|m| match m.data.as_ref().unwrap() {
            Data::Sum(s) => s.data_points.len(),
            Data::Gauge(g) => g.data_points.len(),
            Data::ExponentialHistogram(h) => h.data_points.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert!(series < 60, "{series}");
    let steps: u64 = distributions(last, "gpu.step.wait.duration").iter().map(|p| p.count).sum();
    assert_eq!(steps, 10_000, "and every step is in them");
    let bytes = prost::Message::encoded_len(last);
    assert!(bytes < 64 << 10, "{bytes} bytes");
}

#[test]
fn the_longest_silent_process_is_evicted() {
    let programs: Vec<Program> = (0..6).map(|n| serving(100 + n, 30 + u64::from(n))).collect();
    let settings = Settings { processes_max: 4, ..Settings::default() };
    let output = analysed(&events(&programs, false), settings);
    let account = output.account();
    assert_eq!(values(account, "warptap.process.tracked")[""], 4.0);
    assert!(values(account, "warptap.process.evicted")[""] >= 2.0);
    let (_, last) = output.batches.split_last().unwrap();
    assert!(last.iter().any(|b| !b.is_repeated), "the evicted ones' values are flushed");
}

#[test]
fn an_evicted_process_keeps_its_description() {
    let mut early = serving(100, 30);
    early.info.attributes.push(("k8s.pod.uid".to_owned(), "p-1".to_owned()));
    let evicted_ns = early.now_ns;
    let mut other = Program::new(200);
    other.wait(20 * SECOND);
    other.serve(30, 5 * MS);
    other.info.at_ns = 15 * SECOND;
    early.wait(40 * SECOND);
    early.serve(30, 5 * MS);
    let settings = Settings { processes_max: 1, ..Settings::default() };
    let mut events = events(&[early], false);
    // The other process is described after the first was busy, and evicts it.
    let after = events.iter().position(|e| e.at_ns().is_some_and(|at| at > evicted_ns + SECOND)).unwrap();
    events.insert(after, Event::Process(Box::new(other.info)));
    let output = analysed(&events, settings);
    let last = output.last_of(100);
    assert_eq!(text(&last.resource.as_ref().unwrap().attributes, "k8s.pod.uid"), "p-1");
    let collections = output.collections();
    let first = collections.iter().find(|r| pid_of(r.resource.as_ref()) == Some(100)).unwrap();
    assert!(windows(last)[0].0 > windows(first)[0].1, "its series restart");
}

#[test]
fn changes_of_coverage_are_logged() {
    let info = ProcessInfo {
        process: ProcessId { pid: 7, start_ns: 1 },
        at_ns: SECOND,
        executable: "shard".to_owned(),
        observed: vec!["libcuda.so.1".to_owned()],
        ..ProcessInfo::default()
    };
    let blind = ProcessInfo { gaps: vec!["cudart is linked statically".to_owned()], ..info.clone() };
    let events = [Event::Process(Box::new(info)), Event::Process(Box::new(blind))];
    let output = analysed(&events, Settings::default());
    let logs = output.logs("warptap.process.coverage");
    let logged: Vec<(String, String)> =
        logs.iter().map(|(_, l)| (l.severity_text.clone(), show(l.body.as_ref()))).collect();
    let seen = "observed: libcuda.so.1";
    let want = [
        ("INFO".to_owned(), seen.to_owned()),
        ("WARN".to_owned(), format!("{seen}; not observed: cudart is linked statically")),
    ];
    assert_eq!(logged, want);
    assert_eq!(pid_of(Some(logs[0].0)), Some(7));
}

#[test]
fn later_points_have_later_known_attributes() {
    let mut events = events(&[serving(100, 60)], false);
    let mut info = Program::new(100).info;
    info.attributes.push(("k8s.pod.uid".to_owned(), "p-1".to_owned()));
    info.attributes.push(("gen_ai.provider.name".to_owned(), "vllm".to_owned()));
    let half = events.len() / 2;
    events.insert(half, Event::Process(Box::new(info)));
    let output = analysed(&events, Settings::default());
    let last = output.last_of(100);
    assert_eq!(text(&last.resource.as_ref().unwrap().attributes, "k8s.pod.uid"), "p-1");
    let providers = distributions(last, "gpu.step.duration")
        .iter()
        .map(|p| attribute(&p.attributes, "gen_ai.provider.name"));
    assert_eq!(providers.flatten().count(), 2, "decode and prefill again, now with the provider");
}

/// An agent that adopts pinned probes continues the kernel's totals: with a later start, a backend would add what the
/// agent before had reported.
#[test]
fn totals_of_an_earlier_agent_keep_their_start() {
    let mut program = serving(100, 60);
    program.info.since_unix_ns = UNIX - 100 * SECOND;
    let output = analysed(&events(&[program], true), Settings::default());
    let starts = |name: &str| -> Vec<u64> {
        let metrics = metrics(output.last_of(100)).iter().filter(|m| m.name == name);
        let points = metrics.filter_map(|m| m.data.as_ref()).flat_map(|data| match data {
            Data::Sum(s) => s.data_points.iter().map(|p| p.start_time_unix_nano).collect::<Vec<_>>(),
            Data::ExponentialHistogram(h) => h.data_points.iter().map(|p| p.start_time_unix_nano).collect(),
            _ => Vec::new(),
        });
        points.collect()
    };
    for (name, is_continued) in [("gpu.cuda.operation.count", true), ("gpu.step.duration", false)] {
        let starts = starts(name);
        assert!(
            !starts.is_empty() && starts.iter().all(|s| (*s == UNIX - 100 * SECOND) == is_continued),
            "{name}"
        );
    }
}
