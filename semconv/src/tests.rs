//! The registry as a whole: names are legal, sorted, and upstream's are upstream's.

use std::collections::BTreeSet;

use opentelemetry_semantic_conventions::attribute as upstream;

use super::*;

fn is_name(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && !part.ends_with('_')
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    })
}

#[test]
fn names_are_lower_case_words_joined_by_dots() {
    let names = METRICS.iter().map(|m| m.name).chain(ATTRIBUTES.iter().map(|a| a.key));
    let names = names.chain(SPANS.iter().map(|s| s.name)).chain(EVENTS.iter().map(|e| e.name));
    for name in names {
        assert!(is_name(name) && name.contains('.'), "{name}");
    }
}

#[test]
fn tables_are_sorted_and_say_each_name_once() {
    assert!(METRICS.windows(2).all(|w| w[0].name < w[1].name));
    assert!(ATTRIBUTES.windows(2).all(|w| w[0].key < w[1].key));
    assert!(METRICS.iter().all(|m| m.attributes.windows(2).all(|w| w[0].key < w[1].key)));
}

#[test]
fn attributes_in_use_and_rows_are_equal() {
    let uses = METRICS.iter().map(|m| m.attributes).chain(SPANS.iter().map(|s| s.attributes));
    let uses = uses.chain(EVENTS.iter().map(|e| e.attributes)).chain([RESOURCE]);
    let used: BTreeSet<&str> = uses.flatten().map(|u| u.key).collect();
    let rows: BTreeSet<&str> = ATTRIBUTES.iter().map(|a| a.key).collect();
    assert_eq!(used, rows);
}

#[test]
fn units_are_in_no_name_and_durations_are_seconds() {
    for metric in METRICS {
        let last = metric.name.rsplit('.').next().unwrap_or_default();
        assert!(!["seconds", "ms", "ns", "total"].contains(&last), "{}", metric.name);
        assert!(last != "duration" || metric.unit == "s", "{}: {}", metric.name, metric.unit);
    }
}

#[test]
fn no_metric_of_ours_takes_an_attribute_without_bound() {
    // One value per process, per probe row, or per error code of a library; communicators, XIDs and
    // names of kernels up to a configured bound; hardware attributes have one value per device or part of one.
    let bounded = [
        "error.type",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gpu.cuda.kernel.name",
        "gpu.cuda.operation.name",
        "gpu.xid",
        "nccl.communicator.hash",
        "nccl.function",
        "nccl.rank",
    ];
    let is_bounded =
        |key: &str| bounded.contains(&key) || key.starts_with("hw.") || key == "network.io.direction";
    for used in METRICS.iter().flat_map(|m| m.attributes) {
        let is_set = attribute_of(used.key).is_some_and(|a| !a.values.is_empty());
        assert!(is_set || is_bounded(used.key), "{}", used.key);
    }
}

