//! How the libraries of processes are found, and how long that takes: internal telemetry of the receiver.

use event::{EvictionReason, FileCounts, RefusalReason};
use instrumentation::TimeRange;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use semconv::value::{WarptapDiscoveryEvictionReason, WarptapDiscoveryMethod, WarptapDiscoveryRefusalReason};
use semconv::{attribute, metric};

use crate::points::{Durations, count, gauges, histograms, sums, text};

/// The discovery of libraries, if the source has one.
#[derive(Debug, Default)]
pub(crate) struct Discovery {
    /// `None` until the source has reported it.
    method: Option<WarptapDiscoveryMethod>,
    mappings_lost: u64,
    unreached: u64,
    files: FileCounts,
    /// Times from the mapping of libraries to their probes.
    arming: Durations,
}

impl Discovery {
    /// Sets the method, the number of mappings whose report was lost, and of processes that ended too early.
    pub(crate) fn update(&mut self, follows_mappings: bool, mappings_lost: u64, unreached: u64) {
        self.method = Some(match follows_mappings {
            true => WarptapDiscoveryMethod::Mappings,
            false => WarptapDiscoveryMethod::Scans,
        });
        (self.mappings_lost, self.unreached) = (mappings_lost, unreached);
    }

    /// Sets the numbers of files that are not probed.
    pub(crate) fn set_files(&mut self, files: FileCounts) {
        self.files = files;
    }

    /// Adds the time from a mapping to the probes of the library.
    pub(crate) fn arm(&mut self, mapped_ns: u64, armed_ns: u64) {
        self.arming.add(armed_ns.saturating_sub(mapped_ns));
    }

    /// Returns the metrics; none of a source that finds no libraries, such as a profiler trace.
    pub(crate) fn metrics(&self, window: TimeRange) -> Vec<Metric> {
        let Some(active) = self.method else { return Vec::new() };
        let point = |method: WarptapDiscoveryMethod| {
            let attributes = vec![text(attribute::WARPTAP_DISCOVERY_METHOD, method.as_str())];
            (attributes, count(u64::from(method == active)))
        };
        let methods = WarptapDiscoveryMethod::ALL.map(point).to_vec();
        let alone = |value| vec![(Vec::new(), count(value))];
        let mut metrics = vec![
            gauges(metric::WARPTAP_DISCOVERY_ACTIVE, window, methods),
            sums(metric::WARPTAP_DISCOVERY_FILES_EVICTED, window, evicted(&self.files)),
            sums(metric::WARPTAP_DISCOVERY_FILES_REFUSED, window, refused(&self.files)),
            sums(metric::WARPTAP_DISCOVERY_INSPECTIONS_UNANSWERED, window, alone(self.files.unanswered)),
            sums(metric::WARPTAP_DISCOVERY_MAPPINGS_LOST, window, alone(self.mappings_lost)),
            sums(metric::WARPTAP_DISCOVERY_SCANS_POSTPONED, window, alone(self.files.postponed)),
            sums(metric::WARPTAP_DISCOVERY_UNREACHED, window, alone(self.unreached)),
        ];
        if self.arming.count() > 0 {
            let all = vec![(Vec::new(), self.arming.clone())];
            metrics.push(histograms(metric::WARPTAP_DISCOVERY_ARM_DURATION, window, all));
        }
        metrics
    }
}

fn evicted(files: &FileCounts) -> Vec<(Vec<KeyValue>, Value)> {
    let name = |reason| match reason {
        EvictionReason::OverShare => WarptapDiscoveryEvictionReason::OverShare,
        EvictionReason::Refused => WarptapDiscoveryEvictionReason::Refused,
        EvictionReason::Unused => WarptapDiscoveryEvictionReason::Unused,
    };
    let point = |(reason, number)| {
        (vec![text(attribute::WARPTAP_DISCOVERY_EVICTION_REASON, name(reason).as_str())], count(number))
    };
    EvictionReason::ALL.into_iter().zip(files.evicted).map(point).collect()
}

fn refused(files: &FileCounts) -> Vec<(Vec<KeyValue>, Value)> {
    let name = |reason| match reason {
        RefusalReason::Inaccessible => WarptapDiscoveryRefusalReason::Inaccessible,
        RefusalReason::Irregular => WarptapDiscoveryRefusalReason::Irregular,
        RefusalReason::Malformed => WarptapDiscoveryRefusalReason::Malformed,
        RefusalReason::NoFunctions => WarptapDiscoveryRefusalReason::NoFunctions,
        RefusalReason::NotAttached => WarptapDiscoveryRefusalReason::NotAttached,
        RefusalReason::Replaced => WarptapDiscoveryRefusalReason::Replaced,
        RefusalReason::TooLarge => WarptapDiscoveryRefusalReason::TooLarge,
        RefusalReason::Untrusted => WarptapDiscoveryRefusalReason::Untrusted,
    };
    let point = |(reason, number)| {
        (vec![text(attribute::WARPTAP_DISCOVERY_REFUSAL_REASON, name(reason).as_str())], count(number))
    };
    RefusalReason::ALL.into_iter().zip(files.refused).map(point).collect()
}
