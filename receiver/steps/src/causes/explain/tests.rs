//! Causes against steps whose cause is known because the test put it there.

use super::*;

const fn ms(ms: f64) -> f64 {
    ms * MS
}

fn usual() -> Usual {
    Usual {
        count: 100,
        duration_ns: ms(10.0),
        enqueue_ns: ms(2.0),
        wait_ns: ms(8.0),
        runq_enqueue_ns: ms(0.1),
        runq_wait_ns: 0.0,
        collective_wait_ns: ms(1.0),
        copied_bytes: 1e6,
    }
}

/// A step like the usual one but for what `change` does; its duration follows from its parts.
fn step(change: impl Fn(&mut StepFacts)) -> StepFacts {
    let mut step = StepFacts {
        duration_ns: 0.0,
        enqueue_ns: ms(2.0),
        wait_ns: ms(8.0),
        runq_enqueue_ns: Some(ms(0.1)),
        runq_wait_ns: Some(0.0),
        collective_wait_ns: Some(ms(1.0)),
        copied_bytes: 1e6,
        throttle: None,
    };
    change(&mut step);
    step.duration_ns = step.enqueue_ns + step.wait_ns;
    step
}

#[track_caller]
fn check(step: StepFacts, expected: &[(CauseKind, f64, Severity)]) {
    let causes = explain(&step, &usual());
    let found: Vec<_> =
        causes.iter().map(|c| (c.kind, (c.share * 100.0).round() / 100.0, c.severity)).collect();
    assert_eq!(found, expected, "{causes:#?}");
    let excess = step.duration_ns - usual().duration_ns;
    for cause in &causes {
        assert!(!cause.evidence.is_empty() && !cause.advice.is_empty());
        assert!((cause.excess_ns as f64 - cause.share * excess).abs() <= 1.0);
    }
    assert!(causes.iter().map(|c| c.share).sum::<f64>() <= 1.0 + 1e-9);
}

#[test]
fn a_usual_or_fast_step_has_no_cause() {
    check(step(|_| ()), &[]);
    check(step(|s| s.wait_ns = ms(1.0)), &[]);
}

#[test]
fn nothing_is_explained_without_something_to_compare_with() {
    assert_eq!(explain(&step(|s| s.wait_ns = ms(80.0)), &Usual::default()), []);
}

#[test]
fn waiting_for_a_cpu_while_enqueueing_is_the_host() {
    let contended = step(|s| {
        s.enqueue_ns = ms(22.0);
        s.runq_enqueue_ns = Some(ms(20.1));
    });
    check(contended, &[(CauseKind::Host, 1.0, Severity::High)]);
    let evidence = &explain(&contended, &usual())[0].evidence;
    assert!(evidence.contains("20.10 ms for a CPU, usually 0.10 ms"), "{evidence}");
}

#[test]
fn waiting_for_a_cpu_after_the_gpu_was_done_is_the_host() {
    let late = step(|s| {
        s.wait_ns = ms(14.0);
        s.runq_wait_ns = Some(ms(6.0));
    });
    check(late, &[(CauseKind::Host, 1.0, Severity::Medium)]);
}

#[test]
fn a_slow_host_with_a_cpu_to_run_on_is_the_host_too() {
    check(step(|s| s.enqueue_ns = ms(6.0)), &[(CauseKind::Host, 1.0, Severity::Low)]);
}

#[test]
fn evidence_says_when_the_run_queue_was_not_seen() {
    let blind = step(|s| {
        s.enqueue_ns = ms(30.0);
        s.runq_enqueue_ns = None;
    });
    check(blind, &[(CauseKind::Host, 1.0, Severity::High)]);
    assert!(explain(&blind, &usual())[0].evidence.contains("was not seen"));
}

#[test]
fn more_bytes_than_usual_are_memory_for_as_long_as_they_may_have_taken() {
    let copied = step(|s| {
        s.wait_ns = ms(28.0);
        s.copied_bytes = 61e6;
    });
    check(copied, &[(CauseKind::Memory, 0.5, Severity::Medium), (CauseKind::Unknown, 0.5, Severity::Medium)]);
}

