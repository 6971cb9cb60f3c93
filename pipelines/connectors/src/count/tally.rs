//! The counts of one kind of item of one resource, and their metrics: a delta for each count that is not zero, from the
//! earliest to the latest time of an item.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::common::v1::{KeyValue, KeyValueList};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, NumberDataPoint, Sum};
use pdata::{ItemRef, Origin};
use prost::Message;

use super::Definition;

pub(super) struct Tally<'a> {
    counts: Vec<Counted<'a>>,
    times: Option<(u64, u64)>,
}

/// One count by attributes, in the order of their first occurrence.
struct Counted<'a> {
    definition: &'a Definition,
    /// Indexes into `numbers` by encoded attributes.
    indexes: HashMap<Vec<u8>, usize>,
    numbers: Vec<(Vec<KeyValue>, i64)>,
}

impl<'a> Tally<'a> {
    pub(super) fn new(definitions: &'a [Definition]) -> Self {
        let counted = |definition| Counted { definition, indexes: HashMap::new(), numbers: Vec::new() };
        Tally { counts: definitions.iter().map(counted).collect(), times: None }
    }

    /// Counts an item.
    pub(super) fn add(&mut self, origin: Origin<'_>, item: ItemRef<'_>) {
        for time in times(item).into_iter().filter(|time| *time > 0) {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
        self.counts.iter_mut().for_each(|counted| counted.add(origin, item));
    }

    pub(super) fn into_metrics(self) -> Vec<Metric> {
        let (start, time) = self.times.unwrap_or_else(|| {
            let now = now_unix_nanos();
            (now, now)
        });
        let counted = self.counts.into_iter().filter(|counted| !counted.numbers.is_empty());
        counted.map(|counted| counted.into_metric(start, time)).collect()
    }
}

/// Returns the times of an item in ns since 1970; 0 if it has none.
fn times(item: ItemRef<'_>) -> [u64; 2] {
    match item {
        ItemRef::Span(span) => [span.start_time_unix_nano, span.end_time_unix_nano],
        ItemRef::SpanEvent(_, event) => [event.time_unix_nano; 2],
        ItemRef::Point(_, point) => [point.time_unix_nano(); 2],
        ItemRef::LogRecord(record) => [record.time_unix_nano; 2],
        ItemRef::Metric(_) | ItemRef::Profile(_) => [0; 2],
    }
}

#[expect(clippy::cast_possible_truncation, reason = "until the year 2554")]
fn now_unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Counted<'_> {
    fn add(&mut self, origin: Origin<'_>, item: ItemRef<'_>) {
        let Some(values) = self.attributes(origin, item) else { return };
        let conditions = &self.definition.conditions;
        if !conditions.is_empty() && !conditions.iter().any(|condition| condition.holds(origin, item)) {
            return;
        }
        let list = KeyValueList { values };
        let index = *self.indexes.entry(list.encode_to_vec()).or_insert(self.numbers.len());
        match self.numbers.get_mut(index) {
            Some((_, number)) => *number += 1,
            None => self.numbers.push((list.values, 1)),
        }
    }

    /// Returns the attributes that the item is counted by. Its own attributes take precedence over those of its scope,
    /// and those over the resource's. None if an attribute is absent and has no default.
    fn attributes(&self, origin: Origin<'_>, item: ItemRef<'_>) -> Option<Vec<KeyValue>> {
        let owners = [item.attributes(), origin.scope_attributes(), origin.resource_attributes()];
        let found = |key: &String| owners.iter().copied().flatten().find(|a| a.key == *key);
        let wanted = self.definition.attributes.iter();
        let values = wanted.map(|(key, default)| {
            let value =
                found(key).map(|a| a.value.clone().unwrap_or_default()).or_else(|| default.clone())?;
            Some(KeyValue { key: key.clone(), value: Some(value), ..KeyValue::default() })
        });
        values.collect()
    }

    fn into_metric(self, start: u64, time: u64) -> Metric {
        let point = |(attributes, number)| NumberDataPoint {
            attributes,
            start_time_unix_nano: start,
            time_unix_nano: time,
            value: Some(NumberValue::AsInt(number)),
            ..NumberDataPoint::default()
        };
        let sum = Sum {
            data_points: self.numbers.into_iter().map(point).collect(),
            aggregation_temporality: AggregationTemporality::Delta as i32,
            is_monotonic: true,
        };
        let Definition { name, description, .. } = self.definition;
        let (name, description) = (name.clone(), description.clone());
        Metric { name, description, data: Some(MetricData::Sum(sum)), ..Metric::default() }
    }
}
