//! The resource of another process: the same attributes whichever receiver reports on it.
//!
//! Points carry no pid, because the resource identifies the process. Known attributes (`k8s.*`, a configured
//! service name) take precedence over inferred ones. The program supplies the attributes of the host; a replay has
//! none.

use event::ProcessInfo;
use opentelemetry_sdk::Resource;
use semconv::attribute;

use crate::resource::{built, common, instance};
use crate::service::service_name;

/// Unit of the start time in `service.instance.id`, ns. The kernel reports it exactly, /proc in hundredths of a second.
const START_UNIT_NS: u64 = 10_000_000;

/// Returns the resource of a process.
pub fn process(info: &ProcessInfo, host: &[(String, String)]) -> Resource {
    let mut all = common(host);
    let texts = [
        (attribute::CONTAINER_ID, &info.container_id),
        (attribute::PROCESS_EXECUTABLE_NAME, &info.executable),
        (attribute::PROCESS_EXECUTABLE_PATH, &info.executable_path),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        all.insert(key.to_owned(), text.clone().into());
    }
    all.insert(attribute::PROCESS_PID.to_owned(), i64::from(info.process.pid).into());
    all.insert(attribute::SERVICE_NAME.to_owned(), service_name(info).into());
    let instance = instance("process", host).with_word(u64::from(info.process.pid));
    let instance = instance.with_word(info.process.start_ns / START_UNIT_NS).uuid();
    all.insert(attribute::SERVICE_INSTANCE_ID.to_owned(), instance.into());
    let known = info.attributes.iter().filter(|(key, _)| !key.starts_with("gen_ai."));
    all.extend(known.map(|(key, value)| (key.clone(), value.clone().into())));
    built(all)
}

#[cfg(test)]
mod tests {
    use event::ProcessId;
    use opentelemetry_proto::tonic::common::v1::any_value;

    use crate::resource::encoded;

    use super::*;

    fn text(resource: &Resource, key: &str) -> Option<String> {
        let encoded = encoded(resource);
        let value = encoded.attributes.into_iter().find(|a| a.key == key)?.value?.value?;
        Some(match value {
            any_value::Value::StringValue(text) => text,
            any_value::Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        })
    }

    fn info(pid: u32) -> ProcessInfo {
        ProcessInfo {
            process: ProcessId { pid, start_ns: 5 },
            executable: "shard".to_owned(),
            attributes: vec![("k8s.pod.uid".to_owned(), "p".to_owned())],
            ..ProcessInfo::default()
        }
    }

    #[test]
    fn resource_identifies_process_and_host() {
        let host = [("host.name".to_owned(), "node-1".to_owned())];
        let resource = process(&info(7), &host);
        for (key, want) in [
            ("process.pid", "7"),
            ("process.executable.name", "shard"),
            ("service.name", "shard"),
            ("host.name", "node-1"),
            ("k8s.pod.uid", "p"),
            ("telemetry.sdk.name", "opentelemetry"),
            ("telemetry.distro.name", "warptap"),
        ] {
            assert_eq!(text(&resource, key).as_deref(), Some(want), "{key}");
        }
        assert_eq!(text(&resource, "container.id"), None);
    }

    #[test]
    fn configured_service_name_takes_precedence() {
        let mut named = info(7);
        named.attributes.push(("service.name".to_owned(), "chat".to_owned()));
        assert_eq!(text(&process(&named, &[]), "service.name").as_deref(), Some("chat"));
    }

    #[test]
    fn service_instance_id_is_unique_and_stable() {
        let id = |pid| text(&process(&info(pid), &[]), "service.instance.id");
        assert_ne!(id(7), id(8));
        assert_eq!(id(7), id(7));
    }

    /// Receivers read the start from the kernel or from /proc.
    #[test]
    fn service_instance_id_is_that_of_any_receiver() {
        let id = |start_ns| {
            let process = ProcessId { pid: 7, start_ns };
            text(&super::process(&ProcessInfo { process, ..info(7) }, &[]), "service.instance.id")
        };
        assert_eq!(id(1_234_567_891), id(1_230_000_000));
        assert_ne!(id(1_234_567_891), id(1_240_000_000));
    }

    #[test]
    fn keys_are_sorted() {
        let encoded = encoded(&process(&info(7), &[]));
        assert!(encoded.attributes.windows(2).all(|w| w[0].key < w[1].key));
    }
}
