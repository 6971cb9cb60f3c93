//! Detectors of cloud platforms: by metadata servers, by variables and files that a platform sets.
//!
//! Each platform is a row of [`PLATFORMS`]: its attributes, and the function that detects them. Facts are those of the platforms'
//! documentation and of the Collector's detectors of the same names (contrib v0.159). A platform that is absent has no attributes; with
//! `fail_on_missing_metadata` that is an error.

mod aws;
mod azure;
mod gcp;
mod others;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::config::{GoDuration, Problems};
use component::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use regex::Regex;
use tokio::time::timeout;
use transport::connect::Dial;

use super::http::{Api, ApiError};
use super::switches::{Default as Switch, Switches};
use super::{Detector, Found, text};

/// Where the metadata of AWS and Azure are, by a link-local address (IMDS).
const METADATA_SERVER: &str = "http://169.254.169.254";

/// Longest wait for a metadata server, which answers in milliseconds if it is there. Elsewhere nothing may answer at all.
const ANSWER_MAX: Duration = Duration::from_secs(2);

::config::section! {
    /// The section of a cloud platform.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct CloudConfig {
        /// Attributes to detect, by name.
        pub(super) resource_attributes: Switches,
    }

    /// The section `ec2`.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct Ec2Config {
        ..cloud: CloudConfig,
        /// Regular expressions of the keys of tags that are attributes `ec2.tag.<key>`. They need `tags_from_imds: true`: the API of
        /// EC2 is not asked.
        pub(super) tags: Vec<String>,
        /// Whether tags are read from the metadata server, which needs `InstanceMetadataTags=enabled`.
        pub(super) tags_from_imds: bool,
        /// Number of attempts of a request.
        max_attempts: u32 = 3 => unused "a detector is asked again until it succeeds",
        /// Longest delay between attempts.
        max_backoff: GoDuration = GoDuration::from_secs(20) => unused "a detector is asked again until it succeeds",
        /// Whether the start fails if this is no instance of EC2; an older place of the key of the processor.
        pub(super) fail_on_missing_metadata: bool,
    }

    /// The section `azure`.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct AzureConfig {
        ..cloud: CloudConfig,
        /// Regular expressions of the names of tags that are attributes `azure.tag.<name>`.
        pub(super) tags: Vec<String>,
    }
}

/// The settings of a platform.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) switches: Switches,
    /// Tags that are attributes.
    pub(super) tags: Vec<Regex>,
    pub(super) is_strict: bool,
}

impl Settings {
    /// Compiles regular expressions of tags; adds a problem for each that is none.
    pub(super) fn with_tags(mut self, path: &str, tags: &[String], problems: &mut Problems<'_>) -> Self {
        for (index, tag) in tags.iter().enumerate() {
            self.tags.extend(problems.take(&format!("{path}[{index}]"), Regex::new(tag)));
        }
        self
    }

    fn has_tag(&self, name: &str) -> bool {
        self.tags.iter().any(|tag| tag.is_match(name))
    }
}

/// What a detector finds out from.
pub(super) struct World {
    /// The metadata server of AWS and Azure.
    metadata: String,
    /// The metadata server of Google Cloud.
    google: String,
    /// Returns a variable of the environment, if it is set and not empty.
    variable: fn(&str) -> Option<String>,
    /// The root of files.
    root: PathBuf,
}

impl Default for World {
    fn default() -> Self {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let google = variable("GCE_METADATA_HOST").unwrap_or_else(|| "metadata.google.internal".to_owned());
        World {
            metadata: METADATA_SERVER.to_owned(),
            google: format!("http://{google}"),
            variable,
            root: PathBuf::from("/"),
        }
    }
}

