//! The causes found of steps that a test made slow.

use super::*;
use crate::causes::QUANTITIES;

const fn ms(ms: f64) -> f64 {
    ms * MS
}

fn usual() -> Usual {
    let mut means = [0.0; QUANTITIES];
    let usual = [
        (Duration, ms(10.0)),
        (Enqueue, ms(2.0)),
        (Wait, ms(8.0)),
        (RunQueueEnqueue, ms(0.1)),
        (CopiedBytes, 1e6),
        (PeerWait, ms(1.0)),
    ];
    usual.into_iter().for_each(|(quantity, mean)| means[quantity as usize] = mean);
    Usual { count: 100, means }
}

/// Returns a usual step with a change; its duration is the sum of its parts.
fn step(change: impl Fn(&mut StepFacts)) -> StepFacts {
    let mut step = StepFacts { values: usual().means.map(Some), throttle: None };
    change(&mut step);
    step.set(Duration, step.get(Enqueue) + step.get(Wait));
    step
}

impl StepFacts {
    fn set(&mut self, quantity: Quantity, value: impl Into<Option<f64>>) {
        self.values[quantity as usize] = value.into();
    }
}

#[track_caller]
fn check(step: StepFacts, expected: &[(CauseKind, f64, Severity)]) {
    let causes = explain(&step, &usual());
    let found: Vec<_> =
        causes.iter().map(|c| (c.kind, (c.share * 100.0).round() / 100.0, c.severity)).collect();
    assert_eq!(found, expected, "{causes:#?}");
    let excess = step.get(Duration) - usual().get(Duration);
    for cause in &causes {
        assert!(!cause.evidence.is_empty() && !cause.advice.is_empty());
        assert!((cause.excess_ns as f64 - cause.share * excess).abs() <= 1.0);
    }
    assert!(causes.iter().map(|c| c.share).sum::<f64>() <= 1.0 + 1e-9);
}

#[test]
fn a_usual_or_fast_step_has_no_cause() {
    check(step(|_| ()), &[]);
    check(step(|s| s.set(Wait, ms(1.0))), &[]);
}

#[test]
fn nothing_is_explained_without_usual_steps() {
    assert_eq!(explain(&step(|s| s.set(Wait, ms(80.0))), &Usual::default()), []);
}

#[test]
fn waiting_for_a_cpu_while_enqueueing_is_a_host_cause() {
    let contended = step(|s| {
        s.set(Enqueue, ms(22.0));
        s.set(RunQueueEnqueue, ms(20.1));
    });
    check(contended, &[(CauseKind::Host, 1.0, Severity::High)]);
    let evidence = &explain(&contended, &usual())[0].evidence;
    assert!(evidence.contains("20.10 ms for a CPU, usually 0.10 ms"), "{evidence}");
}

#[test]
fn a_cpu_wait_after_the_gpu_is_a_host_cause() {
    let late = step(|s| {
        s.set(Wait, ms(14.0));
        s.set(RunQueueWait, ms(6.0));
    });
    check(late, &[(CauseKind::Host, 1.0, Severity::Medium)]);
}

#[test]
fn slow_enqueueing_with_a_cpu_is_a_host_cause() {
    check(step(|s| s.set(Enqueue, ms(6.0))), &[(CauseKind::Host, 1.0, Severity::Low)]);
}

#[test]
fn evidence_mentions_an_unmeasured_run_queue() {
    let blind = step(|s| {
        s.set(Enqueue, ms(30.0));
        s.set(RunQueueEnqueue, None);
    });
    check(blind, &[(CauseKind::Host, 1.0, Severity::High)]);
    assert!(explain(&blind, &usual())[0].evidence.contains("was not measured"));
}

#[test]
fn additional_bytes_are_a_memory_cause_of_bounded_time() {
    let copied = step(|s| {
        s.set(Wait, ms(28.0));
        s.set(CopiedBytes, 61e6);
    });
    check(copied, &[(CauseKind::Memory, 0.5, Severity::Medium), (CauseKind::Unknown, 0.5, Severity::Medium)]);
}

