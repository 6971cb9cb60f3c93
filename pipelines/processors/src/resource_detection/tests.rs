//! Merging of detected attributes, retries, and checks of the configuration. Detectors return what a test sets.

use std::sync::atomic::{AtomicU32, Ordering};

use ::config::GoDuration;
use component::testing::{Sink, check_problem};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::*;

/// Answers one request with the first answer whose prefix it has, or with 403; returns the request.
pub(super) async fn answer_each(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: &[(&str, &str)],
) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let request = String::from_utf8(request).unwrap();
    let body = answers.iter().find(|(begin, _)| request.starts_with(begin)).map(|(_, body)| *body);
    let status = if body.is_some() { "200 OK" } else { "403 Forbidden" };
    let body = body.unwrap_or_default();
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(response.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    request
}

/// A detector that returns these attributes after a number of failures.
struct Fake {
    attributes: &'static [(&'static str, &'static str)],
    failures: AtomicU32,
}

impl Detector for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        let left = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        Box::pin(async move {
            match left {
                Ok(_) => Err("no route to host".to_owned()),
                Err(_) => Ok(Found::new(self.attributes.iter().map(|(k, v)| text(k, *v)).collect())),
            }
        })
    }
}

/// Sends a resource with these attributes through detectors; returns the output and the processor's status.
async fn pass(
    overrides: bool,
    resource: &str,
    detectors: &[(&'static [(&'static str, &'static str)], u32)],
) -> (String, Option<ComponentStatus>) {
    let detectors: Vec<Box<dyn Detector>> = detectors
        .iter()
        .map(|(attributes, failures)| {
            let failures = AtomicU32::new(*failures);
            Box::new(Fake { attributes, failures }) as Box<dyn Detector>
        })
        .collect();
    let config = ResourceDetectionConfig { r#override: overrides, ..Default::default() };
    let id = ComponentId::parse("resource_detection").unwrap();
    let processor = ResourceDetection { id, config, detectors: detectors.into() };
    let (sink, stop) = (Sink::new(), CancellationToken::new());
    let host = Host::detached().of("p");
    let (front, running) = Box::new(processor).start(sink.clone(), &host, stop.clone());
    let batch = format!(r#"{{"resourceLogs":[{{"resource":{{"attributes":[{resource}]}}}}]}}"#);
    front.consume(pdata::json::decode(Signal::Logs, batch.as_bytes()).unwrap()).await.unwrap();
    stop.cancel();
    running.await;
    let Some(Data::Logs(logs)) = sink.take().pop() else { panic!("logs went in") };
    let r = &logs.resource_logs[0];
    let pairs = r.resource.iter().flat_map(|r| &r.attributes);
    let pairs = pairs.map(|a| format!("{}={}", a.key, pdata::json::plain::text(a.value.as_ref())));
    let written = format!("{} {}", pairs.collect::<Vec<_>>().join(","), r.schema_url);
    (written.trim().to_owned(), host.state().components().remove("p"))
}

const HAS: &str = r#"{"key":"host.name","value":{"stringValue":"sent"}}"#;

#[tokio::test(start_paused = true)]
async fn detected_attributes_replace_those_of_data_unless_configured() {
    let detectors = [(&[("host.name", "found"), ("os.type", "linux")][..], 0)];
    let (merged, status) = pass(true, HAS, &detectors).await;
    assert_eq!(merged, format!("host.name=found,os.type=linux {SCHEMA_URL}"));
    assert_eq!(status, Some(ComponentStatus::Ok));
    assert_eq!(pass(false, HAS, &detectors).await.0, format!("host.name=sent,os.type=linux {SCHEMA_URL}"));
    assert_eq!(pass(false, "", &detectors).await.0, format!("host.name=found,os.type=linux {SCHEMA_URL}"));
}

#[tokio::test(start_paused = true)]
async fn the_first_detector_has_precedence() {
    let detectors = [(&[("a", "1")][..], 1), (&[("a", "2"), ("b", "2")], 0), (&[], 0)];
    assert_eq!(pass(true, "", &detectors).await.0, format!("a=1,b=2 {SCHEMA_URL}"));
}

#[tokio::test(start_paused = true)]
async fn failed_detectors_are_retried_and_do_not_stop_data() {
    assert_eq!(pass(true, "", &[(&[("a", "1")], 2)]).await.0, format!("a=1 {SCHEMA_URL}"));
    let (merged, status) = pass(true, HAS, &[(&[("a", "1")], 100), (&[("b", "2")], 0)]).await;
    assert_eq!(merged, format!("host.name=sent,b=2 {SCHEMA_URL}"));
    assert_eq!(status, Some(ComponentStatus::RecoverableError("fake: no route to host".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn detection_is_repeated_and_failures_keep_the_last_result() {
    let fake = Box::new(Fake { attributes: &[("a", "1")], failures: AtomicU32::new(0) });
    let refresh_interval = GoDuration::from_secs(60);
    let config = ResourceDetectionConfig { refresh_interval, ..Default::default() };
    let id = ComponentId::parse("resource_detection").unwrap();
    let detectors: Arc<[Box<dyn Detector>]> = vec![fake as Box<dyn Detector>].into();
    let processor = ResourceDetection { id, config, detectors };
    let (sender, mut found) = watch::channel(None);
    let host = Host::detached();
    let _detecting = tokio::spawn(async move { processor.detect_periodically(&sender, &host).await });
    for _ in 0..3 {
        found.changed().await.unwrap();
        assert_eq!(found.borrow_and_update().as_ref().unwrap().attributes.len(), 1);
    }
}

#[test]
fn wrong_settings_are_refused() {
    for (json, want) in [
        ("{}", ""),
        (r#"{"detectors": ["env", "system", "docker"], "timeout": "2s", "override": false}"#, ""),
        (
            r#"{"detectors": ["k8snode"], "k8snode": {"node_from_env_var": "N", "auth_type": "serviceAccount"}}"#,
            "",
        ),
        (
            r#"{"detectors": [], "system": {"hostname_sources": ["os"], "resource_attributes": {"host.id": {"enabled": true}}},
                "ec2": {"tags": ["^a"]}, "eks": {"x": 1}, "gcp": null}"#,
            "",
        ),
        (
            r#"{"detectors": ["env", "eks"]}"#,
            "x::detectors[1]: invalid detector key: \"eks\": expected one of aks, azure, docker, dynatrace, ec2, ecs, \
             elastic_beanstalk, env, gcp, heroku, k8s_api, k8snode, lambda, system",
        ),
        (r#"{"detectors": ["ec2", "gcp", "azure"], "ec2": {"tags": ["^a"], "tags_from_imds": true}}"#, ""),
        (
            r#"{"detectors": ["ec2"], "ec2": {"tags": ["^a"]}}"#,
            "x::ec2::tags: tags are read from the metadata server only",
        ),
        (r#"{"detectors": ["azure"], "azure": {"tags": ["("]}}"#, "x::azure::tags[0]: regex parse error"),
        (
            r#"{"ec2": {"resource_attributes": {"host.ip": {"enabled": true}}}}"#,
            "x::ec2::resource_attributes::host.ip: unknown resource attribute",
        ),
        (
            r#"{"system": {"hostname_sources": ["nis"]}}"#,
            "x::system::hostname_sources[0]: hostname_sources contains",
        ),
        (
            r#"{"docker": {"resource_attributes": {"host.id": {"enabled": true}}}}"#,
            "x::docker::resource_attributes::host.id: unknown resource attribute \"host.id\": expected one of",
        ),
        (
            r#"{"k8s_api": {"auth_type": "kubeConfig"}}"#,
            "x::k8s_api::auth_type: auth_type \"kubeConfig\" is not",
        ),
        (r#"{"attributes": ["host.name"]}"#, "invalid keys: attributes"),
    ] {
        check_problem(&FACTORY, json, want);
    }
}
