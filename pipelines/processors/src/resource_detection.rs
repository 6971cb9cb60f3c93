//! `resource_detection`: adds attributes of the environment to resources.
//!
//! Detectors run concurrently at the start, for at most `timeout`, and are retried until they succeed. Their
//! attributes are merged in the order of `detectors`, of which the first has precedence, and added to every
//! resource. Data waits for the first detection. A failed detector is logged and does not stop data.
//!
//! `config` is the configuration; each detector is a module: `env`, `system`, `docker`, `kubernetes`; cloud platforms are rows of `cloud`.

mod cloud;
mod config;
mod docker;
mod env;
mod http;
mod kubernetes;
mod switches;
mod system;

use std::sync::Arc;
use std::time::Duration;

use ::config::{ConfigError, Section};
use component::status::ComponentStatus;
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Refused, Running,
    Stability,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pdata::{Data, Signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

pub use self::config::ResourceDetectionConfig;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "resource_detection",
    aliases: &["resourcedetection"],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Adds attributes of the host, the container and the Kubernetes node to the resource.",
    example: "\
detectors: [env, system]
system:
  hostname_sources: [os]
",
    keys: ::config::keys::<ResourceDetectionConfig>,
    build,
};

/// The schema of detected attributes.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.40.0";
/// The delay before the first retry of a failed detector; it doubles.
const BACKOFF: Duration = Duration::from_secs(1);

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<ResourceDetectionConfig>();
    let detectors = config.detectors(&mut problems);
    problems.finish()?;
    Ok(Box::new(ResourceDetection { id: context.id.clone(), config, detectors: detectors.into() }))
}

/// A detector of attributes of the environment.
pub(crate) trait Detector: Send + Sync {
    /// Returns the name in the configuration.
    fn name(&self) -> &'static str;
    /// Returns the detected attributes: none if the resource is absent. An error is retried.
    fn detect(&self) -> BoxFuture<'_, Result<Found, String>>;
}

/// The detected attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    attributes: Vec<KeyValue>,
    schema_url: &'static str,
}

impl Found {
    /// Creates a result; the schema URL is empty if there are no attributes.
    fn new(attributes: Vec<KeyValue>) -> Self {
        let schema_url = if attributes.is_empty() { "" } else { SCHEMA_URL };
        Found { attributes, schema_url }
    }

    /// Adds attributes that are absent.
    fn add(&mut self, more: Found) {
        merge(&mut self.attributes, &more.attributes, false);
        if self.schema_url.is_empty() {
            self.schema_url = more.schema_url;
        }
    }

    fn apply(&self, resource: &mut Option<Resource>, schema_url: &mut String, overrides: bool) {
        if schema_url.is_empty() {
            self.schema_url.clone_into(schema_url);
        }
        if !self.attributes.is_empty() {
            merge(&mut resource.get_or_insert_default().attributes, &self.attributes, overrides);
        }
    }
}

fn merge(attributes: &mut Vec<KeyValue>, from: &[KeyValue], overrides: bool) {
    for attribute in from {
        match attributes.iter_mut().find(|a| a.key == attribute.key) {
            Some(there) if overrides => *there = attribute.clone(),
            Some(_) => {}
            None => attributes.push(attribute.clone()),
        }
    }
}

/// Returns a string attribute.
fn text(key: &str, text: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(text.into()))
}

/// Returns an attribute with an array of strings.
fn texts(key: &str, texts: Vec<String>) -> KeyValue {
    let values = texts.into_iter().map(|t| AnyValue { value: Some(Value::StringValue(t)) }).collect();
    attribute(key, Value::ArrayValue(ArrayValue { values }))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

struct ResourceDetection {
    id: ComponentId,
    config: ResourceDetectionConfig,
    detectors: Arc<[Box<dyn Detector>]>,
}

impl Processor for ResourceDetection {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let (sender, found) = watch::channel(None);
        let front = Front { found, overrides: self.config.r#override, next };
        let host = host.clone();
        let detecting = tokio::spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.detect_periodically(&sender, &host) => {}
            }
        });
        (Arc::new(front), Box::pin(async move { drop(detecting.await) }))
    }
}

impl ResourceDetection {
    /// Detects at the start and at every `refresh_interval`. A failed detection does not replace an earlier result.
    async fn detect_periodically(&self, sender: &watch::Sender<Option<Arc<Found>>>, host: &Host) {
        loop {
            let (found, failed) = self.detect().await;
            let is_first = sender.borrow().is_none();
            if failed.is_empty() {
                host.report(ComponentStatus::Ok);
            } else {
                host.report(ComponentStatus::RecoverableError(failed.join("; ")));
            }
            if is_first || failed.is_empty() {
                tracing::info!(processor = %self.id, attributes = found.attributes.len(), "detected resource information");
                sender.send_replace(Some(Arc::new(found)));
            }
            match self.config.refresh_interval.is_zero() {
                true => std::future::pending().await,
                false => sleep(*self.config.refresh_interval).await,
            }
        }
    }

    /// Returns the attributes of all detectors, and the errors of those that failed.
    async fn detect(&self) -> (Found, Vec<String>) {
        let deadline = Instant::now() + *self.config.timeout;
        let running: Vec<_> = (0..self.detectors.len())
            .map(|index| {
                let (detectors, id) = (self.detectors.clone(), self.id.clone());
                tokio::spawn(async move { detect_until(&*detectors[index], deadline, &id).await })
            })
            .collect();
        let (mut found, mut failed) = (Found::default(), Vec::new());
        for one in running {
            match one.await.unwrap_or_else(|e| Err(e.to_string())) {
                Ok(more) => found.add(more),
                Err(why) => failed.push(why),
            }
        }
        (found, failed)
    }
}

/// Runs a detector until it succeeds or the deadline passes.
async fn detect_until(detector: &dyn Detector, deadline: Instant, id: &ComponentId) -> Result<Found, String> {
    let mut backoff = BACKOFF;
    let mut first_error = None;
    let asked = async {
        loop {
            match detector.detect().await {
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(processor = %id, detector = detector.name(), error, "failed to detect resource");
                    first_error.get_or_insert(error);
                }
            }
            sleep(backoff).await;
            backoff *= 2;
        }
    };
    let in_time = timeout_at(deadline, asked).await;
    // The first error is the cause; the last one may be the timeout.
    in_time.map_err(|_| {
        format!("{}: {}", detector.name(), first_error.unwrap_or_else(|| "no answer in time".into()))
    })
}

/// The consumer that waits for the detection and merges its attributes into resources.
struct Front {
    found: watch::Receiver<Option<Arc<Found>>>,
    overrides: bool,
    next: Arc<dyn Consumer>,
}

impl Consumer for Front {
    fn consume(&self, mut data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let mut found = self.found.clone();
            // The detection is bounded by its timeout, and ends early if the collector stops.
            let found = found.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
            if let Some(found) = found {
                data.for_each_resource_mut(|resource, schema_url| {
                    found.apply(resource, schema_url, self.overrides);
                });
            }
            self.next.consume(data).await
        })
    }
}

#[cfg(test)]
mod tests;
