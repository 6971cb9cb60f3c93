//! The last point of every series, and what becomes of the next one.
//!
//! A series is what has the same resource, scope, metric, attributes and start: a source that says that it
//! restarted is another series. At most [`SERIES_MAX`] are remembered; points of further ones are dropped and
//! counted, until the sweep has made room.

use std::collections::HashMap;
use std::time::Duration;

use component::{ComponentId, Host};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use opentelemetry_proto::tonic::common::v1::KeyValue as Attribute;
use semconv::own_metric;
use tokio::time::Instant;

use super::InitialValue;
use super::difference::{Last, Why};
use crate::identity::Identity;
use crate::telemetry;

/// Series that are remembered at most.
const SERIES_MAX: usize = 1_000_000;

/// A point that has a difference to the one before it.
pub(super) trait Point {
    /// The attribute `metric_type` of the counts.
    const KIND: &'static str;

    fn attributes(&self) -> &[Attribute];
    /// The times of its start and of itself, in nanoseconds since 1970.
    fn times(&mut self) -> (&mut u64, u64);
    fn has_no_value(&self) -> bool;
    /// Returns the state to store; none if the point cannot be part of a difference and is left unchanged.
    fn value(&self) -> Option<Last>;
    /// Becomes what it is more than `last`.
    fn subtract(&mut self, last: &Last) -> Result<(), Why>;
    /// Loses what is known of the whole time only.
    fn forget_extremes(&mut self);
}

struct Remembered {
    time_unix_nano: u64,
    seen: Instant,
    value: Last,
}

/// All series of a processor.
pub(super) struct Series {
    last: HashMap<u128, Remembered>,
    initial: InitialValue,
    begin_unix_nano: u64,
    counts: Counts,
    is_full: bool,
}

impl Series {
    pub(super) fn new(initial: InitialValue, begin_unix_nano: u64, counts: Counts) -> Self {
        Series { last: HashMap::new(), initial, begin_unix_nano, counts, is_full: false }
    }

    /// Forgets series that brought no point for so long.
    pub(super) fn evict_older_than(&mut self, age: Duration) {
        let now = Instant::now();
        self.last.retain(|_, remembered| now.duration_since(remembered.seen) < age);
        self.last.shrink_to(self.last.len() * 2);
        self.is_full = false;
    }

    /// Makes a point a difference; false where it is to be dropped.
    pub(super) fn convert<P: Point>(&mut self, metric: &Identity, point: &mut P) -> bool {
        if point.has_no_value() {
            return false;
        }
        let Some(value) = point.value() else { return true };
        let outcome = self.difference(metric, point, value);
        self.counts.add(P::KIND, outcome.err());
        outcome.is_ok()
    }

    fn difference<P: Point>(&mut self, metric: &Identity, point: &mut P, value: Last) -> Result<(), Why> {
        let (start, time) = point.times();
        let (start, series) = (*start, (*start, value.kind()));
        let id = metric.clone().with(series).with_attributes(point.attributes()).number();
        let remembered = Remembered { time_unix_nano: time, seen: Instant::now(), value };
        let Some(last) = self.last.get_mut(&id) else {
            return self.first(id, remembered, start).map(|()| point.forget_extremes());
        };
        // Whatever came before, the next difference is to this point.
        let last = std::mem::replace(last, remembered);
        point.subtract(&last.value)?;
        *point.times().0 = last.time_unix_nano;
        point.forget_extremes();
        Ok(())
    }

    /// Whether the first point of a series is handed on, as it is.
    fn first(&mut self, id: u128, remembered: Remembered, start: u64) -> Result<(), Why> {
        let time = remembered.time_unix_nano;
        if self.last.len() >= SERIES_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(
                    series_max = SERIES_MAX,
                    "too many series to remember, dropping points of new ones"
                );
            }
            return Err(Why::Full);
        }
        self.last.insert(id, remembered);
        let is_ours = start >= self.begin_unix_nano && start != time;
        match self.initial {
            InitialValue::Keep => Ok(()),
            InitialValue::Auto if is_ours => Ok(()),
            InitialValue::Auto | InitialValue::Drop => Err(Why::Initial),
        }
    }
}

/// Points that were converted, and that were dropped.
pub(super) struct Counts {
    converted: Counter<u64>,
    dropped: Counter<u64>,
    processor: KeyValue,
}

impl Counts {
    pub(super) fn new(id: &ComponentId, host: &Host) -> Self {
        Counts {
            converted: telemetry::counter(host, own_metric::OTELCOL_CUMULATIVETODELTA_DATAPOINTS),
            dropped: telemetry::counter(host, own_metric::OTELCOL_CUMULATIVETODELTA_DATAPOINTS_DROPPED),
            processor: telemetry::processor(id),
        }
    }

    fn add(&self, kind: &'static str, dropped: Option<Why>) {
        let kind = KeyValue::new("metric_type", kind);
        match dropped {
            None => self.converted.add(1, &[self.processor.clone(), kind]),
            Some(why) => {
                let reason = KeyValue::new("reason", why.reason());
                self.dropped.add(1, &[self.processor.clone(), kind, reason]);
            }
        }
    }
}