impl World {
    fn variable(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    /// Reads a file; none if there is no such file.
    fn read(&self, path: &str) -> Result<Option<String>, Missing> {
        let path = self.root.join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)));
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Missing::Failed(format!("{}: {e}", path.display()))),
        }
    }

    /// Returns a client of a metadata server that needs these headers.
    ///
    /// # Errors
    /// A value is not one of a header.
    fn api(base: &str, headers: &[(&'static str, &str)]) -> Result<Api, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = HeaderValue::try_from(*value).map_err(|e| format!("{base}: {e}"))?;
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(Api::with_headers(Dial::plain(), base.to_owned(), map))
    }
}

/// The reason why there are no attributes.
#[derive(Debug)]
pub(super) enum Missing {
    /// This is another platform.
    Absent(String),
    /// The platform does not answer as it should.
    Failed(String),
}

impl From<ApiError> for Missing {
    fn from(error: ApiError) -> Self {
        Missing::Failed(error.to_string())
    }
}

/// Attributes, or the reason why there are none.
type Answer = Result<Vec<KeyValue>, Missing>;

/// A platform.
pub(super) struct Platform {
    /// The name in the configuration.
    pub(super) name: &'static str,
    /// Its attributes, and whether they are enabled by default.
    pub(super) attributes: &'static [Switch],
    detect: for<'a> fn(&'a World, &'a Settings) -> BoxFuture<'a, Answer>,
}

/// All platforms, sorted by name.
pub(super) static PLATFORMS: [Platform; 9] = [
    azure::AKS,
    azure::AZURE,
    others::DYNATRACE,
    aws::EC2,
    aws::ECS,
    others::ELASTIC_BEANSTALK,
    gcp::GCP,
    others::HEROKU,
    others::LAMBDA,
];

/// Returns the platform of this name.
pub(super) fn platform(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.name == name)
}

/// The detector of a platform.
pub(super) struct Cloud {
    pub(super) platform: &'static Platform,
    pub(super) settings: Settings,
    pub(super) world: World,
}

impl Detector for Cloud {
    fn name(&self) -> &'static str {
        self.platform.name
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        Box::pin(async {
            let name = self.platform.name;
            match (self.platform.detect)(&self.world, &self.settings).await {
                Ok(attributes) => Ok(self.enabled(attributes)),
                Err(Missing::Failed(why)) => Err(why),
                Err(Missing::Absent(why)) if self.settings.is_strict => {
                    Err(format!("{name} metadata unavailable: {why}"))
                }
                Err(Missing::Absent(why)) => {
                    tracing::debug!(detector = name, reason = why, "metadata unavailable");
                    Ok(Found::default())
                }
            }
        })
    }
}

impl Cloud {
    fn enabled(&self, mut attributes: Vec<KeyValue>) -> Found {
        // Tags are no attributes of the platform, and selected already.
        let is_tag = |key: &str| !self.platform.attributes.iter().any(|(known, _)| *known == key);
        attributes
            .retain(|a| is_tag(&a.key) || self.settings.switches.is_on(&a.key, self.platform.attributes));
        Found::new(attributes)
    }
}

/// Returns the first answer of a metadata server, whose absence means that this is another platform.
async fn first<T>(answer: impl Future<Output = Result<T, ApiError>>) -> Result<T, Missing> {
    match timeout(ANSWER_MAX, answer).await {
        Ok(answer) => answer.map_err(|e| Missing::Absent(e.to_string())),
        Err(_) => {
            Err(Missing::Absent(format!("no answer of a metadata server within {} s", ANSWER_MAX.as_secs())))
        }
    }
}

/// Returns attributes of values that are known.
fn known(pairs: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Vec<KeyValue> {
    let pairs = pairs.into_iter();
    pairs.filter_map(|(key, value)| Some(text(key, value.filter(|value| !value.is_empty())?))).collect()
}

/// Returns a value that is always the same.
fn fixed(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Checks the switches of a platform.
pub(super) fn check(config: &CloudConfig, name: &str, problems: &mut Problems<'_>) {
    if let Some(platform) = platform(name) {
        config.resource_attributes.check(name, platform.attributes, problems);
    }
}

#[cfg(test)]
#[path = "cloud_tests.rs"]
mod tests;
