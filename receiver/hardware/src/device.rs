//! Everything that is said of one device at one pass, as points.

use semconv::value::{GpuHardwareThrottleOrigin as Origin, GpuHardwareThrottleReason as Reason};
use semconv::{attribute, metric};

use crate::driver::{Fault, Identity, Reading};
use crate::known::Known;
use crate::points::Points;
use crate::questions::{Becomes, Question, counted_by};

/// Everything that is said of one device.
pub(crate) fn device(known: &Known, reading: &Reading, points: &mut Points) {
    status(known, reading, points);
    for question in Question::ALL {
        answer(known, reading, question, points);
    }
    memory_share(known, reading, points);
    throttle(known, reading, points);
    for ((error, key, value), count) in &known.reported {
        let others = [(attribute::ERROR_TYPE, *error), (*key, value.as_str())];
        let attributes = points.attributes(metric::HW_ERRORS.attributes(), &known.identity, &others);
        points.count(metric::HW_ERRORS, &attributes, *count, known.since);
    }
    for (number, percent) in reading.fans.iter().enumerate() {
        let fan = Identity {
            id: format!("{}/fan{number}", known.identity.id),
            name: format!("{} fan {number}", known.identity.name),
            parent: known.identity.id.clone(),
            ..Identity::default()
        };
        let attributes = points.attributes(metric::HW_FAN_SPEED_RATIO.attributes(), &fan, &[]);
        points.gauge(metric::HW_FAN_SPEED_RATIO, &attributes, *percent as f64 / 1e2);
    }
}

/// The states of OpenTelemetry's conventions that a GPU can be in.
const STATES: [&str; 4] = ["degraded", "failed", "ok", "predicted_failure"];

fn status(known: &Known, reading: &Reading, points: &mut Points) {
    let is_set = |question| reading.answer(question).is_ok_and(|answer| answer > 0);
    let now = match () {
        () if reading.lost().is_some() => "failed",
        () if is_set(Question::RemappedFailure) => "predicted_failure",
        () if is_set(Question::RemappedPending) => "degraded",
        () => "ok",
    };
    for state in STATES {
        let others = [(attribute::HW_STATE, state)];
        let attributes = points.attributes(metric::HW_STATUS.attributes(), &known.identity, &others);
        points.balance(metric::HW_STATUS, &attributes, u64::from(state == now), known.since);
    }
}

fn answer(known: &Known, reading: &Reading, question: Question, points: &mut Points) {
    let Ok(value) = reading.answer(question) else { return };
    let row = question.row();
    let others = &row.attributes;
    let of = |metric: &semconv::Metric| points.attributes(metric.attributes(), &known.identity, others);
    let start = known.sums[question as usize].map_or(known.since, |sum| sum.start);
    match row.becomes {
        Becomes::Gauge(metric, scale) => points.gauge(metric, &of(&metric), scale.of(value)),
        Becomes::Amount(metric, scale) => points.amount(metric, &of(&metric), scale.of(value), start),
        Becomes::Count(metric) => points.count(metric, &of(&metric), value, start),
        Becomes::Balance(metric) => points.balance(metric, &of(&metric), value, known.since),
        Becomes::Held(_) | Becomes::Part => {}
    }
}

fn memory_share(known: &Known, reading: &Reading, points: &mut Points) {
    let (total, used) = (reading.answer(Question::MemoryTotal), reading.answer(Question::MemoryUsed));
    if let (Ok(total @ 1..), Ok(used)) = (total, used) {
        let metric = metric::HW_GPU_MEMORY_UTILIZATION;
        let attributes = points.attributes(metric.attributes(), &known.identity, &[]);
        points.gauge(metric, &attributes, used as f64 / total as f64);
    }
}

fn throttle(known: &Known, reading: &Reading, points: &mut Points) {
    let reasons = reading.reasons();
    let known_to = points.vendor().reasons;
    let all = Reason::ALL.into_iter().zip(known.held_ns).filter(|(reason, _)| known_to.contains(reason));
    for (reason, held_ns) in all {
        let others = [(attribute::GPU_HARDWARE_THROTTLE_REASON, reason.as_str())];
        if let Some(reasons) = reasons {
            let metric = metric::GPU_HARDWARE_THROTTLE_ACTIVE;
            let attributes = points.attributes(metric.attributes(), &known.identity, &others);
            points.gauge(metric, &attributes, f64::from(u8::from(reasons.has(reason))));
        }
        let counted = counted_by(reason).map(|question| (question, reading.answer(question)));
        let (origin, ns, start) = match counted {
            Some((question, Ok(ns))) => {
                (Origin::Counted, ns, known.sums[question as usize].map_or(known.since, |sum| sum.start))
            }
            None | Some((_, Err(Fault::Unasked | Fault::Unsupported))) if reasons.is_some() => {
                (Origin::Sampled, held_ns, known.since)
            }
            _ => continue,
        };
        let others = [others[0], (attribute::GPU_HARDWARE_THROTTLE_ORIGIN, origin.as_str())];
        let metric = metric::GPU_HARDWARE_THROTTLE_DURATION;
        let attributes = points.attributes(metric.attributes(), &known.identity, &others);
        points.amount(metric, &attributes, ns as f64 / 1e9, start);
    }
}
