//! Metric points of one device at one poll.

use semconv::value::{GpuHardwareThrottleOrigin as Origin, GpuHardwareThrottleReason as Reason};
use semconv::{attribute, metric};

use crate::device_state::DeviceState;
use crate::driver::{Fault, Identity, Reading};
use crate::points::Points;
use crate::queries::{DriverQuery, Mapping, duration_query};

/// Adds all points of a device.
pub(crate) fn device_points(known: &DeviceState, reading: &Reading, points: &mut Points) {
    status(known, reading, points);
    for query in DriverQuery::ALL {
        value(known, reading, query, points);
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

/// Values of `hw.state` that a GPU can have, by the semantic conventions.
const STATES: [&str; 4] = ["degraded", "failed", "ok", "predicted_failure"];

fn status(known: &DeviceState, reading: &Reading, points: &mut Points) {
    let is_set = |query| reading.value(query).is_ok_and(|value| value > 0);
    let now = match () {
        () if reading.lost().is_some() => "failed",
        () if is_set(DriverQuery::RemappedFailure) => "predicted_failure",
        () if is_set(DriverQuery::RemappedPending) => "degraded",
        () => "ok",
    };
    for state in STATES {
        let others = [(attribute::HW_STATE, state)];
        let attributes = points.attributes(metric::HW_STATUS.attributes(), &known.identity, &others);
        points.balance(metric::HW_STATUS, &attributes, u64::from(state == now), known.since);
    }
}

fn value(known: &DeviceState, reading: &Reading, query: DriverQuery, points: &mut Points) {
    let Ok(value) = reading.value(query) else { return };
    let row = query.row();
    let others = &row.attributes;
    let of = |metric: &semconv::Metric| points.attributes(metric.attributes(), &known.identity, others);
    let start = known.sums[query as usize].map_or(known.since, |sum| sum.start);
    match row.mapping {
        Mapping::Gauge(metric, scale) => points.gauge(metric, &of(&metric), scale.of(value)),
        Mapping::Amount(metric, scale) => points.amount(metric, &of(&metric), scale.of(value), start),
        Mapping::Count(metric) => points.count(metric, &of(&metric), value, start),
        Mapping::Balance(metric) => points.balance(metric, &of(&metric), value, known.since),
        Mapping::Throttled(_) | Mapping::Part => {}
    }
}

fn memory_share(known: &DeviceState, reading: &Reading, points: &mut Points) {
    let (total, used) = (reading.value(DriverQuery::MemoryTotal), reading.value(DriverQuery::MemoryUsed));
    if let (Ok(total @ 1..), Ok(used)) = (total, used) {
        let metric = metric::HW_GPU_MEMORY_UTILIZATION;
        let attributes = points.attributes(metric.attributes(), &known.identity, &[]);
        points.gauge(metric, &attributes, used as f64 / total as f64);
    }
}

fn throttle(known: &DeviceState, reading: &Reading, points: &mut Points) {
    let reasons = reading.reasons();
    let known_to = points.vendor().reasons;
    let all = Reason::ALL.into_iter().zip(known.throttled_ns).filter(|(reason, _)| known_to.contains(reason));
    for (reason, throttled_ns) in all {
        let others = [(attribute::GPU_HARDWARE_THROTTLE_REASON, reason.as_str())];
        if let Some(reasons) = reasons {
            let metric = metric::GPU_HARDWARE_THROTTLE_ACTIVE;
            let attributes = points.attributes(metric.attributes(), &known.identity, &others);
            points.gauge(metric, &attributes, f64::from(u8::from(reasons.has(reason))));
        }
        let counted = duration_query(reason).map(|query| (query, reading.value(query)));
        let (origin, ns, start) = match counted {
            Some((query, Ok(ns))) => {
                (Origin::Counted, ns, known.sums[query as usize].map_or(known.since, |sum| sum.start))
            }
            None | Some((_, Err(Fault::NotQueried | Fault::Unsupported))) if reasons.is_some() => {
                (Origin::Sampled, throttled_ns, known.since)
            }
            _ => continue,
        };
        let others = [others[0], (attribute::GPU_HARDWARE_THROTTLE_ORIGIN, origin.as_str())];
        let metric = metric::GPU_HARDWARE_THROTTLE_DURATION;
        let attributes = points.attributes(metric.attributes(), &known.identity, &others);
        points.amount(metric, &attributes, ns as f64 / 1e9, start);
    }
}
