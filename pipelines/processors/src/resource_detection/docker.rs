//! The detector `docker`: the host of the Docker daemon, queried through its unix socket.
//!
//! A process in a container sees the container's host name; the daemon knows that of the machine.

use std::path::{Path, PathBuf};

use component::BoxFuture;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use transport::connect::Dial;

use super::http::Api;
use super::switches::{Default as Switch, Switches};
use super::{Detector, Found, system, text};

/// The attributes of this detector.
pub(super) const ATTRIBUTES: [Switch; 4] =
    [("container.image.name", false), ("container.name", false), ("host.name", true), ("os.type", true)];

const SOCKET: &str = "/var/run/docker.sock";

config::section! {
    /// The section `docker`.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct DockerConfig {
        /// Attributes to detect, by name.
        pub(super) resource_attributes: Switches,
    }
}

pub(super) struct Docker {
    socket: PathBuf,
    switches: Switches,
    is_strict: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    name: String,
    #[serde(rename = "OSType")]
    os_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Container {
    name: String,
    config: ContainerConfig,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ContainerConfig {
    image: String,
}

impl Detector for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn detect(&self) -> BoxFuture<'_, Result<Found, String>> {
        Box::pin(async {
            match self.query().await {
                Ok(found) => Ok(found),
                Err(why) if self.is_strict => Err(format!("docker metadata unavailable: {why}")),
                Err(why) => {
                    tracing::debug!(error = why, "docker metadata unavailable");
                    Ok(Found::default())
                }
            }
        })
    }
}

impl Docker {
    pub(super) fn new(config: &DockerConfig, is_strict: bool) -> Self {
        // `DOCKER_HOST` is used as by Docker's own tools; only unix sockets are supported.
        let host = std::env::var("DOCKER_HOST").unwrap_or_default();
        let socket = host.strip_prefix("unix://").unwrap_or(SOCKET).into();
        Docker { socket, switches: config.resource_attributes.clone(), is_strict }
    }

    fn is_on(&self, attribute: &str) -> bool {
        self.switches.is_on(attribute, &ATTRIBUTES)
    }

    async fn query(&self) -> Result<Found, String> {
        let mut attributes = Vec::new();
        if self.is_on("os.type") || self.is_on("host.name") {
            let info: Info = self.get("/info").await?;
            attributes.extend(self.is_on("host.name").then(|| text("host.name", info.name)));
            attributes.extend(self.is_on("os.type").then(|| text("os.type", info.os_type.to_lowercase())));
        }
        if self.is_on("container.name") || self.is_on("container.image.name") {
            // The host name of a container is its id unless configured otherwise.
            let id = system::host_name(Path::new("/"))?;
            let container: Container = self.get(&format!("/containers/{id}/json")).await?;
            let name = container.name.trim_start_matches('/');
            attributes.extend(self.is_on("container.name").then(|| text("container.name", name)));
            let image = container.config.image;
            let is_on = self.is_on("container.image.name");
            attributes.extend(is_on.then(|| text("container.image.name", image)));
        }
        Ok(Found::new(attributes))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, String> {
        let dial = Dial { unix: Some(self.socket.clone()), ..Dial::plain() };
        let got = Api::new(dial, "http://docker".to_owned(), None).get(path).await;
        got.map_err(|e| format!("{}: {e}", self.socket.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource_detection::tests::answer_each;

    /// Queries a daemon with these answers.
    async fn query(
        switches: &str,
        is_strict: bool,
        answers: &'static [(&'static str, &'static str)],
    ) -> Result<Found, String> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let daemon = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                answer_each(stream, answers).await;
            }
        });
        let switches = serde_json::from_str(switches).unwrap();
        let answer = Docker { socket, switches, is_strict }.detect().await;
        daemon.abort();
        answer
    }

    #[tokio::test]
    async fn machine_name_comes_from_the_daemon() {
        let answers = &[("GET /info ", r#"{"Name":"node-7","OSType":"linux","Containers":3}"#)];
        let found = query("{}", true, answers).await.unwrap();
        assert_eq!(found, Found::new(vec![text("host.name", "node-7"), text("os.type", "linux")]));
        let found = query(r#"{"os.type": {"enabled": false}}"#, true, answers).await.unwrap();
        assert_eq!(found.attributes, [text("host.name", "node-7")]);
    }

    #[tokio::test]
    async fn container_of_the_process_is_detected() {
        let switches = r#"{"os.type": {"enabled": false}, "host.name": {"enabled": false},
                           "container.name": {"enabled": true}, "container.image.name": {"enabled": true}}"#;
        let answers = &[("GET /containers/", r#"{"Name":"/agent","Config":{"Image":"warptap:1"}}"#)];
        let found = query(switches, true, answers).await.unwrap();
        assert_eq!(
            found.attributes,
            [text("container.name", "agent"), text("container.image.name", "warptap:1")]
        );
    }

    #[tokio::test]
    async fn missing_daemon_is_an_error_only_if_required() {
        let query = |is_strict| Docker {
            socket: "/nowhere/docker.sock".into(),
            switches: Switches::default(),
            is_strict,
        };
        assert_eq!(query(false).detect().await, Ok(Found::default()));
        let error = query(true).detect().await.unwrap_err();
        assert!(error.starts_with("docker metadata unavailable: /nowhere/docker.sock: "), "{error}");
    }

    #[tokio::test]
    async fn an_invalid_answer_is_an_error() {
        for answers in [&[("GET /info ", "no JSON")][..], &[]] {
            assert!(query("{}", true, answers).await.is_err());
        }
    }
}