#[test]
fn somewhat_more_bytes_are_not_evidence() {
    let copied = step(|s| {
        s.set(Wait, ms(28.0));
        s.set(CopiedBytes, 1.5e6);
    });
    check(copied, &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn a_longer_wait_without_host_evidence_is_unknown() {
    check(step(|s| s.set(Wait, ms(24.0))), &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn two_causes_share_the_excess_largest_first() {
    let both = step(|s| {
        s.set(Enqueue, ms(5.1));
        s.set(RunQueueEnqueue, ms(3.2));
        s.set(Wait, ms(14.9));
    });
    check(both, &[(CauseKind::Unknown, 0.69, Severity::Medium), (CauseKind::Host, 0.31, Severity::Low)]);
}

#[test]
fn a_share_below_a_tenth_is_not_a_cause() {
    let mostly_device = step(|s| {
        s.set(Enqueue, ms(2.5));
        s.set(Wait, ms(18.0));
    });
    check(mostly_device, &[(CauseKind::Unknown, 0.95, Severity::Medium)]);
}

#[test]
fn a_shorter_part_does_not_inflate_the_other() {
    let shifted = step(|s| {
        s.set(Enqueue, ms(0.0));
        s.set(Wait, ms(20.0));
    });
    check(shifted, &[(CauseKind::Unknown, 1.0, Severity::Medium)]);
}

#[test]
fn severities_have_names() {
    assert_eq!(
        [Severity::Low, Severity::Medium, Severity::High].map(Severity::name),
        ["low", "medium", "high"]
    );
}

#[test]
fn waiting_for_late_ranks_is_a_collective_cause() {
    let late = |s: &mut StepFacts| {
        s.set(Wait, ms(28.0));
        s.set(PeerWait, ms(16.0));
    };
    check(
        step(late),
        &[(CauseKind::Collective, 0.75, Severity::High), (CauseKind::Unknown, 0.25, Severity::Medium)],
    );
    let unseen = |s: &mut StepFacts| {
        s.set(Wait, ms(28.0));
        s.set(PeerWait, None);
    };
    check(step(unseen), &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn peer_wait_is_bounded_by_the_wait_part() {
    let overlapped = |s: &mut StepFacts| {
        s.set(Enqueue, ms(12.0));
        s.set(PeerWait, ms(9.0));
    };
    check(step(overlapped), &[(CauseKind::Host, 1.0, Severity::Medium)]);
}

fn throttled(ns: f64, usual_ns: f64) -> Option<Throttle> {
    let reason = "hw_power_brake";
    Some(Throttle { reason, ns, at_least_ns: ns, at_most_ns: ns, usual_ns })
}

#[test]
fn throttling_takes_its_excess_of_the_wait() {
    let slow = |throttle| {
        step(|s| {
            s.set(Wait, ms(48.0));
            s.throttle = throttle;
        })
    };
    check(
        slow(throttled(ms(31.0), 0.0)),
        &[(CauseKind::Throttle, 0.78, Severity::High), (CauseKind::Unknown, 0.23, Severity::Medium)],
    );
    // Usual throttling is not a cause.
    check(slow(throttled(ms(31.0), ms(31.0))), &[(CauseKind::Unknown, 1.0, Severity::High)]);
    // Throttling does not lengthen the host's part.
    check(
        step(|s| {
            s.set(Enqueue, ms(42.0));
            s.throttle = throttled(ms(31.0), 0.0);
        }),
        &[(CauseKind::Host, 1.0, Severity::High)],
    );
}

#[test]
fn throttling_evidence_gives_the_bounds_of_its_time() {
    let throttle =
        throttled(ms(31.0), 0.0).map(|t| Throttle { at_least_ns: ms(20.0), at_most_ns: ms(40.0), ..t });
    let slow = step(|s| {
        s.set(Wait, ms(48.0));
        s.throttle = throttle;
    });
    let evidence = &explain(&slow, &usual())[0].evidence;
    assert_eq!(
        evidence,
        "hw_power_brake throttled the GPU's clocks for 31.00 ms (between 20.00 and 40.00 ms), usually 0.00 ms"
    );
}
