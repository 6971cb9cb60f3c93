//! The last point of every series.
//!
//! A series has one resource, scope, metric, attribute set and start time, so a source that reports a restart
//! begins a new series. At most [`SERIES_MAX`] series are stored; points of further ones are dropped and counted
//! until stale ones are evicted.

use std::collections::HashMap;
use std::time::Duration;

use component::{ComponentId, Host};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use opentelemetry_proto::tonic::common::v1::KeyValue as Attribute;
use semconv::own_metric;
use tokio::time::Instant;

use super::InitialValue;
use super::difference::{DropReason, Last};
use crate::identity::Identity;
use crate::telemetry;

/// The maximum number of stored series.
const SERIES_MAX: usize = 1_000_000;

/// A point that can be converted to a difference.
pub(super) trait Point {
    /// The value of the attribute `metric_type` of the counters.
    const KIND: &'static str;

    fn attributes(&self) -> &[Attribute];
    /// Returns its start time, which can be changed, and its time, in ns since 1970.
    fn times(&mut self) -> (&mut u64, u64);
    fn has_no_value(&self) -> bool;
    /// Returns the state to store; `None` if the point cannot be converted and is left unchanged.
    fn value(&self) -> Option<Last>;
    /// Subtracts the previous point.
    fn subtract(&mut self, last: &Last) -> Result<(), DropReason>;
    /// Removes minimum and maximum, which are known of the whole time only.
    fn remove_extremes(&mut self);
}

struct Stored {
    time_unix_nano: u64,
    seen: Instant,
    value: Last,
}

/// All series of a processor.
pub(super) struct Series {
    last: HashMap<u128, Stored>,
    initial: InitialValue,
    begin_unix_nano: u64,
    counts: Counts,
    is_full: bool,
}

impl Series {
    pub(super) fn new(initial: InitialValue, begin_unix_nano: u64, counts: Counts) -> Self {
        Series { last: HashMap::new(), initial, begin_unix_nano, counts, is_full: false }
    }

    /// Evicts series without a point for longer than `age`.
    pub(super) fn evict_older_than(&mut self, age: Duration) {
        let now = Instant::now();
        self.last.retain(|_, stored| now.duration_since(stored.seen) < age);
        self.last.shrink_to(self.last.len() * 2);
        self.is_full = false;
    }

    /// Converts a point to a difference; returns false if it is to be dropped.
    pub(super) fn convert<P: Point>(&mut self, metric: &Identity, point: &mut P) -> bool {
        if point.has_no_value() {
            return false;
        }
        let Some(value) = point.value() else { return true };
        let outcome = self.difference(metric, point, value);
        self.counts.add(P::KIND, outcome.err());
        outcome.is_ok()
    }

    fn difference<P: Point>(
        &mut self,
        metric: &Identity,
        point: &mut P,
        value: Last,
    ) -> Result<(), DropReason> {
        let (start, time) = point.times();
        let (start, series) = (*start, (*start, value.kind()));
        let id = metric.clone().with(series).with_attributes(point.attributes()).number();
        let stored = Stored { time_unix_nano: time, seen: Instant::now(), value };
        let Some(last) = self.last.get_mut(&id) else {
            return self.first(id, stored, start).map(|()| point.remove_extremes());
        };
        // The next difference is taken from this point in any case.
        let last = std::mem::replace(last, stored);
        point.subtract(&last.value)?;
        *point.times().0 = last.time_unix_nano;
        point.remove_extremes();
        Ok(())
    }

    /// Returns whether the first point of a series is sent unchanged.
    fn first(&mut self, id: u128, stored: Stored, start: u64) -> Result<(), DropReason> {
        let time = stored.time_unix_nano;
        if self.last.len() >= SERIES_MAX {
            if !std::mem::replace(&mut self.is_full, true) {
                tracing::warn!(
                    series_max = SERIES_MAX,
                    "too many series to remember, dropping points of new ones"
                );
            }
            return Err(DropReason::Full);
        }
        self.last.insert(id, stored);
        let is_ours = start >= self.begin_unix_nano && start != time;
        match self.initial {
            InitialValue::Keep => Ok(()),
            InitialValue::Auto if is_ours => Ok(()),
            InitialValue::Auto | InitialValue::Drop => Err(DropReason::Initial),
        }
    }
}

/// The counters of converted and dropped points.
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

    fn add(&self, kind: &'static str, dropped: Option<DropReason>) {
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
