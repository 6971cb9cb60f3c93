//! Problems with the configuration, in the words of the Collector.

use config::{Node, Section};

use crate::{QueueConfig, RetryConfig};

/// Returns the problems of a `retry_on_failure` and a `sending_queue`.
fn problems(json: &str) -> Vec<String> {
    config::section! {
        struct Config {
            sending_queue: config::Optional<QueueConfig>,
            retry_on_failure: RetryConfig,
        }
    }
    let node: Node = serde_json::from_str(json).unwrap();
    let section = Section::new("exporters::x", &node);
    let (config, mut problems) = section.read::<Config>();
    config.retry_on_failure.check(&mut problems);
    QueueConfig::check(&config.sending_queue, &mut problems);
    problems.finish().map_or_else(
        |e| e.problems().iter().map(|p| format!("{}: {}", p.path, p.message)).collect(),
        |()| Vec::new(),
    )
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        (r#"{"retry_on_failure": {"max_elapsed_time": 0}, "sending_queue": {}}"#, ""),
        (
            r#"{"retry_on_failure": {"multiplier": -1}}"#,
            "retry_on_failure::multiplier: -1 is out of range: expected 0 or more",
        ),
        (
            r#"{"retry_on_failure": {"randomization_factor": 1.5}}"#,
            "randomization_factor: 1.5 is out of range: expected 0 to 1",
        ),
        (
            r#"{"retry_on_failure": {"enabled": false, "max_elapsed_time": "20s"}}"#,
            "'max_elapsed_time' must not be less than 'max_interval'",
        ),
        (
            r#"{"retry_on_failure": {"max_elapsed_time": "1s", "max_interval": "1s"}}"#,
            "'max_elapsed_time' must not be less than 'initial_interval'",
        ),
        (r#"{"sending_queue": {"queue_size": 0}}"#, "queue_size: 0 is out of range: expected 1 or more"),
        (
            r#"{"sending_queue": {"num_consumers": 0}}"#,
            "sending_queue::num_consumers: 0 is out of range: expected 1 or more",
        ),
        (r#"{"sending_queue": {"enabled": false, "num_consumers": 0}}"#, ""),
        (r#"{"sending_queue": {"sizer": "spans"}}"#, "spans"),
        (r#"{"sending_queue": {"batch": {}}}"#, ""),
        (
            r#"{"sending_queue": {"sizer": "items", "batch": {}}}"#,
            "`min_size` must be less than or equal to `queue_size`",
        ),
        (r#"{"sending_queue": {"sizer": "items", "queue_size": 8192, "batch": {}}}"#, ""),
        (
            r#"{"sending_queue": {"sizer": "requests", "batch": {}}}"#,
            "supports only `items` or `bytes` sizer, found \"requests\"",
        ),
        (
            r#"{"sending_queue": {"batch": {"flush_timeout": 0}}}"#,
            "flush_timeout: 0s is out of range: expected more than 0s",
        ),
        (
            r#"{"sending_queue": {"batch": {"min_size": -1}}}"#,
            "batch::min_size: -1 is out of range: expected 0 or more",
        ),
        (
            r#"{"sending_queue": {"batch": {"max_size": -1}}}"#,
            "max_size: -1 is out of range: expected 0 or more",
        ),
        (
            r#"{"sending_queue": {"batch": {"max_size": 10}}}"#,
            "`max_size` (10) must be greater or equal to `min_size` (8192)",
        ),
        (r#"{"sending_queue": {"batch": {"enabled": false, "max_size": 10}}}"#, ""),
        (
            r#"{"sending_queue": {"batch": {"partition": {"metadata_keys": ["a", "A"]}}}}"#,
            "duplicate entry in metadata_keys: \"a\" (case-insensitive)",
        ),
        (r#"{"sending_queue": {"batch": {"timeout": "1s"}}}"#, "invalid keys: timeout"),
        (
            r#"{"sending_queue": {"storage": "file_storage", "wait_for_result": true}}"#,
            "`wait_for_result` is not supported",
        ),
        (r#"{"sending_queue": {"storage": "9"}}"#, "sending_queue::storage: "),
        (r#"{"sending_queue": {"batch": null, "storage": "file_storage/x"}}"#, ""),
    ] {
        let found = problems(json);
        assert_eq!(found.len(), usize::from(!want.is_empty()), "{json}: {found:?}");
        assert!(found.iter().all(|p| p.contains(want)), "{json}: {found:?}");
    }
}