#[test]
fn somewhat_more_bytes_are_no_evidence() {
    let copied = step(|s| {
        s.wait_ns = ms(28.0);
        s.copied_bytes = 1.5e6;
    });
    check(copied, &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn a_longer_wait_without_host_evidence_is_unknown() {
    check(step(|s| s.wait_ns = ms(24.0)), &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn two_causes_share_the_excess_largest_first() {
    let both = step(|s| {
        s.enqueue_ns = ms(5.1);
        s.runq_enqueue_ns = Some(ms(3.2));
        s.wait_ns = ms(14.9);
    });
    check(both, &[(CauseKind::Unknown, 0.69, Severity::Medium), (CauseKind::Host, 0.31, Severity::Low)]);
}

#[test]
fn a_share_below_a_tenth_is_not_a_cause() {
    let mostly_device = step(|s| {
        s.enqueue_ns = ms(2.5);
        s.wait_ns = ms(18.0);
    });
    check(mostly_device, &[(CauseKind::Unknown, 0.95, Severity::Medium)]);
}

#[test]
fn a_part_that_was_shorter_than_usual_does_not_inflate_the_other() {
    let shifted = step(|s| {
        s.enqueue_ns = ms(0.0);
        s.wait_ns = ms(20.0);
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
fn a_wait_for_ranks_that_had_not_come_is_the_others_fault() {
    let late = |s: &mut StepFacts| {
        s.wait_ns = ms(28.0);
        s.collective_wait_ns = Some(ms(16.0));
    };
    check(
        step(late),
        &[(CauseKind::Collective, 0.75, Severity::High), (CauseKind::Unknown, 0.25, Severity::Medium)],
    );
    let unseen = |s: &mut StepFacts| (s.wait_ns, s.collective_wait_ns) = (ms(28.0), None);
    check(step(unseen), &[(CauseKind::Unknown, 1.0, Severity::High)]);
}

#[test]
fn no_more_is_blamed_on_others_than_was_waited() {
    let overlapped = |s: &mut StepFacts| (s.enqueue_ns, s.collective_wait_ns) = (ms(12.0), Some(ms(9.0)));
    check(step(overlapped), &[(CauseKind::Host, 1.0, Severity::Medium)]);
}

fn throttled(ns: f64, usual_ns: f64) -> Option<Throttle> {
    let reason = "hw_power_brake";
    Some(Throttle { reason, ns, at_least_ns: ns, at_most_ns: ns, usual_ns })
}

#[test]
fn slow_clocks_take_as_much_of_the_wait_as_they_lasted_beyond_the_usual() {
    let slow = |throttle| {
        step(|s| {
            s.wait_ns = ms(48.0);
            s.throttle = throttle;
        })
    };
    check(
        slow(throttled(ms(31.0), 0.0)),
        &[(CauseKind::Throttle, 0.78, Severity::High), (CauseKind::Unknown, 0.23, Severity::Medium)],
    );
    // As it always is: no cause of this step.
    check(slow(throttled(ms(31.0), ms(31.0))), &[(CauseKind::Unknown, 1.0, Severity::High)]);
    // What the host took is not the clocks'.
    check(
        step(|s| {
            s.enqueue_ns = ms(42.0);
            s.throttle = throttled(ms(31.0), 0.0);
        }),
        &[(CauseKind::Host, 1.0, Severity::High)],
    );
}

#[test]
fn the_evidence_says_how_sure_the_time_is() {
    let throttle =
        throttled(ms(31.0), 0.0).map(|t| Throttle { at_least_ns: ms(20.0), at_most_ns: ms(40.0), ..t });
    let slow = step(|s| {
        s.wait_ns = ms(48.0);
        s.throttle = throttle;
    });
    let evidence = &explain(&slow, &usual())[0].evidence;
    assert_eq!(
        evidence,
        "hw_power_brake held the GPU's clocks down for 31.00 ms (between 20.00 and 40.00 ms), usually 0.00 ms"
    );
}