#[test]
fn upstream_names_are_upstreams() {
    #[expect(deprecated, reason = "gen_ai moved to a registry of its own, which has no crate yet")]
    let theirs = [
        (attribute::CONTAINER_ID, upstream::CONTAINER_ID, "container.id"),
        (attribute::ERROR_TYPE, upstream::ERROR_TYPE, "error.type"),
        (attribute::GEN_AI_PROVIDER_NAME, upstream::GEN_AI_PROVIDER_NAME, "gen_ai.provider.name"),
        (attribute::GEN_AI_REQUEST_MODEL, upstream::GEN_AI_REQUEST_MODEL, "gen_ai.request.model"),
        (attribute::HOST_ARCH, upstream::HOST_ARCH, "host.arch"),
        (attribute::HOST_ID, upstream::HOST_ID, "host.id"),
        (attribute::HOST_NAME, upstream::HOST_NAME, "host.name"),
        (attribute::HW_DRIVER_VERSION, upstream::HW_DRIVER_VERSION, "hw.driver_version"),
        (attribute::HW_FIRMWARE_VERSION, upstream::HW_FIRMWARE_VERSION, "hw.firmware_version"),
        (attribute::HW_GPU_TASK, upstream::HW_GPU_TASK, "hw.gpu.task"),
        (attribute::HW_ID, upstream::HW_ID, "hw.id"),
        (attribute::HW_MODEL, upstream::HW_MODEL, "hw.model"),
        (attribute::HW_NAME, upstream::HW_NAME, "hw.name"),
        (attribute::HW_PARENT, upstream::HW_PARENT, "hw.parent"),
        (attribute::HW_SENSOR_LOCATION, upstream::HW_SENSOR_LOCATION, "hw.sensor_location"),
        (attribute::HW_SERIAL_NUMBER, upstream::HW_SERIAL_NUMBER, "hw.serial_number"),
        (attribute::HW_STATE, upstream::HW_STATE, "hw.state"),
        (attribute::HW_TYPE, upstream::HW_TYPE, "hw.type"),
        (attribute::HW_VENDOR, upstream::HW_VENDOR, "hw.vendor"),
        (attribute::NETWORK_IO_DIRECTION, upstream::NETWORK_IO_DIRECTION, "network.io.direction"),
        (attribute::OS_TYPE, upstream::OS_TYPE, "os.type"),
        (attribute::PROCESS_EXECUTABLE_NAME, upstream::PROCESS_EXECUTABLE_NAME, "process.executable.name"),
        (attribute::PROCESS_EXECUTABLE_PATH, upstream::PROCESS_EXECUTABLE_PATH, "process.executable.path"),
        (attribute::PROCESS_EXIT_CODE, upstream::PROCESS_EXIT_CODE, "process.exit.code"),
        (attribute::PROCESS_PID, upstream::PROCESS_PID, "process.pid"),
        (attribute::SERVICE_INSTANCE_ID, upstream::SERVICE_INSTANCE_ID, "service.instance.id"),
        (attribute::SERVICE_NAME, upstream::SERVICE_NAME, "service.name"),
        (attribute::SERVICE_VERSION, upstream::SERVICE_VERSION, "service.version"),
        (attribute::TELEMETRY_DISTRO_NAME, upstream::TELEMETRY_DISTRO_NAME, "telemetry.distro.name"),
        (attribute::TELEMETRY_DISTRO_VERSION, upstream::TELEMETRY_DISTRO_VERSION, "telemetry.distro.version"),
        (attribute::TELEMETRY_SDK_LANGUAGE, upstream::TELEMETRY_SDK_LANGUAGE, "telemetry.sdk.language"),
        (attribute::TELEMETRY_SDK_NAME, upstream::TELEMETRY_SDK_NAME, "telemetry.sdk.name"),
        (attribute::TELEMETRY_SDK_VERSION, upstream::TELEMETRY_SDK_VERSION, "telemetry.sdk.version"),
        (attribute::THREAD_ID, upstream::THREAD_ID, "thread.id"),
    ];
    for (ours, upstream, text) in theirs {
        assert_eq!((ours, upstream), (text, text));
    }
    let rows: Vec<&str> = ATTRIBUTES.iter().filter(|a| a.is_upstream).map(|a| a.key).collect();
    assert_eq!(rows, theirs.map(|(_, _, text)| text));
}

#[test]
fn a_metrics_series_are_bounded_by_its_attributes() {
    assert_eq!(metric::GPU_STEP_OUTLIERS.series_max(|_| 1), 6 * 4 * 6);
    assert_eq!(metric::GPU_CUDA_MEMORY_LIVE.series_max(|_| 7), 2);
    assert_eq!(metric::WARPTAP_STEP_UNMEASURED.series_max(|_| 7), 1);
    assert_eq!(metric_of("gpu.step.duration"), Some(&*metric::GPU_STEP_DURATION));
    assert_eq!(metric::GPU_STEP_DURATION.series_max(|_| 2), 2 * 2 * 4 * 6);
}

#[test]
fn hardware_metrics_of_upstreams_names_are_upstreams() {
    use opentelemetry_semantic_conventions::metric as upstream;
    let theirs = [
        upstream::HW_ENERGY,
        upstream::HW_ERRORS,
        upstream::HW_FAN_SPEED_RATIO,
        upstream::HW_GPU_IO,
        upstream::HW_GPU_MEMORY_LIMIT,
        upstream::HW_GPU_MEMORY_USAGE,
        upstream::HW_GPU_MEMORY_UTILIZATION,
        upstream::HW_GPU_UTILIZATION,
        upstream::HW_POWER,
        upstream::HW_STATUS,
        upstream::HW_TEMPERATURE,
    ];
    let ours: Vec<&str> = METRICS.iter().map(|m| m.name).filter(|name| name.starts_with("hw.")).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn no_attribute_is_the_namespace_of_another() {
    for attribute in ATTRIBUTES.iter().filter(|a| !a.is_upstream) {
        let namespace = format!("{}.", attribute.key);
        let inside = ATTRIBUTES.iter().find(|other| other.key.starts_with(&namespace));
        assert_eq!(inside, None, "{}", attribute.key);
    }
}

#[test]
fn own_metrics_have_the_collectors_prefix_and_are_sorted() {
    assert!(OWN_METRICS.windows(2).all(|w| w[0].name < w[1].name));
    let is_own = |m: &Metric| m.name.starts_with("otelcol_") || m.name.starts_with("warptap_");
    assert!(OWN_METRICS.iter().all(is_own));
    assert!(
        OWN_METRICS
            .iter()
            .all(|m| m.description.ends_with("[Alpha]") || m.description.ends_with("[Development]"))
    );
}
