//! Classes of steps whose usual duration is known.

use super::*;
use crate::testing::allocated_bytes;

fn taught(lessons: &[(Class, f64, usize)]) -> Classes {
    let mut classes = Classes::default();
    for (class, ns, times) in lessons {
        (0..*times).for_each(|_| classes.learn(class, ns.ln() as f32));
    }
    classes
}

#[track_caller]
fn check(classes: &Classes, class: Class, expected_ns: Option<f64>) {
    let found = classes.expected(&class).map(|expected| f64::from(expected.log).exp());
    let alike = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
    assert!(
        found.is_some() == expected_ns.is_some() && found.zip(expected_ns).is_none_or(|(a, b)| alike(a, b)),
        "{class:?}: {found:?}, expected {expected_ns:?}"
    );
}

#[test]
fn a_class_is_known_after_a_few_steps() {
    let class = Class::of_graphs(7);
    check(&taught(&[(class, 1e6, KNOWN - 1)]), class, None);
    check(&taught(&[(class, 1e6, KNOWN)]), class, Some(1e6));
    check(&taught(&[(class, 1e6, KNOWN)]), Class::of_graphs(8), None);
}

#[test]
fn one_slow_step_among_the_first_does_not_become_usual() {
    let class = Class::of_graphs(7);
    check(&taught(&[(class, 1e6, 2), (class, 9e6, 1), (class, 1e6, 2)]), class, Some(1e6));
}

#[test]
fn unknown_larger_work_may_take_proportionally_longer() {
    let classes = taught(&[(Class::of_work(0, 1 << 20), 1e6, 9), (Class::of_work(0, 1 << 22), 3e6, 9)]);
    check(&classes, Class::of_work(0, 1 << 24), Some(12e6));
    check(&classes, Class::of_work(0, 1 << 10), Some(1e6));
    check(&classes, Class::of_work(5, 1 << 24), None);
}

#[test]
fn rare_classes_follow_the_drift_of_common_ones() {
    let (common, rare) = (Class::of_graphs(1), Class::of_graphs(2));
    let mut classes = taught(&[(rare, 5e6, 9), (common, 1e6, 100)]);
    for k in 0..2_000 {
        classes.learn(&common, (1e6f64.ln() + 0.3 * f64::from(k) / 2_000.0) as f32);
    }
    let expected = f64::from(classes.expected(&rare).unwrap().log) - 5e6f64.ln();
    assert!((0.15..0.3).contains(&expected), "{expected}");
}

#[test]
fn the_slope_within_a_class_is_learnt() {
    for slope in [0.0, 0.5, 1.0] {
        let mut classes = Classes::default();
        let usual = |work: f64| (slope * (work / 1e6).ln() + 1e6f64.ln()) as f32;
        for k in 0..500 {
            let work = 1e6 * (1.0 + f64::from(k % 7) / 40.0);
            classes.learn(&Class::of_work(0, work as u64), usual(work));
        }
        for work in [1e6, 1.15e6] {
            let expected = classes.expected(&Class::of_work(0, work as u64)).unwrap().log;
            assert!((expected - usual(work)).abs() < 0.005, "{slope}: {expected}, {}", usual(work));
        }
    }
}

#[test]
fn a_shift_moves_every_class() {
    let mut classes = taught(&[(Class::of_graphs(1), 1e6, 9), (Class::of_graphs(2), 5e6, 9)]);
    classes.shift(2f32.ln());
    check(&classes, Class::of_graphs(1), Some(2e6));
    check(&classes, Class::of_graphs(2), Some(10e6));
}

#[test]
fn the_least_recently_used_classes_are_evicted_and_counted() {
    let before = allocated_bytes();
    let mut classes = taught(&[]);
    for graphs in 0..10_000 {
        (0..KNOWN).for_each(|_| classes.learn(&Class::of_graphs(graphs), 1.0));
        classes.learn(&Class::of_graphs(u64::MAX), 1.0);
    }
    assert_eq!(classes.evicted(), 10_001 - CLASSES as u64);
    assert!(classes.expected(&Class::of_graphs(u64::MAX)).is_some());
    assert!(classes.expected(&Class::of_graphs(0)).is_none());
    assert_eq!(allocated_bytes() - before, Classes::BYTES_MAX);
}
