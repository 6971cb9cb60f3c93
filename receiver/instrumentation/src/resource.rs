//! Resources: the attributes of this machine and this program that every signal carries.
//!
//! Identity is on the resource, so that no point repeats it. The caller passes the attributes of the host; a replay has
//! none.

use std::collections::BTreeMap;

use opentelemetry::{KeyValue, Value};
use opentelemetry_proto::tonic::resource::v1::Resource as Encoded;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{ResourceDetector, TelemetryResourceDetector};
use semconv::attribute;

use crate::ids::Hash;

/// Name of this program in `telemetry.distro.name` and `service.name`.
const DISTRO: &str = "warptap";
/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the resource of the receiver's own metrics.
pub fn receiver(host: &[(String, String)]) -> Resource {
    let mut all = common(host);
    all.insert(attribute::SERVICE_INSTANCE_ID.to_owned(), instance("receiver", host).uuid().into());
    all.insert(attribute::SERVICE_NAME.to_owned(), DISTRO.into());
    all.insert(attribute::SERVICE_VERSION.to_owned(), VERSION.into());
    built(all)
}

/// Converts a resource to OTLP with sorted attributes; the SDK stores them without order.
pub fn encoded(resource: &Resource) -> Encoded {
    let mut encoded = Encoded::from(resource);
    encoded.attributes.sort_by(|a, b| a.key.cmp(&b.key));
    encoded
}

/// Returns the attributes of the machine and of this program by key.
pub fn common(host: &[(String, String)]) -> BTreeMap<String, Value> {
    let sdk = TelemetryResourceDetector.detect();
    let mut all: BTreeMap<String, Value> = sdk.iter().map(|(k, v)| (k.to_string(), v.clone())).collect();
    all.extend(host.iter().map(|(key, value)| (key.clone(), value.clone().into())));
    all.insert(attribute::TELEMETRY_DISTRO_NAME.to_owned(), DISTRO.into());
    all.insert(attribute::TELEMETRY_DISTRO_VERSION.to_owned(), VERSION.into());
    all
}

/// Builds a resource of these attributes.
pub fn built(all: BTreeMap<String, Value>) -> Resource {
    let attributes = all.into_iter().map(|(key, value)| KeyValue::new(key, value));
    Resource::builder_empty().with_schema_url(attributes, semconv::UPSTREAM_SCHEMA_URL).build()
}

/// Starts the hash of a stable id from the kind of thing and the machine.
pub fn instance(kind: &str, host: &[(String, String)]) -> Hash {
    host.iter().fold(Hash::of(kind), |hash, (key, value)| hash.with(key.as_bytes()).with(value.as_bytes()))
}

/// Reads the attributes of this machine. Attributes that cannot be read are left out.
pub fn host() -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let rows = [
        (attribute::HOST_ARCH, Some(architecture().to_owned())),
        (attribute::HOST_ID, read("/etc/machine-id")),
        (attribute::HOST_NAME, read("/proc/sys/kernel/hostname")),
        (attribute::OS_TYPE, Some(std::env::consts::OS.to_owned())),
    ];
    let known = rows.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns `host.arch` as the semantic conventions name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_architecture_and_operating_system() {
        let host = host();
        assert!(host.iter().any(|(key, _)| key == "host.arch"));
        assert!(host.iter().any(|(key, value)| key == "os.type" && value == "linux"));
    }
}
