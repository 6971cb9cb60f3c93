//! An outlier on a throttled GPU: its span, its log record and the metric have the same values.

#![allow(clippy::unwrap_used, reason = "a panic in a test is its report")]

mod common;

use common::*;
use event::{Clocks, Device, Event, ThrottleReason, ThrottleTime};
use gpu::Settings;

/// Analyzes a decode of 400 ms instead of 5, with polls of two GPUs every 10 ms; this one is throttled for 300 ms.
fn throttled(device: u32) -> Output {
    let mut server = Program::new(100);
    server.serve(200, 5 * MS);
    let begins_ns = server.now_ns;
    server.decode(400 * MS);
    server.serve(100, 5 * MS);
    let mut all = events(&[server], false);
    let times = || all.iter().filter_map(Event::at_ns).filter(|at_ns| *at_ns > 0);
    let (first, last) = (times().min().unwrap(), times().max().unwrap());
    let seen = |index: u32| {
        let processes = if index == 0 { vec![100] } else { Vec::new() };
        let id = format!("GPU-{index}");
        Event::Device(Box::new(Device { at_ns: first, index, id, pci: String::new(), processes }))
    };
    let look = |index: u32, at: u64| {
        let (from_ns, to_ns) = (first + at * 10 * MS, first + (at + 1) * 10 * MS);
        let brake = (begins_ns + 50 * MS, begins_ns + 350 * MS);
        let ns = to_ns.min(brake.1).saturating_sub(from_ns.max(brake.0));
        let held = ThrottleTime { reason: ThrottleReason::HwPowerBrake, ns, is_counted: true };
        let held = (ns > 0 && index == device).then_some(held).into_iter().collect();
        Event::Clocks(Clocks { from_ns, to_ns, device: index, throttled: held })
    };
    let looks = (0..2).flat_map(|index| (0..=(last - first) / (10 * MS)).map(move |at| look(index, at)));
    all.extend([seen(0), seen(1)].into_iter().chain(looks.collect::<Vec<_>>()));
    all.sort_by_key(|event| event.at_ns().unwrap_or(0));
    analysed(&all, Settings::default())
}

#[test]
fn throttling_is_on_the_span_the_log_and_the_metric() {
    let output = throttled(0);
    let [span] = output.outliers()[..] else { panic!("one outlier") };
    let (_, record) = output.logs("gpu.step.outlier")[0];
    for attributes in [&span.attributes, &record.attributes] {
        assert_eq!(text(attributes, "hw.id"), "GPU-0");
        assert_eq!(text(attributes, "gpu.step.gpu.certainty"), "listed");
        assert_eq!(text(attributes, "gpu.step.throttle.reasons"), "hw_power_brake");
        assert_eq!(number(attributes, "gpu.step.throttle.duration"), 0.3);
        assert_eq!(text(attributes, "gpu.step.cause"), "throttle");
        let share = number(attributes, "gpu.step.throttle.share");
        assert!((share - 0.3 / number(attributes, "gpu.step.duration")).abs() < 1e-9, "{share}");
    }
    let body = show(record.body.as_ref());
    assert!(
        body.ends_with("hw_power_brake throttled the GPU's clocks for 300.00 ms, usually 0.00 ms"),
        "{body}"
    );
    let outliers = values(output.last_of(100), "gpu.step.outliers");
    let (key, count) = outliers.iter().next().unwrap();
    assert!(key.contains("gpu.step.cause=throttle") && *count == 1.0, "{outliers:?}");
}

#[test]
fn throttling_of_another_gpu_is_not_a_cause() {
    let output = throttled(1);
    let [span] = output.outliers()[..] else { panic!("one outlier") };
    assert_eq!(text(&span.attributes, "hw.id"), "GPU-0");
    assert!(span.attributes.iter().all(|a| !a.key.starts_with("gpu.step.throttle")), "{:?}", span.attributes);
    assert_ne!(text(&span.attributes, "gpu.step.cause"), "throttle");
}
