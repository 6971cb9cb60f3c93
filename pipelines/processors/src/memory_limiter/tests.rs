//! Refusals by memory in use, and checks of the configuration. Tests set the memory in use.

use std::sync::atomic::{AtomicU64, Ordering};

use component::testing::{Sink, problems};

use super::*;

const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{}]}]}]}"#;

/// Creates a limiter of 100 MiB; returns it with its simulated memory in use.
fn limiter(
    used: &Arc<AtomicU64>,
    host: &Host,
    sink: Arc<Sink>,
    stop: CancellationToken,
) -> (Arc<dyn Consumer>, Running) {
    let config = MemoryLimiterConfig {
        check_interval: GoDuration::from_secs(1),
        limit_mib: 100,
        spike_limit_mib: 40,
        ..MemoryLimiterConfig::default()
    };
    let soft_limit = config.soft_limit_bytes(0);
    let limiter = MemoryLimiter { id: ComponentId::parse("memory_limiter").unwrap(), config };
    let used = used.clone();
    limiter.start_measuring(soft_limit, move || Some(used.load(Ordering::Relaxed)), sink, host, stop)
}

#[tokio::test(start_paused = true)]
async fn data_is_refused_above_the_soft_limit() {
    let (used, sink, stop) = (Arc::new(AtomicU64::new(0)), Sink::new(), CancellationToken::new());
    let host = Host::detached().of("memory_limiter");
    let (front, running) = limiter(&used, &host, sink.clone(), stop.clone());
    let status = || host.state().components().remove("memory_limiter");
    let running = tokio::spawn(running);
    let send = async || {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        front.consume(pdata::json::decode(Signal::Logs, LOGS.as_bytes()).unwrap()).await
    };
    used.store(60 * MIB - 1, Ordering::Relaxed);
    assert_eq!(send().await, Ok(()));
    used.store(60 * MIB, Ordering::Relaxed);
    let refused = send().await.unwrap_err();
    assert_eq!(refused, Refused::retryable("data refused due to high memory usage"));
    assert_eq!(status(), Some(ComponentStatus::RecoverableError(REFUSED.to_owned())));
    used.store(200 * MIB, Ordering::Relaxed);
    assert!(send().await.is_err());
    used.store(0, Ordering::Relaxed);
    assert_eq!(send().await, Ok(()));
    assert_eq!(status(), Some(ComponentStatus::Ok));
    assert_eq!(sink.take().len(), 2);
    stop.cancel();
    running.await.unwrap();
}

#[test]
fn the_soft_limit_is_the_limit_minus_the_spike() {
    let check = |json: &str, total: u64, want: u64| {
        let node: config::Node = serde_json::from_str(json).unwrap();
        let config: MemoryLimiterConfig = Section::new("x", &node).decode().unwrap();
        assert_eq!(config.soft_limit_bytes(total), want, "{json}");
    };
    check(r#"{"limit_mib": 100}"#, 0, 80 * MIB);
    check(r#"{"limit_mib": 100, "spike_limit_mib": 10}"#, 0, 90 * MIB);
    check(r#"{"limit_percentage": 50}"#, 1000, 400);
    check(r#"{"limit_percentage": 80, "spike_limit_percentage": 25}"#, 1000, 550);
    check(r#"{"limit_mib": 100, "limit_percentage": 1}"#, 1000, 80 * MIB);
}

#[test]
fn wrong_settings_are_refused() {
    for (json, want) in [
        (r#"{"check_interval": "1s", "limit_mib": 4000}"#, vec![]),
        (r#"{"check_interval": "1s", "limit_percentage": 100, "spike_limit_percentage": 20}"#, vec![]),
        (
            r#"{"check_interval": "1s", "limit_mib": 1, "min_gc_interval_when_hard_limited": "5s",
                "max_gc_interval_when_soft_limited": 0, "max_gc_interval_when_hard_limited": 0}"#,
            vec![],
        ),
        (
            "{}",
            vec![
                "x: 'limit_mib' or 'limit_percentage' must be greater than zero",
                "x::check_interval: 0s is out of range: expected more than 0s",
            ],
        ),
        (
            r#"{"check_interval": "1s", "limit_mib": 10, "spike_limit_mib": 10}"#,
            vec!["x::spike_limit_mib: 'spike_limit_mib' must be smaller than 'limit_mib'"],
        ),
        (
            r#"{"check_interval": "1s", "limit_percentage": 101}"#,
            vec!["x::limit_percentage: 101 is out of range: expected 0 to 100"],
        ),
        (
            r#"{"check_interval": "1s", "limit_percentage": 50, "spike_limit_percentage": 50}"#,
            vec!["x::spike_limit_percentage: 'spike_limit_percentage' must be smaller"],
        ),
        (
            r#"{"check_interval": "1s", "limit_mib": 1, "min_gc_interval_when_hard_limited": "11s"}"#,
            vec![
                "x::min_gc_interval_when_soft_limited: 'min_gc_interval_when_soft_limited' should be larger",
            ],
        ),
        (
            r#"{"check_interval": "1s", "limit_mib": 1, "max_gc_interval_when_soft_limited": "20s"}"#,
            vec![
                "x::max_gc_interval_when_soft_limited: 'max_gc_interval_when_soft_limited' should be larger",
            ],
        ),
        (r#"{"check_interval": "1s", "limit_mib": -1}"#, vec!["-1"]),
        (
            r#"{"check_interval": "1s", "limit_mib": 1, "ballast_size_mib": 5}"#,
            vec!["invalid keys: ballast_size_mib"],
        ),
    ] {
        let mut found = problems(&FACTORY, json);
        found.sort();
        assert_eq!(found.len(), want.len(), "{json}: {found:?}");
        assert!(found.iter().zip(&want).all(|(f, w)| f.contains(w)), "{json}: {found:?}");
    }
}
