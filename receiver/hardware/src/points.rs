//! Points of one poll, through instruments of the OpenTelemetry SDK that exist for that poll only.
//!
//! An instrument that outlived the poll would repeat the last value of a lost device. The driver's sums are absolute, so
//! that only their start times are carried over.

use std::collections::BTreeMap;

use instrumentation::{Instruments, normalize_with_start};
use opentelemetry::metrics::{Counter, Gauge, UpDownCounter};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::common::v1::{KeyValue as Encoded, any_value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use semconv::attribute;

use crate::driver::{Identity, Vendor};

/// Expected number of values of `error.type` on one device, from queries and reported errors.
const ERRORS_EXPECTED: usize = 32;
/// The value of `hw.type`.
const TYPE: &str = "gpu";

/// The points of one poll.
pub(crate) struct Points {
    vendor: Vendor,
    instruments: Instruments,
    amounts: BTreeMap<&'static str, Counter<f64>>,
    balances: BTreeMap<&'static str, UpDownCounter<i64>>,
    counts: BTreeMap<&'static str, Counter<u64>>,
    gauges: BTreeMap<&'static str, Gauge<f64>>,
    starts: BTreeMap<Series, u64>,
}

/// A metric name and sorted attributes.
type Series = (String, Vec<(String, String)>);

impl Points {
    /// Returns an empty set of points for `devices` devices.
    pub(crate) fn of(devices: usize, vendor: Vendor, scope: InstrumentationScope) -> Points {
        let expected = move |key: &str| match key {
            attribute::HW_ID => devices.max(1),
            attribute::HW_STATE => 4,
            attribute::HW_GPU_TASK => 3,
            attribute::HW_SENSOR_LOCATION => 3,
            attribute::GPU_HARDWARE_LINK | attribute::NETWORK_IO_DIRECTION => 2,
            attribute::ERROR_TYPE => ERRORS_EXPECTED,
            _ => 1,
        };
        Points {
            vendor,
            instruments: Instruments::new(scope, expected),
            amounts: BTreeMap::new(),
            balances: BTreeMap::new(),
            counts: BTreeMap::new(),
            gauges: BTreeMap::new(),
            starts: BTreeMap::new(),
        }
    }

    /// Returns the vendor of the devices.
    pub(crate) fn vendor(&self) -> Vendor {
        self.vendor
    }

    /// Returns the attributes of a device for a metric, see [`attributes`].
    pub(crate) fn attributes(
        &self,
        uses: &[semconv::Use],
        device: &Identity,
        others: &[(&'static str, &str)],
    ) -> Vec<KeyValue> {
        attributes(self.vendor, uses, device, others)
    }

    /// Records a gauge.
    pub(crate) fn gauge(&mut self, metric: semconv::Gauge, attributes: &[KeyValue], value: f64) {
        let make = || self.instruments.f64_gauge(metric);
        self.gauges.entry(metric.name()).or_insert_with(make).record(value, attributes);
    }

    /// Records a floating-point sum since `start`.
    pub(crate) fn amount(
        &mut self,
        metric: semconv::Counter,
        attributes: &[KeyValue],
        value: f64,
        start: u64,
    ) {
        self.starts.insert(series(metric.name(), attributes), start);
        let make = || self.instruments.f64_counter(metric);
        self.amounts.entry(metric.name()).or_insert_with(make).add(value, attributes);
    }

    /// Records an integer sum since `start`.
    pub(crate) fn count(
        &mut self,
        metric: semconv::Counter,
        attributes: &[KeyValue],
        value: u64,
        start: u64,
    ) {
        self.starts.insert(series(metric.name(), attributes), start);
        let make = || self.instruments.u64_counter(metric);
        self.counts.entry(metric.name()).or_insert_with(make).add(value, attributes);
    }

    /// Records an up-down sum since `start`.
    pub(crate) fn balance(
        &mut self,
        metric: semconv::UpDownCounter,
        attributes: &[KeyValue],
        value: u64,
        start: u64,
    ) {
        self.starts.insert(series(metric.name(), attributes), start);
        let make = || self.instruments.up_down_counter(metric);
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.balances.entry(metric.name()).or_insert_with(make).add(value, attributes);
    }

    /// Collects the points with the end time `time`.
    pub(crate) fn collect(mut self, time: u64) -> Vec<Metric> {
        let mut metrics = self.instruments.collect();
        let starts = self.starts;
        normalize_with_start(&mut metrics, time, &|name, attributes| {
            starts.get(&(name.to_owned(), attributes.iter().map(pair).collect())).copied().unwrap_or(time)
        });
        metrics
    }
}

fn series(name: &str, attributes: &[KeyValue]) -> Series {
    let pair = |a: &KeyValue| (a.key.as_str().to_owned(), a.value.as_str().into_owned());
    let mut pairs: Vec<(String, String)> = attributes.iter().map(pair).collect();
    pairs.sort();
    (name.to_owned(), pairs)
}

fn pair(attribute: &Encoded) -> (String, String) {
    let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
    let text = match value {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    };
    (attribute.key.clone(), text)
}

/// Returns the attributes that the registry declares for a metric or event: those of the device, and `others`.
pub(crate) fn attributes(
    vendor: Vendor,
    uses: &[semconv::Use],
    device: &Identity,
    others: &[(&'static str, &str)],
) -> Vec<KeyValue> {
    let of = |key: &'static str| {
        let other = others.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        let value = other.unwrap_or_else(|| known(vendor, device, key));
        (!value.is_empty()).then(|| KeyValue::new(key, value.to_owned()))
    };
    uses.iter().filter_map(|used| of(used.key)).collect()
}

fn known<'a>(vendor: Vendor, device: &'a Identity, key: &str) -> &'a str {
    match key {
        attribute::GPU_PCI_ADDRESS => &device.pci,
        attribute::HW_DRIVER_VERSION => &device.driver,
        attribute::HW_FIRMWARE_VERSION => &device.firmware,
        attribute::HW_ID => &device.id,
        attribute::HW_MODEL => &device.model,
        attribute::HW_NAME => &device.name,
        attribute::HW_PARENT => &device.parent,
        attribute::HW_SERIAL_NUMBER => &device.serial,
        attribute::HW_TYPE => TYPE,
        attribute::HW_VENDOR => vendor.name,
        _ => "",
    }
}
